"""Reading and writing files: models, points and constraints. Nothing is pickled or unpickled."""

from bregmat.io.constraints import parse_sample_ids, read_constraints, read_placed_constraints, write_constraints
from bregmat.io.models import ModelFileError, load, read_manifest, save
from bregmat.io.paths import atomic_write, check_writable
from bregmat.io.points import Points, read_points, write_points
from bregmat.io.stored import open_constraints, open_points

__all__ = [
    "ModelFileError",
    "Points",
    "atomic_write",
    "check_writable",
    "load",
    "open_constraints",
    "open_points",
    "parse_sample_ids",
    "read_constraints",
    "read_manifest",
    "read_placed_constraints",
    "read_points",
    "save",
    "write_constraints",
    "write_points",
]
