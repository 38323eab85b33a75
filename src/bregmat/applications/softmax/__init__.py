"""Softmax over groups: metrics from queries and their right answers, as a convex problem with a dual bound."""

from bregmat.applications.softmax.nearest import SoftmaxResult, cosine_metric, softmax_metric
from bregmat.applications.softmax.scores import PairScores, cosine_scores

__all__ = ["PairScores", "SoftmaxResult", "cosine_scores", "cosine_metric", "softmax_metric"]
