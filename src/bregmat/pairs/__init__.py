"""Metrics from pairs, triplets and quadruplets, with metric-learn's names and manners; :mod:`bregmat.estimators` learns from labels."""

from bregmat.pairs.itml import ITML, ITML_Supervised
from bregmat.pairs.learner import PairsLearner

__all__ = ["ITML", "ITML_Supervised", "PairsLearner"]
