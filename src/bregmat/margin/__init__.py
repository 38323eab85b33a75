"""Large-margin machines: training with a certified duality gap."""

from bregmat.kernels import KernelSource, kernel_source
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.margin.train import ActiveSet, train_margin

__all__ = ["ActiveSet", "KernelSource", "MarginProblem", "MarginResult", "kernel_source", "train_margin"]
