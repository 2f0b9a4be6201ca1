"""From (netlist, decisions) to the arrays that networks read (docs/model.md)."""

from costmodel.encoding.bare import encode_bare
from costmodel.encoding.batch import Batch, make_batch
from costmodel.encoding.encode import Encoded, encode
from costmodel.encoding.features import (
    FABRIC_FEATURES,
    FEATURE_VERSION,
    FLOW_COLUMNS,
    LANE_KINDS,
    MAX_STAGE,
    NO_HARDWARE,
    OPS,
    UNIT_COLUMNS,
    FeatureSchema,
    NetlistFeatures,
    netlist_features,
)
from costmodel.encoding.graph_set import (
    NUM_STALLS,
    GraphSet,
    encode_dataset,
    encode_potentials,
    graph_set,
    stored_graph_set,
)
