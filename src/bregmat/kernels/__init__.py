"""Kernel functions, kernel matrices that are never formed as a whole, their low-rank factors, and tests of definiteness."""

from bregmat.kernels.functions import KernelFunction
from bregmat.kernels.sources import KernelSource, kernel_source

__all__ = ["KernelFunction", "KernelSource", "kernel_source"]
