"""The rows of one shard: bound to their points, with their losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from bregmat.certificates.problem import build_problem
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.binding import PlacedPoints, bind
from bregmat.operators.linear_maps import Operator
from bregmat.sharded.shared_points import SHARED_POINTS, with_shared_points
from bregmat.sharded.sources import ShardSource


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of one shard.

    Attributes
    ----------
    operator, losses, unit
        As in :class:`bregmat.certificates.problem.NearestMatrix`.
    first : int
        Number of the first row among all rows.
    weight_range : (float, float)
        Smallest and largest finite slack weight.
    """

    operator: Operator
    losses: RowLosses
    unit: np.ndarray
    first: int
    weight_range: tuple[float, float]
    is_worth_storing: ClassVar[bool] = True  # binding takes longer than reading the bound rows from a file


@dataclass(frozen=True, eq=False)
class ShardSettings:
    """What all shards of a problem need to bind their rows.

    Attributes
    ----------
    coordinates : Coordinates
        Without the points.
    divergence, loss, slack_weight
        As in :func:`bregmat.nearest_metric`.
    is_shared : bool
        Whether every process keeps all points in memory, once for all its shards. Otherwise a shard keeps the points of its own rows.
    key : str
        Identifies the points.
    """

    coordinates: Coordinates
    divergence: Any
    loss: Any
    slack_weight: float
    is_shared: bool
    key: str

    @classmethod
    def of(
        cls, coordinates: Coordinates, divergence: Any, loss: Any, slack_weight: float, block_size: int
    ) -> ShardSettings:
        """Return the settings of all shards of one problem.

        Parameters
        ----------
        coordinates : Coordinates
            With the points of the rows.
        divergence, loss, slack_weight : SpectralDivergence, Loss, float
        block_size : int
            Rows of a shard.
        """
        # A shard of pairs has at most 2 block_size points: if there are no more than that, sharing all of them costs nothing.
        is_shared = coordinates.base.shape[0] <= 2 * block_size
        return cls(replace(coordinates, base=None), divergence, loss, slack_weight, is_shared, uuid4().hex)

    def load(self, source: ShardSource, points: Any, first: int) -> ShardRows:
        """Read the rows of a shard, check them and bind them.

        Parameters
        ----------
        source : ShardSource
        points : ndarray or LazyPoints
        first : int
            Number of its first row among all rows.
        """
        try:
            rows = source.read()
            rows.check_range(points.shape[0])
            operator = self._bind(rows, points)
            c = self.coordinates
            problem = build_problem(self.divergence, c.t0, operator, rows, self.loss, self.slack_weight, scale=c.scale)
        except (ValueError, TypeError, OSError) as error:
            raise type(error)(f"{source.place}: {error}") from error
        gamma = self.slack_weight * rows.weight
        soft = gamma[np.isfinite(gamma)]
        weights = float(soft.min(initial=np.inf)), float(soft.max(initial=0.0))
        return ShardRows(problem.operator, problem.losses, problem.unit, first, weights)

    def _bind(self, rows: Constraints, points: Any) -> Operator:
        if not self.is_shared:
            # A trace is a row of all points.
            base = points if rows.touched(points.shape[0]) is not None else points[0 : points.shape[0]]
            return replace(self.coordinates, base=base).bind(rows, in_span=False)[1]
        is_invariant = bool(rows.where("is_difference").all())

        def place() -> PlacedPoints:
            return replace(self.coordinates, base=np.asarray(points[0 : points.shape[0]])).place(is_invariant)

        return with_shared_points(bind(rows, SHARED_POINTS.points((self.key, is_invariant), place)))
