"""Small labelled data sets: scikit-learn's bundled ones, and the UCI files of the papers, checked by sha256."""

import csv
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["DataNotFoundError", "Dataset", "dataset_names", "load_dataset", "load_digits389", "load_wine"]

_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


class DataNotFoundError(FileNotFoundError):
    """The files of a data set are neither bundled nor where `BREGMAT_DATA` points; the message says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Points with class labels.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
        Points, in the file's own units; nothing is scaled.
    y : ndarray of shape (n,), int64
        Class of every row, a position in `target_names`.
    feature_names, target_names : tuple of str
    name : str
        The name it was loaded by.
    source : str
        Where the rows come from, and what was left out.
    """

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    name: str
    source: str

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Dataset({self.name!r}, {n} x {d}, {len(self.target_names)} classes, {self.source})"


@dataclass(frozen=True)
class _File:
    """One file of the UCI archive."""

    name: str
    sha256: str
    folder: str

    @property
    def url(self) -> str:
        return f"{_ARCHIVE}{self.folder}/{self.name}"


@dataclass(frozen=True)
class _Table:
    """Comma-separated files stacked into one set. Rows with "?" are left out; words become codes."""

    files: tuple[_File, ...]
    label: int = -1
    drop: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    sample: int | None = None
    feature_names: tuple[str, ...] = ()


_PENDIGITS = (
    _File("pendigits.tra", "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3", "pendigits"),
    _File("pendigits.tes", "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015", "pendigits"),
)
_BREAST = "breast-cancer-wisconsin"
_SONAR = "undocumented/connectionist-bench/sonar"

_UCI = {
    "wine": _Table(
        (_File("wine.data", "6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659", "wine"),),
        label=0,
        feature_names=(
            "alcohol",
            "malic_acid",
            "ash",
            "alcalinity_of_ash",
            "magnesium",
            "total_phenols",
            "flavanoids",
            "nonflavanoid_phenols",
            "proanthocyanins",
            "color_intensity",
            "hue",
            "od280/od315_of_diluted_wines",
            "proline",
        ),
    ),
    "iris": _Table(
        (_File("iris.data", "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0", "iris"),),
        feature_names=("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"),
    ),
    "ionosphere": _Table(
        (_File("ionosphere.data", "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd", "ionosphere"),)
    ),
    "balance-scale": _Table(
        (
            _File(
                "balance-scale.data",
                "5611187ef7345d807aa8ae22615945ade52a190537c0b1434bd44c3e877c5bb4",
                "balance-scale",
            ),
        ),
        label=0,
        feature_names=("left_weight", "left_distance", "right_weight", "right_distance"),
    ),
    "soybean-small": _Table(
        (_File("soybean-small.data", "f096d1675db0270071311c9f46813b204372370bd68252a5a417bdcff5879717", "soybean"),)
    ),
    "soybean-large": _Table(
        (
            _File("soybean-large.data", "04b99f2728ded9f544022d2b4f6cce0ebe11ef5c9d44f10e21acd7093876507e", "soybean"),
            _File("soybean-large.test", "ff1c5f5c41ddc9a8e3746648a2fe5cafb6b0eef86bd49575decbb665e1b6a104", "soybean"),
        ),
        label=0,
    ),
    "pendigits": _Table(_PENDIGITS),
    "pendigits389": _Table(_PENDIGITS, classes=("3", "8", "9"), sample=317),
    "sonar": _Table(
        (_File("sonar.all-data", "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d", _SONAR),)
    ),
    "breast-cancer": _Table(
        (
            _File(
                "breast-cancer-wisconsin.data",
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
                _BREAST,
            ),
        ),
        drop=(0,),
    ),
    "spambase": _Table(
        (_File("spambase.data", "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12", "spambase"),)
    ),
    "nursery": _Table(
        (_File("nursery.data", "8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d", "nursery"),)
    ),
    "letter-recognition": _Table(
        (
            _File(
                "letter-recognition.data",
                "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
                "letter-recognition",
            ),
        ),
        label=0,
    ),
}

# name -> (loader in sklearn.datasets, classes kept)
_BUNDLED = {
    "wine": ("load_wine", None),
    "iris": ("load_iris", None),
    "digits": ("load_digits", None),
    "digits389": ("load_digits", (3, 8, 9)),
    "breast-cancer-diagnostic": ("load_breast_cancer", None),
}


def dataset_names() -> tuple[str, ...]:
    """Names that `load_dataset` knows, in alphabetical order."""
    return tuple(sorted({*_BUNDLED, *_UCI}))


