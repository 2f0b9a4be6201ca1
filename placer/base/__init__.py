"""What everything else is built on: errors, files, arrays, tables, settings, compiled loops."""

from placer.base.arrays import BoolArray, ByteArray, FloatArray, IntArray, LongArray, ShortArray, SingleArray
from placer.base.callable_module import make_callable
from placer.base.console import command_line, file_name, finite, make_console, notice_file_name, overview, plain
from placer.base.ctrl_c import Interrupt, keep_ctrl_c
from placer.base.errors import DoesNotFitError, InputError, explain_missing
from placer.base.files import (
    is_file_name,
    make_folder,
    new_file,
    output_file,
    parse_object,
    read_archive,
    read_text,
    require_folder,
    require_kind,
    write_atomic,
)
from placer.base.history import Published, read_figures, replaced, write_figures
from placer.base.jit import generic, hot, hot_loop, inlined, internal, vectorised
from placer.base.progress import NotedBar, StatusLine, counting_bar
from placer.base.random import RngState, below, rng_state, uniform
from placer.base.settings import (
    Count,
    Fill,
    OneOf,
    Positive,
    SettingError,
    Settings,
    Share,
    Some,
    Whole,
    Within,
    allowed_text,
    without_none,
)
from placer.base.sources import git_revision, source_key, sources_of
from placer.base.tables import Cell, Picture, Table, count_text, number, percent, png, write_report
