"""A trained model learns more: another fabric from few labels, or from what searches find."""

from costmodel.adaptation.active import ImproveConfig, improve, write_rounds
from costmodel.adaptation.adapting import AdaptConfig, Adapted, adapt, write_adapted
