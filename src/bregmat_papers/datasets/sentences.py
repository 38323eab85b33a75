"""Sentence embeddings with classes, made without network from the docstrings of scikit-learn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# The 20 public modules of scikit-learn whose docstrings are most numerous (version 1.9).
TOPICS = (
    "cluster", "covariance", "datasets", "decomposition", "ensemble", "feature_extraction", "feature_selection",
    "gaussian_process", "impute", "linear_model", "manifold", "metrics", "mixture", "model_selection", "naive_bayes",
    "neighbors", "neural_network", "pipeline", "preprocessing", "svm",
)  # fmt: skip
MIN_WORDS = 4  # shorter texts, such as "Fit the model.", say nothing about their module
SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)  # "Parameters" and other headings of numpydoc
REFERENCES = re.compile(r"Read more in.*|\.\. \w+::.*")  # they name the module


@dataclass(frozen=True, eq=False)
class Sentences:
    """Short texts, their embeddings and the topic of each.

    Attributes
    ----------
    texts : tuple of str, length n
    X : ndarray, shape (n, d), float64
        One embedding a text, of length 1. The longer a column's vector, the more it tells: do not scale the columns.
    y : ndarray, shape (n,), int64
        Topic of each text, a position in `topics`.
    topics : tuple of str
    """

    texts: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray
    topics: tuple[str, ...]


def load_sentences(n_components: int = 100) -> Sentences:
    """Embed what scikit-learn's docstrings say first, with the module that each is from as its topic.

    The texts are docstrings of functions, classes and methods, up to the first section. A text that occurs in two modules is left out.
    The embeddings are latent semantic analysis of all texts, which uses no topic: character n-grams of 3 to 5 characters,
    weighted by TF-IDF, and their leading singular vectors.

    Parameters
    ----------
    n_components : int, default 100
        Number of dimensions of the embeddings.

    Returns
    -------
    Sentences
        About 1,500 texts of 20 topics; the texts differ between versions of scikit-learn.

    Notes
    -----
    The sources are parsed, not imported. It takes about three seconds of CPU time.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    topics_of: dict[str, set[str]] = {}
    for topic, text in _docstrings():
        topics_of.setdefault(text, set()).add(topic)
    pairs = [(text, *topics) for text, topics in topics_of.items() if len(topics) == 1]
    texts, topics = zip(*pairs)
    counts = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, sublinear_tf=True).fit_transform(texts)
    # ARPACK is exact: the vectors do not depend on a random sketch.
    X = normalize(TruncatedSVD(n_components, algorithm="arpack", random_state=0).fit_transform(counts))
    return Sentences(texts, X, np.array([TOPICS.index(topic) for topic in topics]), TOPICS)


def _docstrings() -> Iterator[tuple[str, str]]:
    """Topic and text of every docstring, up to its first section, in the order of the files."""
    import sklearn

    root = Path(sklearn.__file__).parent
    for path in sorted(root.rglob("*.py")):
        topic, *inside = path.relative_to(root).with_suffix("").parts
        if topic not in TOPICS or "tests" in inside:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                head = SECTION.split(ast.get_docstring(node) or "")[0]
                text = " ".join(REFERENCES.sub("", head).split())
                if len(text.split()) >= MIN_WORDS:
                    yield topic, text
