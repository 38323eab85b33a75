"""Unfolding: centred kernels that keep the distances between neighbours, and embeddings from them."""

from bregmat.applications.unfolding.result import UnfoldResult
from bregmat.applications.unfolding.unfold import unfold

__all__ = ["UnfoldResult", "unfold"]
