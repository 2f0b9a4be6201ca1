"""Configuration at the edge of the program: Hydra composes YAML files, dataclasses come out.

This is the only module that knows Hydra. A command is three lines: `run_command` composes
`conf/<command>.yaml` with the overrides of the command line, `to_dataclass` checks the result, and
a plain function of the library does the work. Notebooks and tests use
`compose_config`.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import product
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from placer.base import InputError, SettingError, allowed_text, explain_missing, keep_ctrl_c

# Of the package; in a clone a link to the folder at the top.
CONF_DIR = (Path(__file__).parents[2] / "conf").resolve()

T = TypeVar("T")

_NOT_GIVEN = "???"  # how YAML files mark a value that the user must set


def compose_config(
    config_name: str, overrides: Sequence[str] = (), directory: Path = CONF_DIR, also: Path | None = None
) -> DictConfig:
    """Return `directory/config_name.yaml` with its defaults and `overrides` such as "seed=1".

    Defaults are looked for in the directory, then in `also`.
    Hydra takes `model=...` for a choice of the group `conf/model` wherever it stands; in the
    configuration of a command that has no such choice, but a field `model`, it is the field.

    Raises InputError for an override that cannot be read or names no known key or choice.
    """
    path = directory / f"{config_name}.yaml"
    root = _load_yaml(path) if path.is_file() else OmegaConf.create()
    groups = {key for key in root if (directory / str(key)).is_dir()}
    of_fields = [override for override in overrides if override.partition("=")[0] in groups]
    try:
        with initialize_config_dir(str(directory), version_base="1.3"):
            search = [] if also is None else [f"hydra.searchpath=['file://{also}']"]
            config = compose(config_name, [*search, *(o for o in overrides if o not in of_fields)])
        for field in _parse(of_fields):
            OmegaConf.update(config, field.key_or_group, field.value())
        return config
    except HydraException as error:
        raise InputError(_explain(error)) from error
    except ValueError as error:  # Hydra's answer to group=1 or group=null
        raise InputError(f"{_first_line(error)}; write for example fabric=small") from error


def _parse(overrides: Sequence[str]) -> list[Override]:
    return OverridesParser.create().parse_overrides(list(overrides))


def _load_yaml(path: Path) -> DictConfig:
    try:
        config = OmegaConf.load(path)
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: no valid configuration ({reason})") from error
    if not isinstance(config, DictConfig):
        raise InputError(f"{path}: no configuration; needed are keys with values")
    return config


def choices(group: str, directory: Path = CONF_DIR) -> list[str]:
    """Return the names of the files in `directory/group`: what may stand behind `<group>=`."""
    return sorted(path.stem for path in (directory / group).glob("*.yaml"))


def run_command(
    main: Callable[[DictConfig], None],
    config_name: str,
    arguments: Sequence[str] | None = None,
    directory: Path = CONF_DIR,
) -> NoReturn:
    """Run `main` on `conf/<config_name>.yaml` and the command line, then exit.

    `arguments` stand in for the command line, `directory` for `conf`.
    `--config FILE` takes the complete configuration in a file, such as a command writes beside its
    results, in place of `conf/<config_name>.yaml`. `--multirun` (`-m`) runs `main` once for each
    combination of values given like seed=0,1 model=flow,guha, one after the other.

    Exit code 0 when `main` returns, 2 with one line on stderr when the input is wrong, 130 when the
    user interrupts. The working directory stays as it is and nothing is written but by `main`.
    """
    keep_ctrl_c()
    try:
        _run(main, config_name, sys.argv[1:] if arguments is None else arguments, directory)
    except InputError as error:
        _exit(2, f"error: {error}")
    except (HydraException, OmegaConfBaseException) as error:
        _exit(2, f"error: {_first_line(error)}")
    except ModuleNotFoundError as error:
        explained = explain_missing(error)
        if explained is None:
            raise
        _exit(2, f"error: {explained}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _exit(2, f"error: {where}{error.strerror or error}")
    except KeyboardInterrupt:
        _exit(130, "interrupted")
    sys.exit(0)


def _exit(code: int, message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(code)


def _run(main: Callable[[DictConfig], None], config_name: str, arguments: Sequence[str], directory: Path) -> None:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("--config", nargs="?", const="")
    options, overrides = parser.parse_known_args(arguments)
    for word in overrides:
        if word.startswith("-"):
            raise InputError(
                f"unknown option {word!r}; allowed: --help, --multirun, --config FILE, and overrides such as seed=1"
            )
    if options.help:
        sys.stdout.write(_help_text(config_name, directory))
        return
    if options.config is not None:
        file = Path(options.config)
        if file.suffix != ".yaml" or not file.is_file():
            raise InputError(f"--config {options.config}: there is no such file; name a .yaml file")
        config_name, directory = file.stem, file.parent.resolve()
    sweeps = _sweeps(overrides) if options.multirun else [[override] for override in overrides]
    jobs = dict(_jobs(config_name, sweeps, directory))  # all composed before the first one runs
    for number, (name, config) in enumerate(jobs.items(), 1):
        if len(jobs) > 1:
            sys.stdout.write(f"job {number} of {len(jobs)}: {name}\n")
            sys.stdout.flush()
        main(config)


def _sweeps(overrides: Sequence[str]) -> list[list[str]]:
    """Return, for each override, those that its list of values stands for: a=1,2 -> a=1, a=2."""
    try:
        parsed = _parse(overrides)
    except HydraException as error:
        raise InputError(_explain(error)) from error
    return [
        [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
        if item.is_sweep_override() and item.is_discrete_sweep()
        else [str(item.input_line)]
        for item in parsed
    ]


def _jobs(config_name: str, sweeps: list[list[str]], directory: Path) -> Iterator[tuple[str, DictConfig]]:
    """Yield configurations, and what tells each apart; no two may write to one folder."""
    outputs: dict[str, str] = {}
    for overrides in product(*sweeps):
        varied = (o for o, values in zip(overrides, sweeps, strict=True) if len(values) > 1)
        name, config = " ".join(varied), compose_config(config_name, overrides, directory)
        other = outputs.setdefault(str(config.get("output", name)), name)
        if other != name:
            raise InputError(
                f"jobs '{other}' and '{name}' would both write to {config.output}; name what "
                "differs in the folder, for example output='data/out_${seed}'"
            )
        yield name, config


def _help_text(config_name: str, directory: Path) -> str:
    """Return usage, the command's own file with its comments, and the choices per group."""
    path = directory / f"{config_name}.yaml"
    defaults = _load_yaml(path).get("defaults", [])
    groups = [str(group) for entry in defaults if isinstance(entry, DictConfig) for group in entry]
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"python -m {spec.name.removesuffix('.__main__')}" if spec else "<command>"
    return "\n".join(
        [
            f"usage: {program} [key=value ...] [--config FILE] [--multirun key=value,value ...]",
            "",
            path.read_text(encoding="utf-8").rstrip(),
            "",
            f"Choices, described in {directory.name}/<group>/<choice>.yaml:",
            *(f"  {group}={'|'.join(choices(group, directory))}" for group in groups),
            "Every field can be set, also one of a choice: group.field=value",
            "",
        ]
    )


