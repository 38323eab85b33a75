"""scikit-learn estimators."""

from bregmat.estimators.metric import MetricLearner

__all__ = ["MetricLearner"]
