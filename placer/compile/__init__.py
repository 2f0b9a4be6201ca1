"""Whole networks, compiled: the cuts, layouts and placements that take the least time together."""

from placer.base import make_callable
from placer.compile.compiled import CompiledNetwork, CompiledSection, Progress, load_compiled
from placer.compile.config import CompileConfig, show_compiled, watch_on
from placer.compile.page import compiled_page, prediction_error, write_page
from placer.compile.search import Options, compile_network

make_callable(__name__)
