# The public names, once: type checkers read them here, and ``lazy_loader`` loads each from where it is said to be when it is first
# asked for. Relative imports are what lazy_loader reads.

from . import io as io
from . import online as online
from . import pairs as pairs
from . import plots as plots
from .applications.correlation import CorrelationResult as CorrelationResult
from .applications.correlation import ShrinkResult as ShrinkResult
from .applications.correlation import factor_correlation as factor_correlation
from .applications.correlation import nearest_correlation as nearest_correlation
from .applications.correlation import shrink_correlation as shrink_correlation
from .applications.cut import CutResult as CutResult
from .applications.cut import balanced_cut as balanced_cut
from .applications.semidefinite import SemidefiniteResult as SemidefiniteResult
from .applications.semidefinite import semidefinite_program as semidefinite_program
from .applications.simplex import BoostResult as BoostResult
from .applications.simplex import DistributionResult as DistributionResult
from .applications.simplex import boost_hypotheses as boost_hypotheses
from .applications.simplex import nearest_distribution as nearest_distribution
from .applications.unfolding import UnfoldResult as UnfoldResult
from .applications.unfolding import unfold as unfold
from .base.registry import register as register
from .certificates.result import (
    MatrixResult as MatrixResult,
)
from .constraints.constraints import Constraints as Constraints
from .constraints.relations import Relation as Relation
from .coordinates.priors import Factor as Factor
from .engine.result import Result as Result
from .engine.result import SolverError as SolverError
from .engine.result import check as check
from .engine.status import ExitReason as ExitReason
from .engine.status import Record as Record
from .engine.status import Status as Status
from .estimators import (
    KernelKMeans as KernelKMeans,
)
from .estimators import (
    KernelLearner as KernelLearner,
)
from .estimators import (
    MarginSVC as MarginSVC,
)
from .estimators import (
    MetricLearner as MetricLearner,
)
from .from_labels.labels import constraints_from_labels as constraints_from_labels
from .io import ModelFileError as ModelFileError
from .io import load as load
from .io import save as save
from .nearest import nearest_kernel as nearest_kernel
from .nearest import nearest_metric as nearest_metric
from .objective.divergences import Frobenius as Frobenius
from .objective.divergences import LogDet as LogDet
from .objective.divergences import SpectralDivergence as SpectralDivergence
from .objective.divergences import VonNeumann as VonNeumann
from .objective.losses import DivergenceSlack as DivergenceSlack
from .objective.losses import RelativeSlack as RelativeSlack
from .objective.losses import ScalarLoss as ScalarLoss
from .objective.losses import Squared as Squared
from .objective.losses import SquaredHinge as SquaredHinge
from .online import (
    MatrixExponentiatedGradient as MatrixExponentiatedGradient,
)
from .online import (
    OnlineLogDet as OnlineLogDet,
)
from .online import (
    OnlinePCA as OnlinePCA,
)
from .quadratic import (
    MultiplicativeUpdates as MultiplicativeUpdates,
)
from .quadratic import (
    QPResult as QPResult,
)
from .quadratic import (
    nnqp as nnqp,
)
from .retrieval import RetrievalLearner as RetrievalLearner
from .solvers.cyclic_projection import CyclicProjection as CyclicProjection
from .solvers.definite_boost import DefiniteBoost as DefiniteBoost
from .verification import Verification as Verification
from .verification import verify as verify

__version__: str
