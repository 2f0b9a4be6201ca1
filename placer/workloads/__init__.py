"""Workloads: dataset families and published models as dataflow graphs."""

from placer.workloads.backward import with_backward
from placer.workloads.build import build, build_layer
from placer.workloads.builder import GraphBuilder
from placer.workloads.config import WorkloadConfig, resolve
from placer.workloads.sizing import default_spec, sample_layer, sample_spec
from placer.workloads.specs import (
    FAMILIES,
    MODELS,
    FfnSpec,
    GemmSpec,
    MhaSpec,
    MlpSpec,
    ModelSpec,
    Spec,
    forward_macs,
)

__all__ = [
    "FAMILIES",
    "MODELS",
    "FfnSpec",
    "GemmSpec",
    "GraphBuilder",
    "MhaSpec",
    "MlpSpec",
    "ModelSpec",
    "Spec",
    "WorkloadConfig",
    "build",
    "build_layer",
    "default_spec",
    "forward_macs",
    "resolve",
    "sample_layer",
    "sample_spec",
    "with_backward",
]
