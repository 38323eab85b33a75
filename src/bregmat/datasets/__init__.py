"""Data sets of the papers: scikit-learn's bundled ones, and published files checked by sha256."""

from bregmat.datasets.load import dataset_names, load_dataset, load_digits389, load_wine
from bregmat.datasets.parts import load_mnist, load_sonar_split
from bregmat.datasets.sequences import load_groel2
from bregmat.datasets.types import DataNotFoundError, Dataset, Sequences

__all__ = [
    "DataNotFoundError",
    "Dataset",
    "Sequences",
    "dataset_names",
    "load_dataset",
    "load_digits389",
    "load_groel2",
    "load_mnist",
    "load_sonar_split",
    "load_wine",
]