def load_dataset(name: str, *, data_dir: str | os.PathLike | None = None, download: bool = False) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `dataset_names()`.
    data_dir : path, optional
        Folder with the UCI files. Default: the environment variable `BREGMAT_DATA`. A file found there is read only if
        its sha256 is that of the UCI archive.
    download : bool, default False
        Fetch missing files from the UCI archive into pooch's cache folder, checked by sha256. Never done unasked.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        Unknown name, or a file whose content is not the archive's.
    DataNotFoundError
        Neither bundled with scikit-learn nor found.

    Notes
    -----
    `wine`, `iris`, `digits`, `digits389` and `breast-cancer-diagnostic` come with scikit-learn; the first two are read
    from `data_dir` when it has them (UCI's iris differs from scikit-learn's in two rows). `pendigits389` is a seeded
    sample of 317 of the 3,165 rows of the digits 3, 8 and 9: the 317 rows of Kulis 2009 are not published.
    `soybean-large` joins the files `.data` and `.test`. Rows with an unknown value ("?") are left out, columns of words
    become codes 0, 1, 2, ... in the order of their first appearance.
    """
    if name not in _BUNDLED and name not in _UCI:
        raise ValueError(f"name={name!r} is no known data set; known: {', '.join(dataset_names())}")
    folder = data_dir if data_dir is not None else os.environ.get("BREGMAT_DATA")
    if name in _UCI:
        table = _UCI[name]
        paths = _find(table, folder)
        if paths is None and name not in _BUNDLED:
            if not download:
                raise DataNotFoundError(_advice(name, table, folder))
            paths = tuple(_fetch(file) for file in table.files)
        if paths is not None:
            return _read(name, table, paths)
    return _load_bundled(name)


def load_wine() -> Dataset:
    """Wine: 178 x 13, three cultivars, raw units (proline dominates the Euclidean distance)."""
    return load_dataset("wine")


def load_digits389() -> Dataset:
    """The digits 3, 8 and 9 of scikit-learn's digits: 537 images of 8 x 8 pixels."""
    return load_dataset("digits389")


def _advice(name: str, table: _Table, folder: str | os.PathLike | None) -> str:
    files = ", ".join(file.name for file in table.files)
    where = "BREGMAT_DATA is not set" if folder is None else f"not all of them are in {os.fspath(folder)!r}"
    return (
        f"data set {name!r} needs {files}, and {where}. Set BREGMAT_DATA to a folder with these files "
        f"(from {table.files[0].url.rsplit('/', 1)[0]}/), or call load_dataset({name!r}, download=True)"
    )


def _find(table: _Table, folder: str | os.PathLike | None) -> tuple[Path, ...] | None:
    """Paths of all files of the set in `folder`, verified; None if one is absent."""
    if folder is None:
        return None
    if not Path(folder).is_dir():
        raise DataNotFoundError(f"BREGMAT_DATA (or data_dir) is {os.fspath(folder)!r}, which is not a folder")
    paths = tuple(Path(folder) / file.name for file in table.files)
    if not all(path.is_file() for path in paths):
        return None
    for path, file in zip(paths, table.files):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != file.sha256:
            raise ValueError(
                f"{path}: not the file of the UCI archive (sha256 is {digest}, expected {file.sha256}); replace it"
            )
    return paths


def _fetch(file: _File) -> Path:
    """Download one file through pooch, which checks its sha256."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError('download=True needs pooch: pip install "bregmat[data]"') from error
    return Path(
        pooch.retrieve(file.url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=pooch.os_cache("bregmat"))
    )


def _read(name: str, table: _Table, paths: tuple[Path, ...]) -> Dataset:
    rows: list[list[str]] = []
    n_unknown = 0
    for path in paths:
        with path.open(newline="", encoding="ascii") as handle:
            for row in csv.reader(handle, skipinitialspace=True):
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if "?" in cells:
                    n_unknown += 1
                else:
                    rows.append(cells)
    label = table.label % len(rows[0])
    if table.classes:
        rows = [row for row in rows if row[label] in table.classes]
    source = "UCI: " + " + ".join(path.name for path in paths)
    if n_unknown:
        source += f"; {n_unknown} rows with unknown values left out"
    if table.sample is not None:
        source += f"; seeded sample of {table.sample} of {len(rows)} rows"
        kept = np.sort(np.random.default_rng(0).choice(len(rows), table.sample, replace=False))
        rows = [rows[i] for i in kept]
    target_names, y = np.unique([row[label] for row in rows], return_inverse=True)
    features = [c for c in range(len(rows[0])) if c != label and c not in table.drop]
    X = np.column_stack([_codes([row[c] for row in rows]) for c in features])
    names = table.feature_names or tuple(f"x{c}" for c in range(len(features)))
    return Dataset(X, y.astype(np.int64), names, tuple(target_names.tolist()), name, source)


def _codes(cells: list[str]) -> np.ndarray:
    """Numbers as they are; a column with words as codes by first appearance (the documented order in the UCI files)."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        order = {word: code for code, word in enumerate(dict.fromkeys(cells))}
        return np.array([order[cell] for cell in cells], dtype=np.float64)


def _load_bundled(name: str) -> Dataset:
    import sklearn.datasets

    loader, kept = _BUNDLED[name]
    bunch = getattr(sklearn.datasets, loader)()
    X = np.asarray(bunch.data, dtype=np.float64)
    y = np.asarray(bunch.target, dtype=np.int64)
    target_names = tuple(str(target) for target in bunch.target_names)
    source = "bundled with scikit-learn"
    if kept is not None:
        mask = np.isin(y, kept)
        X, y = X[mask], np.searchsorted(kept, y[mask])
        target_names = tuple(target_names[k] for k in kept)
        source += f", digits {', '.join(target_names)} only"
    return Dataset(X, y, tuple(str(f) for f in bunch.feature_names), target_names, name, source)
