"""Workloads: dataset families and published models as dataflow graphs."""

from placer.graph.workloads.backward import with_backward
from placer.graph.workloads.build import build, build_layer
from placer.graph.workloads.builder import GraphBuilder
from placer.graph.workloads.networks import DECODERS, VISION, DecoderSpec, VisionSpec
from placer.graph.workloads.sampling import NETWORK_FAMILIES, SECTION, random_network, sample_network
from placer.graph.workloads.sizing import WorkloadConfig, default_spec, resolve, sample_spec
from placer.graph.workloads.specs import (
    FAMILIES,
    MODELS,
    NETWORKS,
    FamilySpec,
    FfnSpec,
    GemmSpec,
    MhaSpec,
    MlpSpec,
    ModelSpec,
    Spec,
    forward_macs,
)
