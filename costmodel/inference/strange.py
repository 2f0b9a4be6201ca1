"""What a model is asked about that is far from everything it has learned from.

A prediction there is a guess, and its interval too narrow. Two things are looked at: constants of the
fabric against the ranges of training, and the mean of each fact of units and flows against the mean and
deviation that the network normalises it with.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch

from costmodel.encoding import NetlistFeatures
from costmodel.model import Model, constants_of
from costmodel.networks import FlowNetwork
from placer.fabric import NOT_SIMULATED, Fabric

FAR = 4.0  # deviations of training between its mean and that of a netlist
SLACK = 0.1  # of a range of training, by which a constant may lie outside of it
MAX_REMARKS = 3


def strange_constants(model: Model, fabric: Fabric) -> list[str]:
    """Return a remark for each constant of a fabric far outside of what a model of many fabrics has seen."""
    ranges = model.origin["fabric"].get("ranges", {})
    remarks = []
    for name, value in constants_of(asdict(fabric)).items():
        if name not in ranges or name.partition(".")[0] in NOT_SIMULATED:
            continue
        low, high = ranges[name]
        slack = SLACK * max(high - low, abs(high))
        if not low - slack <= value <= high + slack:
            remarks.append(f"{name}={value:g} of fabric {fabric.name!r} (seen: {low:g} to {high:g})")
    return remarks


def strange_facts(model: Model, features: NetlistFeatures) -> list[str]:
    """Return a remark for each fact of units or flows whose mean is far from what a model has seen."""
    network = model.network
    if not isinstance(network, FlowNetwork):
        return []
    remarks = []
    known = (
        ("units", network.unit_normaliser, features.unit, network.features.unit_columns),
        ("flows", network.flow_normaliser, features.flow, network.features.flow_columns),
    )
    for kind, normaliser, rows, columns in known:
        if not len(rows):
            continue
        with torch.inference_mode():
            distance = normaliser(torch.from_numpy(rows)).mean(dim=0).numpy()
        remarks += [f"{columns[k]} of {kind}" for k in np.flatnonzero(np.abs(distance) > FAR)]
    return remarks


def warning_of(name: str, remarks: list[str]) -> str:
    """Return one sentence for a netlist."""
    shown = ", ".join(remarks[:MAX_REMARKS]) + (", ..." if len(remarks) > MAX_REMARKS else "")
    return f"netlist {name}: far from what the model has learned from, its prediction is a guess: {shown}"
