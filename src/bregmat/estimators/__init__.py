"""scikit-learn estimators."""

from bregmat.estimators.cluster import KernelKMeans
from bregmat.estimators.kernel import KernelLearner
from bregmat.estimators.kernel_cv import KernelLearnerCV
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.metric_cv import MetricLearnerCV
from bregmat.estimators.svm import MarginSVC

__all__ = ["KernelKMeans", "KernelLearner", "KernelLearnerCV", "MarginSVC", "MetricLearner", "MetricLearnerCV"]
