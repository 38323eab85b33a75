"""The points of the page with their names, texts, pictures and known labels, and features of texts and pictures."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.threads import cached_property, on_one_blas_thread

MOST_POINTS = 20_000
MOST_TEXT = 20_000  # characters of a text that are shown
MOST_PIXELS = 50_000_000  # larger picture files are not opened
SMALL = 128  # pixels of a picture on the map and in lists; larger ones are scaled down
LARGE = 640  # pixels of a picture that is to be judged
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
SENTENCE_MODEL = "all-MiniLM-L6-v2"  # of sentence-transformers; used if it is on this machine
MOST_COMPONENTS = 100  # of texts, as scikit-learn advises for latent semantic analysis
MOST_OF_PICTURES = 50  # principal components
SIDE = 16  # pixels of a thumbnail


@dataclass(frozen=True, eq=False)
class LabelPoints:
    """Points to be labelled."""

    title: str
    X: np.ndarray  # (n, d), finite
    features: Sequence[str]
    names: Sequence[str]
    texts: Sequence[str] | None = None
    pictures: Any = None  # n files, or grey values of shape (n, height, width), from 0 (paper) to 1 (ink)
    classes: Sequence[str] | None = None  # known labels, for colours; empty if a point has none
    sample_id: np.ndarray | None = None  # (n,): what constraints name the points by; None for row numbers
    made: str = ""  # what the features were made by, if the points came without numbers
    source: str = ""  # Python code that reads them again, as `points`

    def __post_init__(self) -> None:
        n, d = self.X.shape
        if not 3 <= n <= MOST_POINTS:
            raise ValueError(f"{self.title}: 3 to {MOST_POINTS:,} points can be shown; there are {n:,}")
        if not np.isfinite(self.X).all():
            raise ValueError(f"{self.title}: points must be finite")
        for name in ("features", "names", "texts", "pictures", "classes"):
            size, values = d if name == "features" else n, getattr(self, name)
            if values is not None and len(values) != size:
                raise ValueError(f"{name} must have {size} entries; got {len(values)}")

    @cached_property
    def digest(self) -> str:
        """What a journal knows the points by."""
        digest = hashlib.sha256(repr(self.X.shape).encode())
        if self.made:  # another version of a library makes other features of the same texts or pictures
            digest.update(repr([self.made, *map(str, self.names), *(self.texts or ())]).encode())
        else:
            digest.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        return digest.hexdigest()

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def first_prior(self) -> str:
        """The prior before answers can choose one: the columns of pictures, and of points of one length, share a unit."""
        lengths = np.linalg.norm(self.X, axis=1)
        return (
            "identity" if self.pictures is not None or np.allclose(lengths[lengths > 0], lengths.max()) else "variance"
        )

    def text(self, i: int) -> str:
        """Return the text of a point, shortened; empty if there is none."""
        text = "" if self.texts is None else str(self.texts[i])
        return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " …"

    def picture(self, i: int, size: int = SMALL) -> bytes | None:
        """Return the picture of a point as PNG of at most `size` pixels a side; None if there is none or it cannot be read.

        A picture that is too large raises ValueError.
        """
        if self.pictures is None:
            return None
        return (_small_picture if size == SMALL else _picture)(self, i, size)


def _picture(points: LabelPoints, i: int, size: int) -> bytes | None:
    """Decode a picture and write it anew, so that only pixels reach the browser."""
    from PIL import Image

    given = points.pictures[i]
    out = io.BytesIO()
    if isinstance(given, Path):
        if (picture := read_picture(given, size)) is None:
            return None
        picture.save(out, "PNG")
        return out.getvalue()
    grey = np.rint(255 * (1 - np.clip(given, 0, 1))).astype(np.uint8)
    factor = max(1, size // max(grey.shape))
    Image.fromarray(np.kron(grey, np.ones((factor, factor), np.uint8))).save(out, "PNG")
    return out.getvalue()


_small_picture = lru_cache(maxsize=4096)(_picture)


def read_picture(path: Path, size: int) -> Any:
    """Return a picture as an RGBA image of Pillow, of at most `size` pixels a side; None if it cannot be read.

    A picture that is too large raises ValueError.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('pictures need Pillow: pip install "bregmat[label]"') from error
    try:
        with Image.open(path, formats=("PNG", "JPEG", "GIF", "WEBP", "BMP")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            image.thumbnail((size, size))
            return image.convert("RGBA")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"{path.name}: a picture of more than {MOST_PIXELS:,} pixels is not shown") from error
    except (OSError, ValueError, SyntaxError):  # what Pillow raises for files that are no pictures
        return None


def pictures_of(folder: Path) -> list[Path]:
    """Return the pictures of a folder by name; ValueError if there is none."""
    if found := sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS):
        return pictures_in(folder, [path.name for path in found])
    raise ValueError(f"{folder}: no picture ({', '.join(ENDINGS)})")


def pictures_in(folder: Path, named: Sequence[str]) -> list[Path]:
    """Find the picture of each name in a folder: the file of that name, or with one of the usual endings.

    A name that points outside of the folder, or has no file, raises ValueError.
    """
    root = folder.resolve(strict=True)
    found = []
    for name in named:
        tries = [root / (name + ending) for ending in ("", *ENDINGS)]
        path = next((path for path in tries if path.is_file() and path.suffix.lower() in ENDINGS), None)
        if path is None:
            raise ValueError(f"{folder}: no picture named {name!r} ({', '.join(ENDINGS)})")
        path = path.resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"{folder}: the picture named {name!r} is outside of the folder")
        found.append(path)
    return found


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Features (n, d), their names, and what they were made by, in words."""

    X: np.ndarray
    features: Sequence[str]
    made: str = ""


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
        d = min(MOST_COMPONENTS, weights.shape[0] - 1, weights.shape[1] - 1)
        svd = TruncatedSVD(d, random_state=0)  # refuses d = 0
        X = normalize(svd.fit_transform(weights))
    except ValueError as error:
        raise ValueError("the texts have no words in common to tell them apart by") from error
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


def demo_points() -> LabelPoints:
    """Return the 1,797 handwritten digits of scikit-learn, 8 x 8 pixels each."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    n = len(digits.data)
    return LabelPoints(
        title="Handwritten digits",
        X=digits.data,
        features=[f"pixel row {r + 1}, column {c + 1}" for r in range(8) for c in range(8)],
        names=[f"digit {i}" for i in range(n)],
        pictures=digits.images / 16.0,
        classes=[str(y) for y in digits.target],
    )
