"""Estimators that learn a metric from pairs, triplets and quadruplets of points; two of them replace those of metric-learn."""

from bregmat.pairs.itml import ITML, ITML_Supervised
from bregmat.pairs.learner import PairsLearner

__all__ = ["ITML", "ITML_Supervised", "PairsLearner"]
