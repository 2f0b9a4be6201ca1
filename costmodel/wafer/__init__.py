"""The learned cost of mappings of kernels to a wafer (docs/wafer_model.md)."""
