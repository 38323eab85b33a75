"""Nonnegative quadratic programs: exact solvers, the multiplicative updates, and proofs."""

from bregmat.quadratic.active_set import ActiveSetEnd, active_set
from bregmat.quadratic.least_squares import nonnegative_least_squares
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, UpdatesEnd, run_updates
from bregmat.quadratic.nnqp import nnqp
from bregmat.quadratic.problem import NonnegativeQP
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.theorem import DecayBounds, decay_bounds

__all__ = [
    "ActiveSetEnd",
    "DecayBounds",
    "MultiplicativeUpdates",
    "NonnegativeQP",
    "QPResult",
    "UpdatesEnd",
    "active_set",
    "decay_bounds",
    "nnqp",
    "nonnegative_least_squares",
    "run_updates",
]
