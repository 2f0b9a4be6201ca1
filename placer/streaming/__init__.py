"""Instruction mapping on the Streaming Engine, a CGRA: which tile and which time slot runs what."""

from placer.streaming.check import Verdict, check
from placer.streaming.device import Device
from placer.streaming.mappers import MapOptions, Result, map_program
from placer.streaming.program import Instruction, Program
from placer.streaming.program_file import load_program

__all__ = [
    "Device",
    "Instruction",
    "MapOptions",
    "Program",
    "Result",
    "Verdict",
    "check",
    "load_program",
    "map_program",
]
