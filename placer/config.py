"""Configuration at the edge of the program: Hydra composes YAML files, dataclasses come out.

This is the only module that knows Hydra. A command is three lines: `run_command` composes
`conf/<command>.yaml` with the overrides of the command line, `to_dataclass` checks the result, and
a plain function of the library does the work. Notebooks and tests use `load_fabric` and
`compose_config`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from itertools import product
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from placer.ctrl_c import keep_ctrl_c
from placer.errors import InputError
from placer.fabric import Fabric

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"

T = TypeVar("T")

_NOT_GIVEN = "???"  # how YAML files mark a value that the user must set


def compose_config(
    config_name: str, overrides: Sequence[str] = (), directory: Path = CONF_DIR
) -> DictConfig:
    """`directory/config_name.yaml` with its defaults list and `overrides` such as "seed=1".

    Raises InputError for an override that cannot be read or names no known key or choice.
    """
    try:
        fields_set, others = _split_fields(config_name, overrides, directory)
        with initialize_config_dir(str(directory), version_base="1.3"):
            config = compose(config_name, others)
        for key, value in fields_set.items():
            OmegaConf.update(config, key, value)
        return config
    except InputError:
        raise
    except HydraException as error:
        raise InputError(_explain(error)) from error
    except ValueError as error:  # Hydra's answer to group=1 or group=null
        raise InputError(f"{_first_line(error)}; write for example fabric=small") from error


def _split_fields(
    config_name: str, overrides: Sequence[str], directory: Path
) -> tuple[dict[str, Any], list[str]]:
    """Overrides of fields that are called like a group, with their values, and all others.

    Hydra takes `model=...` for a choice of the group `conf/model` wherever it stands; in the
    configuration of a command that has no such choice, but a field `model`, it is the field.
    """
    path = directory / f"{config_name}.yaml"
    root = _load_yaml(path) if path.is_file() else OmegaConf.create()
    groups = {key for key in root if (directory / str(key)).is_dir()}
    fields_set: dict[str, Any] = {}
    others = []
    for override in overrides:
        key = override.partition("=")[0]
        if key in groups:
            (parsed,) = OverridesParser.create().parse_overrides([override])
            fields_set[key] = parsed.value()
        else:
            others.append(override)
    return fields_set, others


def _load_yaml(path: Path) -> DictConfig:
    try:
        config = OmegaConf.load(path)
    except (OSError, ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise InputError(
            f"{path}: no valid configuration ({' '.join(str(error).split())})"
        ) from error
    if not isinstance(config, DictConfig):
        raise InputError(f"{path}: no configuration; needed are keys with values")
    return config


def load_fabric(name: str, overrides: Sequence[str] = ()) -> Fabric:
    """The fabric `conf/fabric/<name>.yaml`, changed by overrides such as "link.hop_cycles=3".

    Raises InputError for an unknown name, key or value.
    """
    names = choices("fabric")
    if name not in names:
        raise InputError(f"unknown fabric {name!r}; {_allowed(name, names)}")
    return to_dataclass(Fabric, compose_config(name, overrides, CONF_DIR / "fabric"))


def fabric_of(description: dict[str, Any]) -> Fabric:
    """The fabric that `dataclasses.asdict` described, also after JSON.

    Raises InputError for an unknown key or value.
    """
    return to_dataclass(Fabric, OmegaConf.create(description))


def choices(group: str, directory: Path = CONF_DIR) -> list[str]:
    """Names of the files in `directory/group`: what may stand behind `<group>=`."""
    return sorted(path.stem for path in (directory / group).glob("*.yaml"))


def to_dataclass(schema: type[T], config: DictConfig) -> T:
    """`config` as an instance of the dataclass `schema`, nested dataclasses included.

    Understands int, float, bool, str, Path, Enum (by value if it is text, else by name), Literal,
    X | None, dict[str, X], list[X] and tuple[X, ...]. For a Protocol, the key `target` names the
    dataclass, as in "placer.cost_choice.RandomChoice". OmegaConf's structured configs cannot serve:
    they refuse to merge into nested frozen dataclasses, know no Literal and make tuples lists.

    Raises InputError that names the key, the value seen and what is allowed.
    """
    try:
        given = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(f"{error.full_key}: {_first_line(error)}") from error
    result: T = _build(schema, given, "")
    return result


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
    arguments = sys.argv[1:] if arguments is None else arguments
    keep_ctrl_c()
    try:
        options = _parse_options(arguments)
        if options.wants_help:
            sys.stdout.write(_help_text(config_name, directory))
        else:
            if options.config is not None:
                config_name, directory = options.config.stem, options.config.parent.resolve()
            _run_jobs(main, _jobs(config_name, options, directory))
    except InputError as error:
        _exit(2, f"error: {error}")
    except (HydraException, OmegaConfBaseException) as error:
        _exit(2, f"error: {_first_line(error)}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _exit(2, f"error: {where}{error.strerror or error}")
    except KeyboardInterrupt:
        _exit(130, "interrupted")
    sys.exit(0)


def _exit(code: int, message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(code)


@dataclass(frozen=True, slots=True)
class _Options:
    """What stands on a command line."""

    overrides: list[str]
    wants_help: bool = False
    is_multirun: bool = False
    config: Path | None = None


def _parse_options(arguments: Sequence[str]) -> _Options:
    overrides: list[str] = []
    flags: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if word in ("-h", "--help"):
            flags["wants_help"] = True
        elif word in ("-m", "--multirun"):
            flags["is_multirun"] = True
        elif word == "--config":
            flags["config"] = _config_file(next(words, None))
        elif word.startswith("-"):
            raise InputError(
                f"unknown option {word!r}; allowed: --help, --multirun, --config FILE, and "
                "overrides such as seed=1"
            )
        else:
            overrides.append(word)
    return _Options(overrides, **flags)


def _config_file(name: str | None) -> Path:
    if name is None or not name.endswith(".yaml") or not Path(name).is_file():
        raise InputError(f"--config {name or ''}: there is no such file; name a .yaml file")
    return Path(name)


def _jobs(config_name: str, options: _Options, directory: Path) -> dict[str, DictConfig]:
    """Configurations by what tells them apart, all checked by Hydra before the first one runs."""
    sweeps = [[override] for override in options.overrides]
    if options.is_multirun:
        sweeps = _sweeps(options.overrides)
    jobs = {}
    for overrides in product(*sweeps):
        varied = [o for o, values in zip(overrides, sweeps, strict=True) if len(values) > 1]
        jobs[" ".join(varied)] = compose_config(config_name, overrides, directory)
    outputs: dict[str, str] = {}
    for name, config in jobs.items():
        other = outputs.setdefault(str(config.get("output", name)), name)
        if other != name:
            raise InputError(
                f"jobs '{other}' and '{name}' would both write to {config.output}; name what "
                "differs in the folder, for example output='data/out_${seed}'"
            )
    return jobs


def _sweeps(overrides: Sequence[str]) -> list[list[str]]:
    """For each override, those that its list of values stands for: a=1,2 -> a=1, a=2."""
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise InputError(_explain(error)) from error
    return [
        [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
        if item.is_sweep_override() and item.is_discrete_sweep()
        else [str(item.input_line)]
        for item in parsed
    ]


def _run_jobs(main: Callable[[DictConfig], None], jobs: dict[str, DictConfig]) -> None:
    for number, (name, config) in enumerate(jobs.items(), 1):
        if len(jobs) > 1:
            sys.stdout.write(f"job {number} of {len(jobs)}: {name}\n")
            sys.stdout.flush()
        main(config)


def _help_text(config_name: str, directory: Path) -> str:
    """Usage, the command's own configuration file with its comments, and the choices per group."""
    path = directory / f"{config_name}.yaml"
    root = OmegaConf.load(path)
    assert isinstance(root, DictConfig), f"{path} must hold a mapping"
    entries = [entry for entry in root.get("defaults", []) if isinstance(entry, DictConfig)]
    groups = [str(group) for entry in entries for group in entry]
    lines = [f"  {group}={'|'.join(choices(group, directory))}" for group in groups]
    return "\n".join(
        [
            f"usage: {_program()} [key=value ...] [--config FILE] [--multirun key=value,value ...]",
            "",
            path.read_text(encoding="utf-8").rstrip(),
            "",
            f"Choices, described in {directory.name}/<group>/<choice>.yaml:",
            *lines,
            "Every field can be set, also one of a choice: group.field=value",
            "",
        ]
    )


