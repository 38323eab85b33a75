"""Solvers of problem (P): frozen settings and a private state each; the loop is in :mod:`bregmat.engine.loop`.

Others use the classes and ``SOLVERS``, ``Options`` and ``plan_of`` of :mod:`bregmat.solvers.base`.
"""

from bregmat.solvers.base import AUTO, SOLVERS
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.solvers.dual_newton import DualNewton
from bregmat.solvers.interior_point import InteriorPoint
from bregmat.solvers.mirror_newton import MirrorNewton
from bregmat.solvers.sampled_newton import SampledNewton

for _cls in (SampledNewton, DualNewton, InteriorPoint, CyclicProjection, DefiniteBoost):
    SOLVERS.add(_cls)
AUTO.update(mirror=MirrorNewton(), sampled=SampledNewton(), dual=DualNewton(), interior=InteriorPoint())
AUTO["afar"] = InteriorPoint(ahead=1e6)  # its path starts further away from the prior
