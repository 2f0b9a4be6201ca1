"""A wheel holds all that is needed: installed with its own dependencies alone, it simulates."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from placer.base.errors import EXTRAS
from tests import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built from a copy so that nothing is left behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]
    subprocess.run(["tar", "-cf", "../source.tar", "-C", str(ROOT), *names], cwd=source, check=True)
    subprocess.run(["tar", "-xf", "../source.tar"], cwd=source, check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", str(folder), "."], cwd=source, check=True)
    (found,) = folder.glob("*.whl")
    return found


def test_it_holds_settings_assets_weights_and_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    settings = {p.relative_to(ROOT / "conf") for p in (ROOT / "conf").rglob("*.yaml")}
    assert names >= {f"placer/conf/{path.as_posix()}" for path in settings}
    assets = {p.relative_to(ROOT) for p in (ROOT / "placer/show/html").iterdir() if p.suffix}
    assert names >= {path.as_posix() for path in assets if path.suffix != ".pyc"}
    assert names >= {"placer/py.typed", "costmodel/py.typed", "placer/streaming/rl/policy.pt"}
    modules = {p.relative_to(ROOT) for d in ("placer", "costmodel") for p in (ROOT / d).rglob("*.py")}
    assert names >= {path.as_posix() for path in modules}
    assert not [name for name in names if name.startswith(("tests/", "data/", "docs/"))]


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """An environment with the wheel and what its base depends on, and nothing else.

    No registry is asked: the packages are links to those of this environment.
    """
    folder = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    for package in _closure(_base_requirements(wheel)):
        for top in {Path(file).parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            source = Path(str(package.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    zipfile.ZipFile(wheel).extractall(site)
    (site / "placer/__pycache__").mkdir()  # the same sources have the same compiled code
    (site / "placer/__pycache__/numba").symlink_to(ROOT / "placer/__pycache__/numba")
    return folder / "bin/python"


def _base_requirements(wheel: Path) -> list[Requirement]:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lines = archive.read(name).decode().splitlines()
    found = [Requirement(line[15:]) for line in lines if line.startswith("Requires-Dist: ")]
    return [each for each in found if each.marker is None]


def _closure(requirements: list[Requirement]) -> list[Distribution]:
    """Packages that are installed with these, each once."""
    found: dict[str, Distribution] = {}
    while requirements:
        requirement = requirements.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        package = distribution(requirement.name)
        if package.name not in found:
            found[package.name] = package
            requirements += map(Requirement, package.requires or ())
    return list(found.values())


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", "-m", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_it_simulates_from_any_folder(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "placer.simulate", "workload=mha")
    assert (done.returncode, done.stderr) == (0, "")
    assert "normalised throughput" in done.stdout
    assert (tmp_path / "data/simulate/result.small.json").is_file()


def test_no_extra_is_there(python: Path, tmp_path: Path) -> None:
    program = "import sys; sys.exit(__import__('importlib.util').util.find_spec(sys.argv[1]) is None)"
    for name in EXTRAS:
        done = subprocess.run([python, "-I", "-c", program, name], cwd=tmp_path)
        assert done.returncode == 1, f"{name} is there without its extra"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("costmodel.train",), "learn"),
        (("costmodel.tune",), "learn"),
        (("placer.place", "workload=mha", "cost=learned"), "learn"),
        (("placer.place", "model=net.onnx"), "import"),
        (("placer.streaming", f"graph={ROOT}/data/inputs/streaming/fft.json", "mapper=exact"), "exact"),
        (("placer.streaming", f"graph={ROOT}/data/inputs/streaming/fft.json", "mapper=rl"), "rl"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_command_whose_extra_is_absent_says_which(
    python: Path, tmp_path: Path, arguments: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    done = run(python, tmp_path, *arguments)
    assert done.returncode == 2
    assert f"pip install 'dataflow-costmodel[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
