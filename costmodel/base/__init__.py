"""What the rooms of the cost model share: metrics of predictions, and calibration."""

from costmodel.base.calibration import CalibratedChoice, Calibration, save_calibration
from costmodel.base.metrics import MIN_BEST, Evaluation, score_graphs, score_predictions
