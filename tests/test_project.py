"""Rules that hold for the whole project: layout, configuration, dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from placer.base.config import CONF_DIR, choices
from placer.base.errors import EXTRAS
from placer.fabric import load_fabric
from tests import ROOT

PACKAGES = ("placer", "costmodel")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MAX_MODULE_LINES = 450
OPS = {
    "matmul", "add", "multiply", "bias", "gain", "scale", "relu", "gelu", "silu", "sigmoid", "tanh",
    "softmax", "layernorm", "rmsnorm", "rotary", "sum_heads", "top_k", "dispatch", "combine",
    "depthwise", "max_pool", "average_pool",
} | {
    f"{op}_grad" for op in ("relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "layernorm", "rmsnorm")
}  # fmt: skip


def _relative(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


@pytest.mark.parametrize("name", choices("fabric"))
def test_every_fabric_composes(name: str) -> None:
    fabric = load_fabric(name)
    assert fabric.name == name
    assert fabric.ops.keys() >= OPS
    assert fabric.topology.num_switches == fabric.topology.num_networks * fabric.columns * fabric.rows


def test_base_fabric_lists_every_field() -> None:
    text = (CONF_DIR / "fabric/parts/base.yaml").read_text(encoding="utf-8")
    assert set(_keys(yaml.safe_load(text))) == set(_field_names(load_fabric("small")))


def _keys(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _field_names(spec: Any, prefix: str = "") -> Iterator[str]:
    for field in fields(spec):
        value = getattr(spec, field.name)
        yield prefix + field.name
        if is_dataclass(value):
            yield from _field_names(value, f"{prefix}{field.name}.")
        elif isinstance(value, dict):
            for key, item in value.items():
                yield f"{prefix}{field.name}.{key}"
                yield from _field_names(item, f"{prefix}{field.name}.{key}.")


@pytest.mark.parametrize("path", sorted(CONF_DIR.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_configured_value_has_a_comment(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    values = [line for line in lines if re.match(r"\s*\w+:\s+[^\s#]", line)]
    assert [line for line in values if "#" not in line] == []


def test_make_help_lists_every_target() -> None:
    text = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = {line.split()[0] for line in text.splitlines()}
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert listed == set(phony[1].split())
    assert listed >= {"help", "install", "demo", "test", "test-fast", "bench", "lint", "format"}


def test_no_module_is_too_long() -> None:
    long = [p for p in MODULES if len(p.read_text(encoding="utf-8").splitlines()) > MAX_MODULE_LINES]
    assert _relative(long) == []


def test_no_file_names_a_path_of_some_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~])/(home|root|work|Users|opt|mnt)/")
    folders = (*PACKAGES, "conf", "docs", "tests", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [p for p in ROOT.iterdir() if p.is_file()]
    files = [p for p in files if "__pycache__" not in p.parts and p.suffix not in (".db", ".png", ".pt")]
    guilty = [p for p in files if machine_path.search(p.read_text(encoding="utf-8"))]
    assert _relative(guilty) == []


def test_only_one_module_imports_hydra() -> None:
    importers = [path for path in MODULES if "hydra" in _imported_packages(path)]
    assert _relative(importers) == ["placer/base/config/compose.py"]


def test_placer_does_not_know_costmodel() -> None:
    guilty = [
        path for path in MODULES if path.is_relative_to(ROOT / "placer") and "costmodel" in _imported_packages(path)
    ]
    assert _relative(guilty) == []


# Rooms in the order of the data: a room imports only rooms that come before it.
ROOMS = {
    "placer": (
        "base", "base.config", "base.tracking", "base.workers", "fabric", "graph", "graph.workloads",
        "graph.importing", "netlist", "netlist.plan", "netlist.lowering", "decision", "decision.routing",
        "simulation", "simulation.reference", "simulation.recording", "cost", "annealing", "show", "show.html",
        "pipeline", "compile", "door", "silicon", "kernels.model", "kernels.sizing", "kernels.truth", "kernels.engines",
        "kernels", "kernels.bench", "stencil.model", "stencil.judge", "stencil.search", "stencil.show",
        "stencil", "streaming.model", "streaming.search", "streaming.game", "streaming.rl",
        "streaming.mappers", "streaming", "streaming.bench", "study", "explore",
    ),
    "costmodel": (
        "base", "dataset", "dataset.report", "encoding", "networks", "model", "training",
        "baselines", "inference", "evaluation", "evaluation.comparison", "adaptation", "wafer", "quality",
    ),
}  # fmt: skip
MAPPERS = ("kernels", "stencil", "streaming")
MAX_MODULES = 16  # of a folder
MAX_IMPORTS_PAST_ROOMS = 119  # that name a module of another folder, not what its room offers


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _room_of(module: str) -> str | None:
    """The innermost room that a module is in; None for commands at the top and for packages."""
    package, _, rest = module.partition(".")
    rooms = [r for r in ROOMS[package] if rest == r or rest.startswith(r + ".")]
    return max(rooms, key=len, default=None)


def _is_command(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return path.name == "__main__.py" or text.startswith('"""Command: ')


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imported_modules(path: Path) -> list[str]:
    """Modules of this project that one imports, anywhere in its text."""
    return list(_walk_imports(path, frozenset(map(_module_name, MODULES))))


