"""Searches for mappings: engines behind one interface, chains of wafers, walks by a cost."""

from placer.kernels.engines.chain import ChainOptions, map_wafers
from placer.kernels.engines.floorplan import Floorplan
from placer.kernels.engines.mapper import EngineName, map_kernels, warm_up
from placer.kernels.engines.rows import fill_rows
from placer.kernels.engines.search import Schedule, Search, finish_rectangles, frames_of
from placer.kernels.engines.shelf_search import anneal_shelves, change_order
from placer.kernels.engines.shelves import Shelves, floorplan_of, shelves_of
from placer.kernels.engines.slicing import slice_wafer
from placer.kernels.engines.strips import arrange, best_rows
from placer.kernels.engines.tbs import anneal_twins
from placer.kernels.engines.walks import State, start_state, walk