def _program() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "<command>" if spec is None else f"python -m {spec.name.removesuffix('.__main__')}"


def _explain(error: HydraException) -> str:
    """One line that says what was wrong with an override and what is allowed."""
    cause = error.__cause__
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        return f"unknown choice {group}={choice}; {_allowed(choice, error.options)}"
    if isinstance(cause, OmegaConfBaseException) and isinstance(cause.parent_node, DictConfig):
        keys = [str(key) for key in cause.parent_node if key != "hydra"]
        return f"unknown key {cause.full_key!r}; {_allowed(str(cause.key), keys)}"
    if _first_line(error).startswith("Ambiguous value"):
        return f"{_first_line(error)}; for one run per value, add --multirun"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}; write key=value, for example seed=1"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    """The message without the internals that Hydra and OmegaConf add below it."""
    return str(error).partition("\n")[0]


def _allowed(seen: str, allowed: Iterable[str]) -> str:
    """What the user may write instead of `seen`, with a guess if one comes close."""
    names = sorted(allowed)
    matches = [name for name in names if name.startswith(seen)] or get_close_matches(seen, names)
    hint = f"did you mean {matches[0]!r}? " if matches else ""
    return f"{hint}allowed: {', '.join(names) or 'none'}"


def _build(schema: Any, given: Any, where: str) -> Any:
    """An instance of the dataclass `schema`; `where` is the key of this part of the config."""
    if not isinstance(given, dict):
        raise _wrong_type(where, given, "a group of keys: " + ", ".join(_field_names(schema)))
    prefix = f"{where}." if where else ""
    names = _field_names(schema)
    for key, value in given.items():
        if key not in names:
            raise InputError(
                f"unknown key {prefix}{key} (value {value!r}); {_allowed(str(key), names)}"
            )
    types = get_type_hints(schema)
    given = {key: value for key, value in given.items() if value != _NOT_GIVEN}
    for field in fields(schema):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if field.init and field.name not in given and not has_default:
            expected = _describe(types[field.name])
            raise InputError(f"missing value: set {prefix}{field.name}=<{expected}>")
    return schema(
        **{key: _convert(types[key], value, prefix + key) for key, value in given.items()}
    )


def build_target(given: Any, where: str) -> Any:
    """An instance of the dataclass that `given` names; only then is its module imported."""
    if not isinstance(given, dict) or not isinstance(given.get("target"), str):
        raise _wrong_type(where, given, "a group of keys with the name of a dataclass as target")
    target = given["target"]
    module, _, name = target.rpartition(".")
    try:
        schema = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{where}.target={target!r}: {error}; write package.module.Class"
        ) from error
    if not is_dataclass(schema):
        raise InputError(f"{where}.target={target!r} is no dataclass")
    return _build(schema, {key: given[key] for key in given if key != "target"}, where)


def _field_names(schema: Any) -> list[str]:
    return [field.name for field in fields(schema) if field.init]


def _convert(expected: Any, value: Any, key: str) -> Any:
    """`value` as the annotated type `expected`."""
    origin, arguments = get_origin(expected), get_args(expected)
    if is_dataclass(expected):
        return _build(expected, value, key)
    if Protocol in getattr(expected, "__bases__", ()):
        return build_target(value, key)
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return None if value is None else _convert(inner, value, key)
    if origin is Literal:
        return _pick({str(choice): choice for choice in arguments}, value, key)
    if origin is dict and isinstance(value, dict):
        return {k: _convert(arguments[1], item, f"{key}.{k}") for k, item in value.items()}
    if origin in (list, tuple) and isinstance(value, list):
        return origin(_convert(arguments[0], item, f"{key}[{i}]") for i, item in enumerate(value))
    return _convert_scalar(expected, value, key)


def _convert_scalar(expected: Any, value: Any, key: str) -> Any:
    if isinstance(expected, type) and issubclass(expected, Enum):
        return _pick({_choice_name(member): member for member in expected}, value, key)
    if expected is Any or type(value) is expected:  # exact: True is no int here
        return value
    if expected is float and type(value) is int:
        return float(value)
    if expected is Path and isinstance(value, str):
        return Path(value)
    raise _wrong_type(key, value, _describe(expected))


def _choice_name(member: Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name.lower()


def _pick(allowed: dict[str, Any], value: Any, key: str) -> Any:
    if str(value) not in allowed:
        raise InputError(f"{key}={value!r} is no choice; {_allowed(str(value), allowed)}")
    return allowed[str(value)]


def _wrong_type(key: str, value: Any, expected: str) -> InputError:
    return InputError(f"{key}={value!r} has the wrong type; expected {expected}")


def _describe(expected: Any) -> str:
    return expected.__name__ if isinstance(expected, type) else str(expected)
