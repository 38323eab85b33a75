"""How well the clusters agree with known labels, beside those of a session whose questions are random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from bregmat_app.label.answers import Answer, rows_of
from bregmat_app.label.clusters import find_clusters
from bregmat_app.label.groups import Links
from bregmat_app.label.learning import Learned, Learning


class Agreement:
    """Compares clusters with known labels, and with what random questions would give.

    The other session asks whether random pairs of points are the same, gets its answers from the labels, learns with the same
    settings, and is told the number of classes.

    Parameters
    ----------
    learning : Learning
    classes : sequence of n str
        Known labels; empty if a point has none, and then the point is left out.
    """

    def __init__(self, learning: Learning, classes: Sequence[str]) -> None:
        self.learning = learning
        self.known = np.flatnonzero([bool(name) for name in classes])
        self.code = np.unique(np.array([str(classes[i]) for i in self.known.tolist()]), return_inverse=True)[1]
        self._rng = np.random.default_rng(0)
        self._answers: list[Answer] = []
        self._learned: Learned | None = None
        self._random: dict[int, dict[str, float]] = {}

    def of(self, clusters: np.ndarray, n_answers: int) -> dict[str, dict[str, float]] | None:
        """Return `accuracy` and `nmi` of the clusters ("chosen") and of as many random questions ("random"); None without two labels.

        The accuracy is the fraction of points whose label is the most frequent one of their cluster.
        """
        if len(np.unique(self.code)) < 2:
            return None
        if n_answers not in self._random:
            self._random[n_answers] = self._scores(self._random_clusters(n_answers))
        return {"chosen": self._scores(clusters), "random": self._random[n_answers]}

    def _scores(self, clusters: np.ndarray) -> dict[str, float]:
        found = clusters[self.known]
        right = contingency_matrix(self.code, found).max(axis=0).sum()
        return {
            "accuracy": float(right / len(found)),
            "nmi": float(normalized_mutual_info_score(self.code, found)),
        }

    def _random_clusters(self, n_answers: int) -> np.ndarray:
        for number in range(len(self._answers) + 1, n_answers + 1):
            i, j = self._rng.choice(len(self.known), 2, replace=False).tolist()
            kind = "same" if self.code[i] == self.code[j] else "different"
            self._answers.append(Answer(number, kind, (int(self.known[i]), int(self.known[j]))))
        answers = self._answers[:n_answers]
        rows = rows_of(answers, self.learning.near, self.learning.far)
        self._learned = self.learning.learn(rows, self._learned)
        mapped = self.learning.X @ self._learned.map
        return find_clusters(mapped, self.learning.first, Links(answers).groups(), int(self.code.max()) + 1)
