"""What arguments may be: the words that strings stand for, each list once, and arrays as users have them.

Checks read the words from here (``typing.get_args``), so that what a type checker accepts and what runs are the same. A term or solver
of your own is given as an object where it is typed; its registered name works, too, but no type checker can know it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse as sp  # loads on first use, which keeps ``import bregmat`` quick

# ---------------------------------------------------------------- words
Sense: TypeAlias = Literal["<=", ">=", "=="]
DivergenceName: TypeAlias = Literal["logdet", "vonneumann", "frobenius"]
LossName: TypeAlias = Literal["relative_slack", "squared", "squared_hinge", "divergence_slack"]
VectorSolverName: TypeAlias = Literal["auto", "dual_newton", "cyclic_projection"]
SolverName: TypeAlias = VectorSolverName | Literal["definite_boost", "mirror_newton", "interior_point"]
Strategy: TypeAlias = Literal["neighbors", "random"]
MetricStrategy: TypeAlias = Strategy | Literal["softmax"]
MetricKind: TypeAlias = Literal["euclidean", "cosine"]
TargetType: TypeAlias = Literal["class", "number", "sets"]
Form: TypeAlias = Literal["comparison", "sq_distance"]
PointsPrior: TypeAlias = Literal["identity", "variance", "covariance"]
MetricPrior: TypeAlias = PointsPrior | Literal["within"]  # which needs classes, too
ItmlPrior: TypeAlias = Literal["identity", "covariance", "random"]
Calibration: TypeAlias = Literal["accuracy", "f_beta", "max_tpr", "max_tnr"]
KernelName: TypeAlias = Literal[
    "additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid", "precomputed"
]
MarginSolverName: TypeAlias = Literal["active_set", "multiplicative"]
QPSolverName: TypeAlias = Literal["auto", "pivoting", "active_set", "multiplicative"]
CutSolverName: TypeAlias = Literal["auto", "central_path", "low_rank"]
UnfoldObjective: TypeAlias = Literal["divergence", "variance"]
DecisionShape: TypeAlias = Literal["ovr", "ovo"]
OnlineLossName: TypeAlias = Literal["squared"]
Instances: TypeAlias = Literal["pairs", "vectors", "matrices"]


# ---------------------------------------------------------------- arrays
class HasArray(Protocol):
    """Whatever NumPy can make an array of: its own arrays, series and frames of pandas and polars, Dask arrays."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class Frame(HasArray, Protocol):
    """A data frame of pandas or polars."""

    @property
    def columns(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def to_numpy(self) -> np.ndarray[Any, Any]: ...


@runtime_checkable
class OnlineLoss(Protocol):
    """What an online learner needs of a loss, convex in the prediction and finite; see :class:`bregmat.MatrixExponentiatedGradient`."""

    def value(self, prediction: Any, label: Any, /) -> Any: ...
    def derivative(self, prediction: Any, label: Any, /) -> Any: ...


Array: TypeAlias = npt.NDArray[Any]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Values: TypeAlias = float | Sequence[float] | HasArray  # one number, or one for each row
Table: TypeAlias = Sequence[Sequence[float]] | Sequence[HasArray] | HasArray  # shape (n, d), dense
Sparse: TypeAlias = "sp.sparray | sp.spmatrix"
Points: TypeAlias = "Table | Sparse"
Graph: TypeAlias = Any  # a (n, n) matrix, dense or sparse, or a networkx.Graph, which has no types
Labels: TypeAlias = npt.ArrayLike  # of any type, one for each row
Pairs: TypeAlias = HasArray | Sequence[Table]  # points two by two, shape (n, 2, d)
Tuples: TypeAlias = "HasArray | Sequence[Table] | Table | Sequence[Sequence[str]]"  # (m, size, d), or indices (m, size)
Preprocessor: TypeAlias = "Points | Callable[[Any], Any]"  # rows by their numbers, or a function of indices
Instance: TypeAlias = "Sequence[float] | Table | Sparse"  # a pair (a, b), a vector or a symmetric matrix
Stream: TypeAlias = "Pairs | Sequence[Instance] | Points"  # many of them
Matrices: TypeAlias = (
    "HasArray | Sequence[Sequence[Sequence[float]]] | Sequence[HasArray | Sparse | tuple[Table, Values]]"
)
Senses: TypeAlias = Sense | Sequence[Sense] | HasArray