def _walk_imports(path: Path, names: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_offered = (ROOT / inner.replace(".", "/")).with_suffix(".py").is_file() and (
                    alias.name in _offered(node.module)
                )
                yield node.module if inner not in names or is_offered else inner


@cache
def _offered(room: str) -> set[str]:
    """Names that the __init__ of a room imports."""
    path = ROOT / room.replace(".", "/") / "__init__.py"
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_every_folder_is_a_room_with_few_modules() -> None:
    folders = {path.parent for path in MODULES}
    names = {_module_name(folder / "__init__.py") for folder in folders} - {"placer", "costmodel"}
    rooms = {f"{package}.{room}" for package, known in ROOMS.items() for room in known}
    assert names == rooms
    counts = {folder: len(list(folder.glob("*.py"))) for folder in folders}
    assert {k.name: n for k, n in counts.items() if n > MAX_MODULES} == {}


def test_the_top_level_holds_commands_only() -> None:
    loose = [p for package in PACKAGES for p in (ROOT / package).glob("*.py")]
    others = [p for p in loose if p.name != "__init__.py" and not _is_command(p)]
    assert _relative(others) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_only_rooms_before_them(package: str) -> None:
    order = {room: number for number, room in enumerate(ROOMS[package])}
    wrong = []
    for path in MODULES:
        room = _room_of(_module_name(path)) if path.is_relative_to(ROOT / package) else None
        if room is None or _is_command(path):
            continue
        for module in _imported_modules(path):
            if module.split(".")[0] == package and module != package:
                other = _room_of(module)
                if other is None or order[other] > order[room]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


def test_mappers_do_not_know_each_other() -> None:
    wrong = []
    for mapper in MAPPERS:
        for path in (ROOT / "placer" / mapper).rglob("*.py"):
            others = {m.split(".")[1] for m in _imported_modules(path) if "." in m} & set(MAPPERS)
            wrong += [f"{path.relative_to(ROOT)}: {other}" for other in others - {mapper}]
    assert wrong == []


def test_others_use_what_a_room_offers() -> None:
    past = []
    for path in MODULES:
        for module in _imported_modules(path):
            target = (ROOT / module.replace(".", "/")).with_suffix(".py")
            if target.is_file() and target.parent != path.parent:
                past.append(f"{path.relative_to(ROOT)} imports {module}")
    assert len(past) <= MAX_IMPORTS_PAST_ROOMS, "\n".join(past)


def _imported_packages(path: Path) -> set[str]:
    names: list[str] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return {name.split(".")[0] for name in names}


@pytest.mark.slow
def test_placer_imports_without_torch() -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if path.is_relative_to(ROOT / "placer")
        and not path.is_relative_to(ROOT / "placer/streaming/rl")  # imported where it is used
        and path.stem != "__main__"
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "assert 'placer.fabric' in sys.modules\n"
        "print(*({'torch', 'dgl', 'costmodel'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "")


def test_dependencies_agree_with_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    together = f"dataflow-costmodel[{','.join(sorted(extras.keys() - {'all', 'dev'}))}]"
    assert extras.pop("all") == [together]
    direct = {pin for pins in (project["dependencies"], *extras.values()) for pin in pins}
    pinned = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()
    assert direct - set(pinned) == set()
    (torch,) = (pin for pin in direct if pin.startswith("torch=="))
    assert f"install {torch}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    names = {"sklearn": "scikit-learn"}
    for module, extra in EXTRAS.items():
        assert [pin for pin in extras[extra] if pin.startswith(f"{names.get(module, module)}==")]
