"""Semidefinite programs: a linear objective over positive semidefinite matrices under constraints, with a proven bound."""

from bregmat.applications.semidefinite.program import SemidefiniteResult, semidefinite_program

__all__ = ["SemidefiniteResult", "semidefinite_program"]
