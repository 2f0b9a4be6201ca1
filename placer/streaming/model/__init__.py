"""What is mapped, to what, by which rules; and what a mapping is worth, judged without any mapper.

Nothing here is compiled: wrong input is refused before solvers are loaded.
"""

from placer.streaming.model.check import Verdict, check
from placer.streaming.model.execute import execute, require_same_values
from placer.streaming.model.mapping import Budget, Found, Mapping
from placer.streaming.model.program import Instruction, Program
from placer.streaming.model.program_file import from_json, load_program, program_of, to_json
from placer.streaming.model.programs import PROGRAMS, growing_network, layered, softmax_row
from placer.streaming.model.rules import InfeasibleError, groups_of
from placer.streaming.model.settings import MOST_SEED, Device, MapOptions, MapperName, require_within
from placer.streaming.model.values import Meaning, evaluate, meaning_of
