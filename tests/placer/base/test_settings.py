"""Settings refuse what their types do not allow, from YAML and from Python alike."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from placer.base import Count, Fill, InputError, OneOf, Positive, Settings, Share, Some, Whole, Within
from placer.base.config import to_dataclass
from placer.base.workers import ExecutorKind, Workers
from tests import ROOT


@dataclass(frozen=True, slots=True)
class Cooling(Settings):
    end: Positive = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Settings):
    moves: Count
    colours: Some[Annotated[str, OneOf(("red", "green"))]] = field(default_factory=lambda: ["red"])
    seed: Whole = 0
    share: Share = 0.5
    fill: Fill = 1.0
    limit: Positive | None = None
    sizes: tuple[Count, ...] | None = None
    weights: dict[str, Share] = field(default_factory=dict)
    rows: Annotated[int, Within(2, 64)] = 8
    cooling: Cooling = field(default_factory=Cooling)

    def check(self) -> None:
        if self.seed > self.moves:
            raise InputError("seed and moves do not go together")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSearch(Workers):
    moves: Count = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moves": 0}, "moves=0 is out of range; allowed: 1 or more"),
        ({"seed": -1}, "seed=-1 is out of range; allowed: 0 or more"),
        ({"share": 1.5}, "share=1.5 is out of range; allowed: 0 to 1"),
        ({"fill": 0.0}, "fill=0.0 is out of range; allowed: above 0 up to 1"),
        ({"fill": math.nan}, "fill=nan is out of range; allowed: above 0 up to 1"),
        ({"limit": math.inf}, "limit=inf is out of range; allowed: more than 0"),
        ({"rows": 65}, "rows=65 is out of range; allowed: 2 to 64"),
        ({"sizes": [1, 0]}, "sizes[1]=0 is out of range; allowed: 1 or more"),
        ({"weights": {"a": 2.0}}, "weights.a=2.0 is out of range; allowed: 0 to 1"),
        ({"colours": []}, "colours=[] is empty; allowed: one or more"),
        ({"colours": ["red", "gren"]}, "colours[1]='gren' is no choice; did you mean 'green'? allowed: green, red"),
        ({"seed": 9}, "seed and moves do not go together"),
    ],
)
def test_what_a_type_does_not_allow_is_refused(changes: dict[str, Any], message: str) -> None:
    given = {"moves": 1, **changes}
    for make in (lambda: Search(**given), lambda: to_dataclass(Search, OmegaConf.create(given))):
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value) == message


def test_the_key_of_a_nested_setting_is_told() -> None:
    config = OmegaConf.create({"moves": 1, "cooling": {"end": 0.0}})
    with pytest.raises(InputError, match=r"^cooling\.end=0\.0 is out of range; allowed: more"):
        to_dataclass(Search, config)
    with pytest.raises(InputError, match=r"^end=0\.0 is out of range"):
        Cooling(end=0.0)


@given(moves=st.integers(1, 99), share=st.floats(0, 1), sizes=st.lists(st.integers(1)))
def test_what_is_allowed_is_taken(moves: int, share: float, sizes: list[int]) -> None:
    made = Search(moves=moves, share=share, sizes=tuple(sizes))
    assert replace(made, limit=1.0) == Search(moves=moves, share=share, sizes=tuple(sizes), limit=1.0)


def test_settings_of_workers_are_inherited_flat() -> None:
    given = OmegaConf.create({"moves": 2, "executor": "ray", "workers": None, "ray_address": "x"})
    made = to_dataclass(SpreadSearch, given)
    assert made == SpreadSearch(moves=2, executor=ExecutorKind.RAY, workers=None, ray_address="x")
    with pytest.raises(InputError, match="workers=0 is out of range; allowed: 1 or more"):
        SpreadSearch(workers=0)


@pytest.mark.slow
def test_the_base_imports_nothing_that_few_commands_need() -> None:
    program = (
        "import sys, placer.base, placer.base.workers\n"
        "print(*({'hydra', 'jinja2', 'matplotlib', 'torch', 'ray'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
