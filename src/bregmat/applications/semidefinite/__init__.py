"""Semidefinite programs: a linear objective over positive semidefinite matrices under constraints, with a proven bound."""

from bregmat.applications.semidefinite.program import semidefinite_program
from bregmat.applications.semidefinite.result import SemidefiniteResult

__all__ = ["SemidefiniteResult", "semidefinite_program"]