def _explain(error: HydraException) -> str:
    """Return one line that says what was wrong with an override and what is allowed."""
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        return f"unknown choice {group}={choice}; {allowed_text(choice, error.options)}"
    if isinstance(cause, OmegaConfBaseException) and isinstance(cause.parent_node, DictConfig):
        keys = [str(key) for key in cause.parent_node if key != "hydra"]
        return f"unknown key {cause.full_key!r}; {allowed_text(str(cause.key), keys)}"
    if ambiguous := re.match(r"Ambiguous value for argument '(\w[^=]*)=(.*)'", _first_line(error)):
        key, values = ambiguous.groups()
        return f"{key}={values}: write {key}=[{values}] for a list; for one run per value, add --multirun"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}; write key=value, for example seed=1"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    """Return the message without the internals that Hydra and OmegaConf add below it."""
    return str(error).partition("\n")[0]


def to_dataclass(schema: type[T], config: DictConfig) -> T:
    """Return `config` as an instance of the dataclass `schema`, nested dataclasses included.

    Understands int, float, bool, str, Path, Enum (by value if it is text, else by name), Literal,
    X | None, X | list[X], dict[str, X], list[X] and tuple[X, ...]. For a Protocol, the key `target` names the
    dataclass, as in "placer.cost.RandomChoice". OmegaConf's structured configs cannot serve: they
    refuse to merge into nested frozen dataclasses, know no Literal and make tuples lists. Pydantic
    would need as many lines again to tell its errors in our words, and checks no construction.

    Raises InputError that names the key, the value seen and what is allowed.
    """
    try:
        given = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(f"{error.full_key}: {_first_line(error)}") from error
    result: T = _build(schema, given, "")
    return result


def build_target(given: Any, where: str) -> Any:
    """Return an instance of the dataclass that `given` names; only then is its module imported."""
    if not isinstance(given, dict) or not isinstance(given.get("target"), str):
        raise _wrong_type(where, given, "a group of keys with the name of a dataclass as target")
    target = given["target"]
    module, _, name = target.rpartition(".")
    try:
        schema = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and explain_missing(error) is not None:
            raise  # an extra is absent, not the module
        raise InputError(f"{where}.target={target!r}: {error}; write package.module.Class") from error
    if not is_dataclass(schema):
        raise InputError(f"{where}.target={target!r} is no dataclass")
    return _build(schema, {key: given[key] for key in given if key != "target"}, where)


def _build(schema: Any, given: Any, where: str) -> Any:
    """Return an instance of the dataclass `schema`; `where` is the key of this part."""
    expected = {field.name: field for field in fields(schema) if field.init}
    if not isinstance(given, dict):
        raise _wrong_type(where, given, "a group of keys: " + ", ".join(expected))
    prefix = f"{where}." if where else ""
    for key, value in given.items():
        if key not in expected:
            raise InputError(f"unknown key {prefix}{key} (value {value!r}); {allowed_text(str(key), expected)}")
    types = get_type_hints(schema)
    given = {key: value for key, value in given.items() if value != _NOT_GIVEN}
    for name, field in expected.items():
        if name not in given and field.default is field.default_factory is MISSING:
            raise InputError(f"missing value: set {prefix}{name}=<{_name_of(types[name])}>")
    values = {key: _convert(types[key], value, prefix + key) for key, value in given.items()}
    try:
        return schema(**values)
    except SettingError as error:
        raise InputError(f"{prefix}{error}") from error


def _convert(expected: Any, value: Any, key: str) -> Any:
    """Return `value` as the annotated type `expected`."""
    origin, arguments = get_origin(expected), get_args(expected)
    if is_dataclass(expected):
        return _build(expected, value, key)
    if Protocol in getattr(expected, "__bases__", ()):
        return build_target(value, key)
    if origin in (Union, UnionType):
        return _convert_union(expected, value, key)
    if origin is Literal:
        return _pick({str(choice): choice for choice in arguments}, value, key)
    if isinstance(expected, type) and issubclass(expected, Enum):
        names = {m.value if isinstance(m.value, str) else m.name.lower(): m for m in expected}
        return _pick(names, value, key)
    if origin is dict and isinstance(value, dict):
        return {k: _convert(arguments[1], item, f"{key}.{k}") for k, item in value.items()}
    if origin in (list, tuple) and isinstance(value, list):
        return origin(_convert(arguments[0], item, f"{key}[{i}]") for i, item in enumerate(value))
    if expected is Any or type(value) is expected:  # exact: True is no int here
        return value
    if (expected, type(value)) in ((float, int), (Path, str)):
        return expected(value)
    raise _wrong_type(key, value, _name_of(expected))


def _convert_union(union: Any, value: Any, key: str) -> Any:
    """Return `value` as the first type of the union that takes it; lists are held against lists only."""
    if value is None and NoneType in get_args(union):
        return None
    types = [one for one in get_args(union) if one is not NoneType]
    fitting = [one for one in types if (get_origin(one) in (list, tuple)) == isinstance(value, list)]
    if len(types) == 1 or len(fitting) == 1:
        return _convert((fitting or types)[0], value, key)  # its error tells which item is wrong
    for one in fitting:
        with suppress(InputError):
            return _convert(one, value, key)
    raise _wrong_type(key, value, " or ".join(map(_name_of, types)))


def _pick(allowed: dict[str, Any], value: Any, key: str) -> Any:
    if str(value) not in allowed:
        raise InputError(f"{key}={value!r} is no choice; {allowed_text(str(value), allowed)}")
    return allowed[str(value)]


def _wrong_type(key: str, value: Any, expected: str) -> InputError:
    return InputError(f"{key}={value!r} has the wrong type; expected {expected}")


def _name_of(expected: Any) -> str:
    return expected.__name__ if isinstance(expected, type) else str(expected)
