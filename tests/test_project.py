"""Rules that hold for the whole project: layout, configuration, dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from placer.config import CONF_DIR, choices, load_fabric

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("placer", "costmodel")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MAX_MODULE_LINES = 450
OPS = {"matmul", "add", "bias", "scale", "relu", "gelu", "softmax", "layernorm"} | {
    f"{op}_grad" for op in ("relu", "gelu", "softmax", "layernorm")
}


def _relative(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


@pytest.mark.parametrize("name", choices("fabric"))
def test_every_fabric_composes(name: str) -> None:
    fabric = load_fabric(name)
    assert fabric.name == name
    assert fabric.ops.keys() >= OPS
    assert fabric.topology.num_switches == fabric.columns * fabric.rows


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
    text = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = {line.split()[0] for line in text.splitlines()}
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert listed == set(phony[1].split())
    assert listed >= {"help", "install", "demo", "test", "test-fast", "bench", "lint", "format"}


def test_no_module_is_too_long() -> None:
    long = [
        p for p in MODULES if len(p.read_text(encoding="utf-8").splitlines()) > MAX_MODULE_LINES
    ]
    assert _relative(long) == []


def test_no_file_names_a_path_of_some_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~])/(home|root|work|Users|opt|mnt)/")
    folders = (*PACKAGES, "conf", "docs", "tests", ".ci")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [p for p in ROOT.iterdir() if p.is_file()]
    files = [
        p for p in files if "__pycache__" not in p.parts and p.suffix not in (".db", ".png", ".pt")
    ]
    guilty = [p for p in files if machine_path.search(p.read_text(encoding="utf-8"))]
    assert _relative(guilty) == []


def test_only_one_module_imports_hydra() -> None:
    importers = [path for path in MODULES if "hydra" in _imported_packages(path)]
    assert _relative(importers) == ["placer/config.py"]


def test_placer_does_not_know_costmodel() -> None:
    guilty = [
        path
        for path in MODULES
        if path.is_relative_to(ROOT / "placer") and "costmodel" in _imported_packages(path)
    ]
    assert _relative(guilty) == []


def _imported_packages(path: Path) -> set[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    direct = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [pin for pin in direct if pin not in pinned] == []
    torch = next(pin for pin in direct if pin.startswith("torch=="))
    assert f"install {torch}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
