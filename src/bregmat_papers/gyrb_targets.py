"""The target kernels of the three gyrB experiments: two substitutes for one that is not public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from bregmat.base.threads import cached_property
from bregmat_papers.experiments import DataHome, Finding, Row, Unit

GENES, SYNTHETIC = "groel2", "synthetic"
TITLES = {GENES: "groEL2 genes (substitute for gyrB)", SYNTHETIC: "synthetic kernel (substitute for gyrB)"}
SIZES = (31, 11, 10)  # of the classes, as recalled for the three species of gyrB
SMALL_SIZES = (15, 13, 12)
# Word length in nucleotides: of the lengths 1 to 8, its kernel comes nearest to CLOSE pairs with a cosine of 0.8 or more.
WORD = 6
CLOSE, COSINE = 980, 0.8  # Tsuda 2004, section 5: so many of the 1,326 pairs have sq_distance <= 0.4 / 52
ABOUT = (
    "**Both kernels are substitutes** for the 52 x 52 kernel of gyrB proteins of three bacteria species, which is not "
    "public; the paper's numbers stand beside ours for shape and order of magnitude only. *groEL2*: one real groEL2 "
    "(hsp65) gene of each of 31 Mycobacterium, 11 Mycolicibacterium and 10 Mycolicibacter species; cosine of their "
    "counts of all words of 6 nucleotides, over 52, so that the trace is one. The word length is the one whose number "
    "of close pairs comes nearest to the paper's 980; classes played no part in it. *Synthetic*: a Gaussian kernel of "
    "three clusters in ten dimensions of the same class sizes, seeded, made to resemble what the papers say of gyrB: "
    "980 close pairs, and an accuracy of 5 nearest neighbours near .948. What it was made to have is no finding."
)
NOT_PUBLIC = "Not reproducible: kernel not public; shape and order of magnitude only."


@dataclass(frozen=True, eq=False)
class Target:
    """A kernel of trace one and the class of every object.

    Attributes
    ----------
    K : ndarray of shape (d, d)
        All diagonal entries are 1 / d.
    y : ndarray of shape (d,)
        Classes 0, 1, 2.
    """

    K: NDArray[np.float64]
    y: NDArray[np.int64]

    @property
    def d(self) -> int:
        """How many objects."""
        return len(self.y)

    @cached_property
    def sq_distances(self) -> NDArray[np.float64]:
        """Squared distances in the feature space, (d, d), in units of the trace."""
        return sq_distances(self.K)

    def close_pairs(self, bound: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs i < j with squared distances up to `bound`."""
        i, j = np.triu_indices(self.d, 1)
        near = self.sq_distances[i, j] <= bound
        return i[near], j[near]


def kernel_units(sizes: Sequence[int] | None = None) -> list[Unit]:
    """What names a target in a unit: both kernels at the papers' size, or the synthetic one with other class sizes."""
    if sizes is not None:
        return [{"kernel": SYNTHETIC, "sizes": list(sizes)}]
    return [{"kernel": GENES, "sizes": list(SIZES)}, {"kernel": SYNTHETIC, "sizes": list(SIZES)}]


def kernels_of(findings: Sequence[Finding]) -> list[str]:
    """The kernels that the findings are about, in order."""
    return list(dict.fromkeys(unit["kernel"] for unit, _ in findings))


def substitute_row(
    quantity: str,
    values: Sequence[float],
    some: Sequence[Finding],
    *,
    paper: float | None = None,
    unit: str = "",
    note: str = "",
) -> Row:
    """A row of the mean over runs; the paper's number beside it is one of another kernel, and the note says so."""
    note = note if paper is None else f"{NOT_PUBLIC} {note}".strip()
    return Row.mean(quantity, values, paper=paper, unit=unit, seed=some[0][0]["seed"], note=note)


def target_of(unit: Unit, data: DataHome) -> Target:
    """The kernel that a unit names."""
    return gene_target(data) if unit["kernel"] == GENES else synthetic_target(unit["sizes"])


def gene_target(data: DataHome, *, word: int = WORD) -> Target:
    """Real groEL2 genes of three genera: cosine of the counts of all words of so many letters, over 52.

    Nothing is centred. The word length is the only choice; it was made by the number of close pairs, without the classes.
    """
    genes = data.groel2
    counts = np.stack([word_counts(sequence, word) for sequence in genes.sequences])
    F = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    return Target(F @ F.T / len(F), genes.y)


def word_counts(sequence: str, word: int) -> NDArray[np.float64]:
    """How often every word of so many letters A, C, G, T occurs; shape (4 ** word,)."""
    letters = np.array(["ACGT".index(letter) for letter in sequence])
    windows = np.lib.stride_tricks.sliding_window_view(letters, word)
    return np.bincount(windows @ 4 ** np.arange(word), minlength=4**word).astype(float)


def synthetic_target(sizes: Sequence[int] = SIZES) -> Target:
    """A Gaussian kernel of three clusters in ten dimensions, over d; always the same.

    Two choices imitate what the papers say of gyrB: the width makes 980 of 1,326 pairs (in other sizes the same share) closer
    than 0.4 / d, and the distance between the clusters with the seed gives 5 nearest neighbours an accuracy near .948.
    """
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(len(sizes)), sizes)
    points = 1.2 * rng.normal(size=(len(sizes), 10))[y] + rng.normal(size=(len(y), 10))
    sq = sq_distances(points @ points.T)
    ordered = np.sort(sq[np.triu_indices(len(y), 1)])
    last = round(CLOSE / 1326 * len(ordered)) - 1
    # half-way to the next pair, so that rounding does not decide which pairs are close
    width = 0.5 * (ordered[last] + ordered[last + 1]) / -np.log(COSINE)
    return Target(np.exp(-sq / width) / len(y), y)


def sq_distances(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """``K_ii + K_jj - 2 K_ij``; rounding below 0 is cut off."""
    x = np.diag(K)
    return np.maximum(x[:, None] + x - 2.0 * K, 0.0)


def random_halves(n: int, seed: int, k: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The k-th random division of n objects into two halves, each shuffled."""
    order = np.random.default_rng([seed, k]).permutation(n)
    return order[: n // 2], order[n // 2 :]


def neighbour_errors(
    K: NDArray[np.float64], y: NDArray[np.int64], *, n_neighbors: int, divisions: int, seed: int
) -> list[float]:
    """Test errors of k nearest neighbours in a kernel, one for each random division into a training and a test half."""
    halves = (random_halves(len(y), seed, k) for k in range(divisions))
    return [neighbour_error(K, y, training, test, n_neighbors) for training, test in halves]


def neighbour_error(
    K: NDArray[np.float64], y: NDArray[np.int64], training: NDArray[np.int64], test: NDArray[np.int64], n_neighbors: int
) -> float:
    """Share of the test objects that their nearest training objects, of equally near ones the first, put in another class."""
    D = sq_distances(K)
    nearest = KNeighborsClassifier(n_neighbors, metric="precomputed")
    nearest.fit(D[np.ix_(training, training)], y[training])
    return 1.0 - float(nearest.score(D[np.ix_(test, training)], y[test]))
