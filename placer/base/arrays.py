"""The types of arrays, one name for one type everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ShortArray = NDArray[np.int16]
IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
SingleArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
ByteArray = NDArray[np.uint8]
