"""The report on a dataset: does placement matter in it, and how good is the heuristic on it?"""

from costmodel.dataset.report.tables import check_table
from costmodel.dataset.report.write import ReportSummary, report_dataset
