"""scikit-learn estimators."""

from bregmat.estimators.cluster import KernelKMeans
from bregmat.estimators.kernel import KernelLearner
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.svm import MarginSVC

__all__ = ["KernelKMeans", "KernelLearner", "MarginSVC", "MetricLearner"]
