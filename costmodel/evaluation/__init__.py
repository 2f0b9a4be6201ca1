"""How good are models on decisions that they have not seen? Jobs, metrics and a report."""

from costmodel.evaluation.jobs import Plan, Seeds, Sources, how_to_make, run_plan
from costmodel.evaluation.judging import JudgeConfig, Judgement, judge
from costmodel.evaluation.methods import Baseline, Method, Predictor, Published
from costmodel.evaluation.report import REPORT_FILE, write_evaluation
from costmodel.evaluation.scores import Spread
from costmodel.evaluation.tables import table_of
