"""Placement and routing on dataflow hardware: fabric, workloads, simulator, placers."""

from placer.compile_cache import use_source_keyed_cache

use_source_keyed_cache()
