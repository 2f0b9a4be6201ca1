"""Networks that predict throughput from encoded decisions (docs/model.md)."""

from costmodel.networks.build import (
    NetworkConfig,
    build_network,
    describe_network,
    network_config,
)
from costmodel.networks.output import Network, Output

__all__ = [
    "Network",
    "NetworkConfig",
    "Output",
    "build_network",
    "describe_network",
    "network_config",
]
