"""Features of texts and pictures that come without numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.threads import on_one_blas_thread
from bregmat_app.label.points import read_picture

SENTENCE_MODEL = "all-MiniLM-L6-v2"  # of sentence-transformers; used if it is on this machine
MOST_COMPONENTS = 100  # of texts, as scikit-learn advises for latent semantic analysis
MOST_OF_PICTURES = 50  # principal components
SIDE = 16  # pixels of a thumbnail


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Features (n, d), their names, and what they were made by, in words."""

    X: np.ndarray
    names: Sequence[str]
    made: str


@on_one_blas_thread  # the same bits whatever the number of threads
def text_features(texts: Sequence[str]) -> MadeFeatures:
    """Return features of texts: vectors of a sentence model if one is installed, else TF-IDF with a truncated SVD.

    All have unit length, but for texts without a word.
    """
    if (model := _sentence_model()) is not None:
        X = np.asarray(model.encode(list(texts), normalize_embeddings=True), dtype=np.float64)
        return MadeFeatures(X, [f"component {k + 1}" for k in range(X.shape[1])], f"sentence model {SENTENCE_MODEL}")
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    vectorizer = TfidfVectorizer(sublinear_tf=True, max_df=0.5, min_df=2 if len(texts) > 100 else 1)
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise ValueError("the texts have no words in common to tell them apart by") from error
    d = min(MOST_COMPONENTS, weights.shape[0] - 1, weights.shape[1] - 1)
    if d < 1:
        raise ValueError("the texts have no words in common to tell them apart by")
    svd = TruncatedSVD(d, random_state=0)
    X = normalize(svd.fit_transform(weights))
    words = vectorizer.get_feature_names_out()
    most = np.argsort(-np.abs(svd.components_), axis=1)[:, :3]
    names = [f"component {k + 1} ({', '.join(words[most[k]])})" for k in range(d)]
    return MadeFeatures(X, names, f"TF-IDF of {len(words):,} words, truncated SVD to {d} components")


def _sentence_model() -> Any:
    """Return the sentence model if sentence-transformers and its files are on this machine; nothing is downloaded."""
    try:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(SENTENCE_MODEL, local_files_only=True, device="cpu")
    except (ImportError, OSError, ValueError):
        return None


@on_one_blas_thread
def picture_features(files: Sequence[Path]) -> MadeFeatures:
    """Return the principal components of thumbnails of pictures; they are grey if all pictures are. ValueError names a bad file."""
    from sklearn.decomposition import PCA

    pixels = np.stack([_thumbnail(file) for file in files])  # (n, SIDE, SIDE, 3)
    is_grey = bool((pixels == pixels[..., :1]).all())
    pixels = (pixels[..., 0] if is_grey else pixels).reshape(len(files), -1)
    d = min(MOST_OF_PICTURES, len(files) - 1, pixels.shape[1])
    X = PCA(d, random_state=0).fit_transform(pixels)
    colour = "grey" if is_grey else "colour"
    made = f"{colour} thumbnails of {SIDE} x {SIDE} pixels, PCA to {d} components"
    return MadeFeatures(X, [f"component {k + 1}" for k in range(d)], made)


def _thumbnail(file: Path) -> np.ndarray:
    """Return a small square picture with white borders, (SIDE, SIDE, 3), from 0 to 1."""
    from PIL import Image, ImageOps

    if (picture := read_picture(file, 4 * SIDE)) is None:
        raise ValueError(f"{file}: not a picture that can be read")
    opaque = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return np.asarray(ImageOps.pad(opaque, (SIDE, SIDE), color="white"), dtype=np.float64) / 255
