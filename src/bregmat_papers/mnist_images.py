"""What the MNIST experiment learns on: images straightened and made points, pairs of them, errors of one nearest neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import ndimage
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from bregmat import Constraints
from bregmat.base.sampling import sq_distances
from bregmat.typing import Sense
from bregmat_papers.experiments import DataHome

STEEPEST = 1.0  # shears of more than 45 degrees are cut: an image that lies on its side is no slanted one


@dataclass(frozen=True)
class Deskew:
    """How an image is straightened; by default it is left alone.

    Attributes
    ----------
    slope : {"regression", "principal"} or None
        Columns per row. "regression": least squares of columns on rows, weighted by ink. "principal": the
        principal axis of the ink made vertical (LeCun 1998, "deslanting").
    centred : bool
        Whether the centre of mass also moves to the middle of the image; else it stays where it was.
    is_rotation : bool
        Whether the image is turned by the angle of the slope instead of sheared.
    is_binary : bool
        Whether moments count every inked pixel alike, as in LeCun 1998.
    order : int
        Of the spline between pixels: 0 nearest, 1 linear.
    """

    slope: Literal["regression", "principal"] | None = None
    centred: bool = False
    is_rotation: bool = False
    is_binary: bool = False
    order: int = 1

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Straightened copies, shape (n, h, w), of images of that shape with some ink in each."""
        if self.slope is None and not self.centred:
            return images
        row, column, slope = _moments(images > 0 if self.is_binary else images, self.slope)
        middle = (np.array(images.shape[1:]) - 1) / 2
        out = np.empty_like(images)
        for k, image in enumerate(images):
            mass = np.array([row[k], column[k]])
            target = middle if self.centred else mass
            back = self._back(float(slope[k]))  # from a pixel of the new image to its place in the old one
            ndimage.affine_transform(image, back, mass - back @ target, order=self.order, output=out[k])
        return out

    def _back(self, slope: float) -> np.ndarray:
        if not self.is_rotation:
            return np.array([[1.0, 0.0], [slope, 1.0]])
        cosine = 1 / np.hypot(1, slope)
        return cosine * np.array([[1.0, -slope], [slope, 1.0]])


def _moments(ink: np.ndarray, slope: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row and column of the centre of mass, and the slope, of every image."""
    n, height, width = ink.shape
    flat = ink.reshape(n, -1).astype(float)
    y, x = (axis.ravel() for axis in np.mgrid[:height, :width])
    mass = flat.sum(axis=1)
    row, column, yy, xx, xy = (flat @ power / mass for power in (y, x, y * y, x * x, x * y))
    yy, xx, xy = yy - row * row, xx - column * column, xy - row * column
    if slope is None:
        return row, column, np.zeros(n)
    if slope == "regression":
        return row, column, xy / yy
    angle = 0.5 * np.arctan2(2 * xy, yy - xx)
    return row, column, np.clip(np.tan(angle), -STEEPEST, STEEPEST)


@dataclass(frozen=True)
class Preparation:
    """From images to points: straightening, unit length, principal components of the training images."""

    deskew: Deskew = Deskew()
    has_unit_length: bool = False
    whiten: bool = False

    def __call__(self, train: np.ndarray, test: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        """Training and test points, shapes (n, n_components), from images (n, h, w)."""
        flat = [self.deskew(images).reshape(len(images), -1) for images in (train, test)]
        if self.has_unit_length:
            flat = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in flat]
        components = PCA(n_components, whiten=self.whiten, svd_solver="covariance_eigh").fit(flat[0])
        train, test = (components.transform(rows) for rows in flat)
        return train, test


@dataclass(frozen=True, eq=False)
class Points:
    """Points and labels of one part."""

    X: np.ndarray
    y: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Points:
        return Points(self.X[rows], self.y[rows])


def images_of(data: DataHome, name: str) -> tuple[Points, Points]:
    """Training and test images, (n, h, w), ink from 0 to 1; "digits" has no split of its own: every third row is a test."""
    if name == "digits":
        table = data.table("digits")
        images = Points(table.X.reshape(-1, 8, 8) / 16, table.y)
        is_test = np.arange(len(table.y)) % 3 == 2
        return images[~is_test], images[is_test]
    train, test = (Points(part.X.reshape(-1, 28, 28) / 255, part.y) for part in data.mnist)
    return train, test


def error(train: Points, test: Points) -> float:
    """Wrong labels of one nearest neighbour, %."""
    nearest = pairwise_distances_argmin(test.X.astype(np.float32), train.X.astype(np.float32))
    return 100 * float(np.mean(train.y[nearest] != test.y))


def neighbour_pairs(points: Points, n_pairs: int, n_neighbours: int, margin: float, seed: int) -> Constraints:
    """Pairs of random points with their nearest neighbours, as many of their own class as of other classes.

    Same class: ``sq_distance <= (1 - margin) now``; else ``>= (1 + margin) now``: every pair is bounded relative to its
    own squared distance before learning.
    """
    rng = np.random.default_rng(seed)
    n_anchors = min(n_pairs // (2 * n_neighbours), len(points.y))
    anchors = np.sort(rng.choice(len(points.y), n_anchors, replace=False))
    both = [_neighbours(points, anchors, n_neighbours, is_same) for is_same in (True, False)]
    parts, senses = [], tuple[Sense, Sense](("<=", ">="))
    for (a, b), sense, factor in zip(both, senses, (1 - margin, 1 + margin)):
        parts.append(Constraints.sq_distance(a, b, factor * sq_distances(points.X.astype(float), a, b), sense))
    return parts[0] + parts[1]


def _neighbours(points: Points, anchors: np.ndarray, k: int, is_same: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest points of the own class, or of other classes, of every anchor; no pair twice, none of distance 0."""
    first, second = [], []
    for label in np.unique(points.y):
        own = anchors[points.y[anchors] == label]
        pool = np.flatnonzero((points.y == label) == is_same)
        search = NearestNeighbors(n_neighbors=min(k + is_same, len(pool)), algorithm="brute").fit(points.X[pool])
        if len(own):
            distance, nearest = search.kneighbors(points.X[own])
            keep = (pool[nearest] != own[:, None]) & (distance > 0)
            first.append(np.broadcast_to(own[:, None], nearest.shape)[keep])
            second.append(pool[nearest][keep])
    a, b = np.concatenate(first), np.concatenate(second)
    pairs = np.unique(np.sort(np.stack([a, b], axis=1), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]
