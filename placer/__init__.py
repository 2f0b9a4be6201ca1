"""Placement and routing on dataflow hardware: fabric, workloads, simulator, placers."""

import sys
from types import TracebackType

from placer.compile_cache import use_source_keyed_cache

use_source_keyed_cache()


def _say_interrupted(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # the imports of a command, some seconds: Ctrl-C needs no traceback
    sys.excepthook = _say_interrupted
