"""Queries and documents: a linear map for both, learned from right answers, in which they are ranked by cosines."""

from bregmat.retrieval.learner import RetrievalLearner

__all__ = ["RetrievalLearner"]
