"""Commands as functions: `python -m placer.place` and `placer.place(...)` are one name.

A module whose class has a `__call__` can be called (the Python data model: customising module attribute
access). So `placer.place` is a function for a notebook whether or not somebody has imported the command,
and stays a module for `python -m` and `from placer.place import main`. What is called is the function of
the same name of `placer.door`, imported at the first call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import Any

DOOR = "placer.door"


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _function_of(self)(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:  # what editors and help() show
        return signature(_function_of(self))


def _function_of(module: ModuleType) -> Any:
    return getattr(import_module(DOOR), module.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Let a module that is being imported be called like the function of the same name of `placer.door`."""
    sys.modules[name].__class__ = _CallableModule
