"""A learned metric as one HTML file that opens offline: `ReportData` in, `write_report` out."""

from bregmat_app.report.data import ReportData
from bregmat_app.report.held_out import FoldScores, HeldOut
from bregmat_app.report.page import render_report, write_report

__all__ = ["FoldScores", "HeldOut", "ReportData", "render_report", "write_report"]
