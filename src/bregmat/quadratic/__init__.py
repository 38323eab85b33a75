"""Nonnegative quadratic programs: exact solvers, the multiplicative updates of Sha 2002, and certificates."""

from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.nnqp import nnqp
from bregmat.quadratic.pivoting import BlockPivoting
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.result import QPResult

__all__ = [
    "BlockPivoting",
    "ExactActiveSet",
    "MultiplicativeUpdates",
    "QPResult",
    "QuadraticProgram",
    "nnqp",
    "run_updates",
]
