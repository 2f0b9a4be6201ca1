"""Configuration: YAML and overrides become dataclasses, mistakes become one clear line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass, fields
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from placer.base import InputError
from placer.base.config import CONF_DIR, choices, compose_config, run_command, to_dataclass
from placer.fabric import Fabric, load_fabric
from placer.fabric.fabric import LinkSpec, OpSpec


class Colour(StrEnum):
    DARK_RED = "dark-red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 0
    HIGH = 1


@dataclass(frozen=True, slots=True)
class Inner:
    size: int
    scale: float = 1.0


class Sized(Protocol):
    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    inner: Inner
    table: dict[str, Inner]
    colour: Colour = Colour.BLUE
    level: Level = Level.LOW
    mode: Literal["fast", "exact"] = "fast"
    limit: int | None = None
    sizes: tuple[int, ...] = ()
    shapes: tuple[int, ...] | tuple[tuple[int, ...], ...] | None = None
    colours: Colour | tuple[Colour, ...] = Colour.BLUE
    items: list[Inner] | None = None
    path: Path = Path("out")
    is_loud: bool = False
    chosen: Sized | None = None


def _outer(**changes: Any) -> Outer:
    given = {"name": "a", "inner": {"size": 3}, "table": {}, **changes}
    return to_dataclass(Outer, OmegaConf.create(given))


def test_nested_frozen_dataclasses_are_built() -> None:
    assert _outer(
        table={"x": {"size": 1, "scale": 2}},
        colour="dark-red",
        level="high",
        mode="exact",
        limit=7,
        sizes=[1, 2],
        items=[{"size": 5}],
        path="a/b",
        is_loud=True,
        chosen={"target": f"{__name__}.Inner", "size": 4},
    ) == Outer(
        name="a",
        inner=Inner(3),
        table={"x": Inner(1, 2.0)},
        colour=Colour.DARK_RED,
        level=Level.HIGH,
        mode="exact",
        limit=7,
        sizes=(1, 2),
        items=[Inner(5)],
        path=Path("a/b"),
        is_loud=True,
        chosen=Inner(4),
    )


def test_defaults_fill_what_is_not_given() -> None:
    assert _outer() == Outer("a", Inner(3), {})


def test_one_value_or_a_list_of_them() -> None:
    assert _outer(shapes=[1, 2]).shapes == (1, 2)
    assert _outer(shapes=[[1, 2], [3]]).shapes == ((1, 2), (3,))
    assert _outer(colours="dark-red").colours == Colour.DARK_RED
    assert _outer(colours=["blue", "dark-red"]).colours == (Colour.BLUE, Colour.DARK_RED)


def test_interpolations_are_resolved() -> None:
    assert _outer(limit="${inner.size}").limit == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nam": 1}, "unknown key nam (value 1); did you mean 'name'? allowed: chosen, colour, "),
        ({"inner": {"size": 1, "scal": 2}}, "unknown key inner.scal (value 2); did you mean"),
        ({"table": {"x": {"sice": 1}}}, "unknown key table.x.sice (value 1); did you mean 'size'?"),
        ({"inner": {"size": "big"}}, "inner.size='big' has the wrong type; expected int"),
        ({"inner": {"size": 2.5}}, "inner.size=2.5 has the wrong type; expected int"),
        ({"inner": {"size": True}}, "inner.size=True has the wrong type; expected int"),
        ({"inner": {"size": None}}, "inner.size=None has the wrong type; expected int"),
        ({"inner": 3}, "inner=3 has the wrong type; expected a group of keys: size, scale"),
        ({"table": 3}, "table=3 has the wrong type; expected dict[str,"),
        ({"sizes": [1, "b"]}, "sizes[1]='b' has the wrong type; expected int"),
        ({"shapes": 3}, "shapes=3 has the wrong type; expected tuple[int, ...] or tuple[tuple[int, ...], ...]"),
        ({"shapes": [[1], 2]}, "shapes=[[1], 2] has the wrong type; expected tuple[int, ...] or"),
        ({"colours": "bleu"}, "colours='bleu' is no choice; did you mean 'blue'? allowed: blue, dark"),
        ({"colours": ["blue", "bleu"]}, "colours[1]='bleu' is no choice; did you mean 'blue'?"),
        ({"items": 3}, "items=3 has the wrong type; expected list["),
        ({"items": [{}]}, "missing value: set items[0].size=<int>"),
        ({"name": "???"}, "missing value: set name=<str>"),
        ({"inner": {}}, "missing value: set inner.size=<int>"),
        ({"colour": "bleu"}, "colour='bleu' is no choice; did you mean 'blue'? allowed: blue, dark"),
        ({"level": "mid"}, "level='mid' is no choice; allowed: high, low"),
        ({"mode": "exac"}, "mode='exac' is no choice; did you mean 'exact'? allowed: exact, fast"),
        ({"chosen": 3}, "chosen=3 has the wrong type; expected a group of keys with"),
        ({"chosen": {"target": "pathlib.No"}}, "chosen.target='pathlib.No': module 'pathlib' has"),
        ({"chosen": {"target": "Inner"}}, "chosen.target='Inner': Empty module name; write "),
        ({"chosen": {"target": "pathlib.Path"}}, "chosen.target='pathlib.Path' is no dataclass"),
        ({"chosen": {"target": f"{__name__}.Inner"}}, "missing value: set chosen.size=<int>"),
        ({"limit": "${nothing}"}, "limit: Interpolation key 'nothing' not found"),
    ],
)
def test_mistakes_name_key_value_and_what_is_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        _outer(**changes)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@settings(max_examples=30)
@given(
    link=st.fixed_dictionaries(
        {}, optional={f.name: st.integers(1, 9) for f in fields(LinkSpec) if f.name != "channels"}
    ),
    ops=st.dictionaries(
        st.from_regex("[a-z]{1,8}", fullmatch=True),
        st.builds(OpSpec, depth_cycles=st.integers(1, 99), cycles_per_vector=st.integers(1, 9)),
        max_size=3,
    ),
)
def test_a_fabric_survives_the_way_through_yaml(link: dict[str, int], ops: dict[str, OpSpec]) -> None:
    fabric = Fabric("f", 4, 3, link=LinkSpec(**link), ops=ops)
    text = OmegaConf.to_yaml(OmegaConf.structured(fabric))
    assert to_dataclass(Fabric, OmegaConf.create(text)) == fabric


def test_defaults_in_the_code_are_those_of_the_base_file() -> None:
    given = OmegaConf.to_container(OmegaConf.load(CONF_DIR / "fabric" / "parts" / "base.yaml"))
    assert isinstance(given, dict)
    defaults = asdict(Fabric("f", 4, 4))
    for values in (given, defaults):
        for name in ("name", "columns", "rows", "ops", "area", "energy"):  # each fabric's own, or not stated
            del values[name]
    assert defaults == given


def test_fabric_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fabric = load_fabric("plasticine", ["link.hop_cycles=7", "ops.gelu.depth_cycles=9"])
    assert (fabric.name, fabric.columns, fabric.rows) == ("plasticine", 16, 8)
    assert fabric.link.hop_cycles == 7
    assert fabric.ops["gelu"] == OpSpec(depth_cycles=9, cycles_per_vector=2)
    assert list(tmp_path.iterdir()) == []


def test_second_version_changes_the_hardware_but_not_its_size() -> None:
    for name in ("small", "large"):
        first, second = load_fabric(name), load_fabric(f"{name}_v2")
        assert (first.columns, first.rows, first.dram.channels) == (second.columns, second.rows, second.dram.channels)
        assert first.link != second.link
        assert first.ops.keys() == second.ops.keys()
        assert first.ops != second.ops


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("smal", [], "unknown fabric 'smal'; did you mean 'small'? allowed: large, large_v2, plas"),
        ("../x", [], "unknown fabric '../x'; allowed: large"),
        ("small", ["link.hop=3"], "unknown key 'link.hop'; did you mean 'hop_cycles'? allowed: ch"),
        ("small", ["lnk.hop_cycles=3"], "unknown key 'lnk'; did you mean 'link'? allowed: area, clock_mhz"),
        ("small", ["+link.hop=3"], "unknown key link.hop (value 3); did you mean 'hop_cycles'?"),
        ("small", ["rows"], "cannot read 'rows'; write key=value, for example seed=1"),
        ("small", ["rows=[1"], "cannot read 'rows=[1'; write key=value"),
        ("small", ["rows=x"], "rows='x' has the wrong type; expected int"),
        ("small", ["rows=70"], "fabric 'small': rows=70 is out of range; allowed 2 to 64"),
    ],
)
def test_wrong_fabrics_are_refused(name: str, overrides: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_fabric(name, overrides)
    assert str(caught.value).startswith(message)


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    """A configuration directory with one command, `toy`, and the fabrics of the project."""
    (tmp_path / "fabric").symlink_to(CONF_DIR / "fabric", target_is_directory=True)
    root = "defaults:\n  - fabric: small\n  - _self_\n\nseed: 0  # of all random choices\n"
    (tmp_path / "toy.yaml").write_text(root)
    return tmp_path


def _run(conf_dir: Path, main: Any, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "toy", arguments, conf_dir)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_command_gets_its_config(conf_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[DictConfig] = []
    assert _run(conf_dir, seen.append, "fabric=large_v2", "seed=5", "fabric.rows=6") == 0
    (config,) = seen
    assert (config.seed, config.fabric.name, config.fabric.rows) == (5, "large_v2", 6)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("fabric=smal", "unknown choice fabric=smal; did you mean 'small'? allowed: large, "),
        ("sed=1", "unknown key 'sed'; did you mean 'seed'? allowed: fabric, seed\n"),
        ("seed", "cannot read 'seed'; write key=value, for example seed=1\n"),
        ("seed=0,1", "seed=0,1: write seed=[0,1] for a list; for one run per value, add --multirun"),
        ("--verbose", "unknown option '--verbose'; allowed: --help, --multirun, --config FILE, and"),
        ("--config", "--config : there is no such file; name a .yaml file"),
    ],
)
def test_wrong_arguments_give_one_line_and_code_2(
    conf_dir: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    assert _run(conf_dir, lambda config: pytest.fail("must not run"), argument) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: {message}")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("option", ["-m", "--multirun"])
def test_multirun_runs_every_combination(conf_dir: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    seen: list[tuple[int, str]] = []
    code = _run(
        conf_dir,
        lambda config: seen.append((config.seed, config.fabric.name)),
        *(option, "seed=range(0,2)", "fabric=small,large", "fabric.rows=6"),
    )
    assert code == 0
    assert seen == [(0, "small"), (0, "large"), (1, "small"), (1, "large")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "job 2 of 4: seed=0 fabric=large"


@pytest.mark.slow
def test_multirun_refuses_wrong_values_and_shared_folders_before_the_first_job(
    conf_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (conf_dir / "toy.yaml").open("a") as file:
        file.write("output: data/toy  # folder\n")

    def fail(config: DictConfig) -> None:
        pytest.fail("must not run")

    assert _run(conf_dir, fail, "-m", "seed=0,1") == 2
    message = "error: jobs 'seed=0' and 'seed=1' would both write to data/toy; name what differs"
    assert capsys.readouterr().err.startswith(message)
    assert _run(conf_dir, fail, "-m", "fabric=small,smal", "output=data/${fabric.name}") == 2
    assert capsys.readouterr().err.startswith("error: unknown choice fabric=smal")
    seen: list[str] = []
    run = (lambda config: seen.append(config.output), "-m", "seed=0,1", "output=data/${seed}")
    assert _run(conf_dir, *run) == 0
    assert seen == ["data/0", "data/1"]


def test_a_written_configuration_stands_in_for_the_command_file(
    conf_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[DictConfig] = []
    assert _run(conf_dir, seen.append, "fabric=large", "seed=5") == 0
    path = tmp_path / "written.yaml"
    path.write_text(OmegaConf.to_yaml(seen[0], resolve=True))
    assert _run(conf_dir, seen.append, "--config", str(path), "fabric.rows=6") == 0
    seen[0].fabric.rows = 6
    assert seen[0] == seen[1]


def test_errors_of_the_command_itself(conf_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(config: DictConfig) -> None:
        raise InputError("no such file: x.json")

    def interrupt(config: DictConfig) -> None:
        raise KeyboardInterrupt

    def look_up(config: DictConfig) -> None:
        config.missing_key  # noqa: B018  the access raises

    def fail(config: DictConfig) -> None:
        raise ZeroDivisionError

    assert _run(conf_dir, refuse) == 2
    assert capsys.readouterr().err == "error: no such file: x.json\n"
    assert _run(conf_dir, interrupt) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert _run(conf_dir, look_up) == 2
    assert capsys.readouterr().err == "error: Key 'missing_key' is not in struct\n"
    with pytest.raises(ZeroDivisionError):  # a bug keeps its traceback
        run_command(fail, "toy", [], conf_dir)


def test_help_shows_options_with_comments_and_choices(conf_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(conf_dir, lambda config: pytest.fail("must not run"), "--help") == 0
    text = capsys.readouterr().out
    assert "seed: 0  # of all random choices" in text
    assert f"fabric={'|'.join(choices('fabric'))}" in text
    assert "[key=value ...]" in text


def test_unknown_command_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match="Cannot find primary config 'no_such_command'"):
        compose_config("no_such_command")


def test_command_line_of_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text("seed: 0  # of all random choices\n")
    program = tmp_path / "toy.py"
    program.write_text(
        "from pathlib import Path\n"
        "from placer.base.config import run_command\n"
        "folder = Path(__file__).parent\n"
        "run_command(lambda c: print('seed', c.seed), 'toy', directory=folder)\n"
    )
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, program, "seed=4"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(CONF_DIR.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("seed 4\n", "")
    assert sorted(tmp_path.iterdir()) == before  # no outputs folder
