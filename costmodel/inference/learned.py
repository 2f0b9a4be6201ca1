"""The learned model as a cost model for placers.

cost = LearnedCost.load(fabric=load_fabric("large"))  # the model in the box; or that of a file
cost.score(netlist, decisions)  # predicted normalised throughput, higher is better
cost.predict_with_uncertainty(netlist, decisions).log_sigma
session = cost.session(netlist, sites, flow_class)  # for placements that differ little

`flow` networks run as compiled code (`costmodel/inference`), others by DGL.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.encoding import (
    FABRIC_FEATURES,
    Encoded,
    NetlistFeatures,
    encode,
    encode_bare,
    graph_set,
    netlist_features,
)
from costmodel.inference.full import predict_encoded
from costmodel.inference.search import LearnedSearch
from costmodel.inference.session import Session
from costmodel.inference.strange import strange_constants, strange_facts, warning_of
from costmodel.model import SHIPPED, Model, Prediction, model_file, open_model
from costmodel.networks import FlowNetwork
from placer.annealing import BatchedSearch, Search, Start
from placer.base import FloatArray, InputError, IntArray
from placer.base.workers import file_digest
from placer.cost import CostModel, Rules
from placer.decision import Decisions
from placer.fabric import NOT_SIMULATED, Fabric, fabric_of, load_fabric
from placer.netlist import Netlist

log = logging.getLogger(__name__)

# A model of one fabric learned the effect of its rates and latencies, so they must be the same again.
# These only say how much there is of everything, or matter only to whole networks.
_SIZES = (*NOT_SIMULATED, "columns", "rows", "compute_tiles", "memory_tiles", "ports_per_side", "dram.channels")


class LearnedCost:
    """Predicts decisions of netlists on one fabric, by one model or the mean of several.

    The mean is that of log throughput. A pessimistic score is lower by `pessimism` standard
    deviations between the models: a search does not go where they disagree.
    """

    def __init__(self, fabric: Fabric, *models: Model, pessimism: float = 0.0, student: bool = True) -> None:
        """Take the models; with `student`, searches ask their students first, if all have one.

        Raises InputError when a model was trained on one fabric with other rates, or on mappings.
        """
        if not models:
            raise InputError("a learned cost needs at least one model")
        if not 0 <= pessimism < np.inf:
            raise InputError(f"pessimism={pessimism}; allowed: 0 or more")
        if pessimism > 0 and len(models) == 1:
            raise InputError(f"pessimism={pessimism} needs several models that can disagree")
        for model in models:
            model.require_features(FABRIC_FEATURES)
            _require_same_hardware(fabric, model)
        self.fabric, self.models = fabric, models
        self.pessimism = pessimism
        self._networks = _compiled_networks(models)
        self._students = _students(models) if student else []
        self._last: tuple[Netlist, NetlistFeatures] | None = None  # a search asks for one netlist

    @classmethod
    def load(
        cls,
        location: str | Path | Sequence[str | Path] = SHIPPED,
        fabric: Fabric | None = None,
        pessimism: float = 0.0,
        student: bool = True,
        tracking: str | None = None,
    ) -> LearnedCost:
        """Return the learned cost of the model in the box, a file or an MLflow URI (`open_model`), or of several.

        Without a fabric, it is for the one that the first model was trained on, or for `small` when
        that were many.
        Raises InputError when there is no such model, or it is of another version or fabric.
        """
        locations = [location] if isinstance(location, str | Path) else location
        models = [open_model(each, tracking) for each in locations]
        if not models:
            raise InputError("no model file or URI was named")
        models[0].require_features(FABRIC_FEATURES)
        learned = models[0].origin["fabric"]
        fabric = fabric or (load_fabric("small") if "ranges" in learned else fabric_of(learned))
        return cls(fabric, *models, pessimism=pessimism, student=student)

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return the predicted normalised throughput [num_decisions] in (0, 1)."""
        log_throughput = self._predict(netlist, decisions)[:, :, 0]
        spread = log_throughput.std(axis=1)
        scores: FloatArray = np.exp(log_throughput.mean(axis=1) - self.pessimism * spread)
        return scores

    def predict_with_uncertainty(self, netlist: Netlist, decisions: Decisions) -> Prediction:
        """Return the means of the models, with the standard deviation of the logarithm.

        Its square is the mean of the squares that the models predict, plus the variance between
        them (a mixture, as in deep ensembles).
        """
        return _mixture(self._predict(netlist, decisions))

    def potential(self, netlists: Sequence[Netlist]) -> FloatArray:
        """Return what a good placement of each netlist will reach [num_netlists], in (0, 1]; no decision is needed.

        Raises InputError when a model was trained on data that does not tell.
        """
        return self.potential_with_uncertainty(netlists).throughput

    def potential_with_uncertainty(self, netlists: Sequence[Netlist]) -> Prediction:
        """Return the same with the standard deviation of the logarithm. Raises InputError likewise."""
        parts = [model.potential for model in self.models if model.potential is not None]
        if len(parts) < len(self.models):
            raise InputError(
                "the model knows decisions only, not netlists alone; train it on a dataset with a pool of anneals "
                "(size.pool), such as size=foundation"
            )
        members = np.empty((len(netlists), len(parts), 2))
        for number, netlist in enumerate(netlists):
            features, bare = netlist_features(self.fabric, netlist), encode_bare(self.fabric, netlist)
            members[number] = predict_encoded([part.network for part in parts], features, bare)[0]
        members[:, :, 1] += np.log([part.sigma_scale for part in parts])
        return _mixture(members)

    def remarks(self, netlist: Netlist) -> list[str]:
        """Return what of a netlist or its fabric is far from all that the first model has learned from."""
        model, features = self.models[0], netlist_features(self.fabric, netlist)
        return strange_constants(model, self.fabric) + strange_facts(model, features)

    def session(self, netlist: Netlist, sites: IntArray, flow_class: IntArray) -> Session:
        """Return a session for a walk through placements with dimension-ordered routes.

        `flow_class` [num_flows] is 0 for XY and 1 for YX. Raises InputError without compiled code.
        """
        if self._networks is None:
            raise InputError("a session needs models with `flow` networks")
        return Session(self._networks, self.fabric, netlist, sites, flow_class, self.pessimism)

    def open_search(self, netlist: Netlist, start: Start, mix: FloatArray, seed: int) -> Search:
        """Return a search for the annealer."""
        if self._networks is None:
            return BatchedSearch(self.fabric, netlist, self, start, mix, seed)
        return LearnedSearch(self._networks, self.fabric, netlist, start, mix, seed, self.pessimism, self._students)

    def _predict(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        """Return log throughput and log sigma by each model [num_decisions, num_models, 2]."""
        if self._last is None or self._last[0] is not netlist:
            self._last = netlist, netlist_features(self.fabric, netlist)
            if remarks := self.remarks(netlist):
                log.warning(warning_of(netlist.name, remarks))
        features, encoded = self._last[1], encode(self.fabric, netlist, decisions)
        if self._networks is None:
            return _predict_by_dgl(self.models, features, encoded)
        result = predict_encoded(self._networks, features, encoded)
        if not np.isfinite(result).all():
            raise InputError("the model gives a prediction that is not finite; train it again")
        result[:, :, 1] += np.log([model.sigma_scale for model in self.models])
        return result


@dataclass(frozen=True, slots=True)
class LearnedChoice:
    """`cost=learned` on a command line."""

    name: str
    model_file: Path  # or MLflow URI
    more_models: list[Path]  # that are asked as well
    pessimism: float
    student: bool
    tracking: str | None

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> CostModel:
        return LearnedCost.load(
            [self.model_file, *self.more_models], fabric, self.pessimism, self.student,
            self.tracking,
        )  # fmt: skip

    def files(self) -> dict[str, str]:
        """Return the hash of each model file; a URI stands for itself. Raises InputError when one cannot be read."""
        named = [("model_file", self.model_file), *(("more_models", each) for each in self.more_models)]
        hashes = {}
        for option, location in named:
            try:
                path = model_file(location)
                if path is not None:
                    hashes[str(location)] = file_digest(path)
            except InputError as error:
                raise InputError(f"{option}: {error}") from error
        return hashes


def _mixture(members: FloatArray) -> Prediction:
    """Return one prediction from log throughput and log sigma by each model [num, num_models, 2]."""
    variance = np.exp(2 * members[:, :, 1]).mean(axis=1) + members[:, :, 0].var(axis=1)
    return Prediction(np.exp(members[:, :, 0].mean(axis=1)), np.log(variance) / 2)


def _compiled_networks(models: Sequence[Model]) -> list[FlowNetwork] | None:
    networks = [model.network for model in models if isinstance(model.network, FlowNetwork)]
    if len(networks) < len(models):
        return None
    if any(network.config != networks[0].config for network in networks):
        raise InputError("the models of an ensemble must have networks of the same configuration")
    return networks


def _students(models: Sequence[Model]) -> list[FlowNetwork]:
    """Return the students of all models, or none when one has none or they differ in kind."""
    students = [model.student for model in models if model.student is not None]
    is_complete = len(students) == len(models) and all(s.config == students[0].config for s in students)
    return students if is_complete else []


def _predict_by_dgl(models: Sequence[Model], features: NetlistFeatures, encoded: Encoded) -> FloatArray:
    graphs, ids = graph_set([(features, encoded)]), np.arange(len(encoded))
    result = np.empty((len(encoded), len(models), 2))
    for member, model in enumerate(models):
        prediction = model.predict_graphs(graphs, ids)
        assert prediction.log_sigma is not None
        result[:, member, 0] = np.log(prediction.throughput)
        result[:, member, 1] = prediction.log_sigma
    return result


def _require_same_hardware(fabric: Fabric, model: Model) -> None:
    """Raise InputError when a model can know nothing of a fabric: it saw one with other rates alone."""
    if "ranges" in model.origin["fabric"]:
        if isinstance(model.network, FlowNetwork) and model.network.reads_hardware:
            return
        raise InputError("the model was trained on many fabrics, but its network does not see which; train another one")
    learned, given = _rates(model.origin["fabric"]), _rates(asdict(fabric))
    for name in sorted(learned.keys() | given.keys()):
        if learned.get(name) != given.get(name):
            raise InputError(
                f"the model was trained with {name}={learned.get(name)}, the fabric "
                f"{fabric.name!r} has {given.get(name)}; train a model for this fabric"
            )


def _rates(description: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return all values but sizes, by dotted name."""
    values: dict[str, Any] = {}
    for key, value in description.items():
        if prefix + key in _SIZES:
            continue
        if isinstance(value, dict):
            values |= _rates(value, f"{prefix}{key}.")
        else:
            values[prefix + key] = value
    return values
