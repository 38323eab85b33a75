"""Straightening slanted handwriting: images are sheared or turned until the stroke stands upright."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import ndimage

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
