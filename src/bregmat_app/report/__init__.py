"""The HTML report of a learned metric: one file that opens offline. `render_report` makes it from `ReportData`."""

from bregmat_app.report.data import FoldScores, ReportData
from bregmat_app.report.page import render_report

__all__ = ["FoldScores", "ReportData", "render_report"]
