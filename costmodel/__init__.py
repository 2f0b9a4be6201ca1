"""Cost models that are learned from measurements: dataset, networks, training, inference."""

import placer as _placer  # noqa: F401 - says where numba caches, which numba reads when imported
