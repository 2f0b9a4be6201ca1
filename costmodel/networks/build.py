"""Networks by their configuration, and configurations as model files hold them."""

from __future__ import annotations

from dataclasses import asdict, fields
from enum import Enum
from typing import Any

import torch
from torch import nn

from costmodel.encoding import FABRIC_FEATURES, FeatureSchema
from costmodel.networks.flow import FlowConfig, FlowNetwork
from costmodel.networks.guha import GuhaConfig, GuhaNetwork
from placer.base import InputError

NetworkConfig = FlowConfig | GuhaConfig

_KINDS: dict[str, type[FlowConfig] | type[GuhaConfig]] = {"flow": FlowConfig, "guha": GuhaConfig}


def build_network(config: NetworkConfig, seed: int, features: FeatureSchema = FABRIC_FEATURES) -> nn.Module:
    """Return a network with random weights. Raises InputError when it reads no such features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(config, FlowConfig):
            if config.rules and features is not FABRIC_FEATURES:
                raise InputError(f"model.rules=true: there are no rules for {features.subject}")
            return FlowNetwork(config, features)
        if features is not FABRIC_FEATURES:
            raise InputError(f"network guha reads no features {features.version!r}; use model=flow")
        return GuhaNetwork(config)


def describe_network(config: NetworkConfig) -> dict[str, Any]:
    """Return what `network_config` reads, as JSON holds it."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(config, cls))
    values = asdict(config).items()
    return {"kind": kind} | {k: v.value if isinstance(v, Enum) else v for k, v in values}


def network_config(description: dict[str, Any]) -> NetworkConfig:
    """Return a configuration. Raises InputError for what `describe_network` never gave."""
    cls = _KINDS.get(str(description.get("kind")))
    if cls is None:
        raise InputError(f"unknown network {description.get('kind')!r:.40}; known: {', '.join(_KINDS)}")
    values = {key: value for key, value in description.items() if key != "kind"}
    wanted = {field.name: field for field in fields(cls)}
    if cls is FlowConfig:
        values = {"rules": False, "trust": False} | values  # files from before there was a choice
    if values.keys() != wanted.keys():
        raise InputError(f"network: has {sorted(values)}, needed {sorted(wanted)}")
    for name, field in wanted.items():
        default = field.default
        try:
            if isinstance(default, Enum):
                values[name] = type(default)(values[name])
        except ValueError as error:
            raise InputError(f"network: {error}") from error
        if type(values[name]) is not type(default):
            raise InputError(f"network: {name}={values[name]!r:.40} is of a wrong kind")
    return cls(**values)
