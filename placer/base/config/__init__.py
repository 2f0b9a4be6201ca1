"""Settings of commands: Hydra composes YAML files, dataclasses come out."""

from placer.base.config.compose import CONF_DIR, build_target, choices, compose_config, run_command, to_dataclass
