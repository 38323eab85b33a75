"""The display of a learned metric or kernel, made as scikit-learn's displays are; Matplotlib is imported on first use."""

from bregmat.plots.embedding import EmbeddingDisplay

__all__ = ["EmbeddingDisplay"]
