"""Networks that predict throughput from encoded decisions (docs/model.md)."""

from costmodel.networks.build import NetworkConfig, build_network, describe_network, network_config
from costmodel.networks.dgl_backend import dgl, has_gpu
from costmodel.networks.flow import NEAR, FlowConfig, FlowNetwork, LaneUpdate, Pooling, Round
from costmodel.networks.output import SHARPNESS, Network, Output, Readout
