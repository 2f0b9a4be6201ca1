"""The learned cost of mappings of kernels to a wafer (docs/wafer_model.md)."""

from costmodel.wafer.cost import LearnedMappingCost
from costmodel.wafer.dataset import WaferDataset, WaferHardware
from costmodel.wafer.features import WAFER_FEATURES
from costmodel.wafer.schema import WAFER_TABLES
