"""A relation of one's own, as a user would write it: the squared distance of a point to the midpoint of two others."""

from bregmat import Relation, register

# |z_i - (z_j + z_k) / 2|^2 by Apollonius' theorem
MIDPOINT = register(
    Relation(
        "midpoint",
        {"i-j": 0.5, "i-k": 0.5, "j-k": -0.25},
        left="sq_dist({i}, midpoint of {j} and {k})",
        one="squared distance to a midpoint",
        many="squared distances to midpoints",
        help="samples i, j and k, the bound of the squared distance of i to the midpoint of j and k.",
        different=("i j", "i k", "j k"),
    )
)
