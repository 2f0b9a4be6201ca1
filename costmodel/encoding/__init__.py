"""From (netlist, decisions) to the arrays that networks read (docs/model.md)."""

from costmodel.encoding.encode import Encoded, encode
from costmodel.encoding.features import FEATURE_VERSION, NetlistFeatures, netlist_features

__all__ = ["FEATURE_VERSION", "Encoded", "NetlistFeatures", "encode", "netlist_features"]
