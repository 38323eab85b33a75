"""Data sets of the papers: scikit-learn's bundled ones, published files checked by sha256, and sentence embeddings."""

from bregmat_papers.datasets.files import DataNotFoundError, Dataset
from bregmat_papers.datasets.load import dataset_names, load_dataset
from bregmat_papers.datasets.parts import load_mnist, load_sonar_split
from bregmat_papers.datasets.sentences import Sentences, load_sentences

__all__ = [
    "DataNotFoundError",
    "Dataset",
    "Sentences",
    "dataset_names",
    "load_dataset",
    "load_mnist",
    "load_sentences",
    "load_sonar_split",
]
