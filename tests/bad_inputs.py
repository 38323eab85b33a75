"""Every public entry with good arguments, and of what kind each parameter is: the table that test_bad_input.py crosses with bad values.

A parameter that is missing here fails a test, as does a public name; so does a kind that a bad value gets through.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import KNeighborsClassifier

import bregmat
from bregmat import Constraints, Factor

EYE, NAN, INF = np.eye(4), np.nan, np.inf
X = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [3.0, 1.0, 0.0], [2.0, 5.0, 1.0], [4.0, 2.0, 7.0], [1.5, 0.5, 3.0]])
Y = np.array([0, 1, 0, 1, 0, 1])
PAIR = Constraints.sq_distance(0, 1, 1.0, "<=")
LATE = Constraints.sq_distance(0, 99, 1.0, "<=")
RESULT = bregmat.nearest_kernel(EYE, PAIR)
QUICK = {"cv": 2, "slack_weights": (1.0,), "estimator": KNeighborsClassifier(1)}
FEW = {"RetrievalLearner": {"temperature": 0.1, "slack_weight": 10.0}}  # too few queries to choose them by


def at(A, value):
    """A copy whose second row has a bad entry."""
    A = np.array(A, dtype=type(value) if isinstance(value, complex) else float)
    A[(1,) * A.ndim] = value
    return A


def masked(A):
    return np.ma.masked_array(A, mask=np.arange(np.size(A)).reshape(np.shape(A)) == 1)


class Thing:
    """Nothing that a library knows."""

    def __repr__(self):
        return "Thing()"


def table(good, *, none=False, square=False):
    """Bad values for a two-dimensional array of numbers."""
    good = np.asarray(good, dtype=float)
    bad = {
        "nan": at(good, NAN),
        "inf": at(good, INF),
        "complex": at(good, 1j),
        "text": [["a", "b"], ["c", "d"]],
        "number text": good.astype(str),
        "word": "points",
        "thing": Thing(),
        "ragged": [[1.0, 2.0], [3.0]],
        "flat": good[0],
        "deep": good[None],
        "no rows": good[:0],
        "masked": masked(good),
    }
    if square:
        bad |= {"not square": good[:-1], "asymmetric": good + np.eye(len(good), k=1) * (1 + np.abs(good).max())}
    return bad if none else bad | {"none": None}


def column(n, *, none=False, low=None):
    """Bad values for one number an entry."""
    good = np.ones(n)
    bad = {
        "nan": at(good, NAN),
        "complex": at(good, 1j),
        "text": ["a"] * n,
        "word": "values",
        "thing": Thing(),
        "longer": np.ones(n + 1),
        "table": np.ones((n, 2)),
        "truths": good > 0,
        "masked": masked(good),
    }
    bad |= {} if low is None else {"low": at(good, low)}
    return bad if none else bad | {"none": None}


def number(*bad, none=False, inf=True):
    """Bad values for a number: those given, and what is none."""
    found = {"nan": NAN, "text": "1", "truth": True, "complex": 1j, "several": [1.0, 2.0], "thing": Thing()}
    found |= {"inf": INF} if inf else {}
    found |= {repr(value): value for value in bad}
    return found if none else found | {"none": None}


def count(lowest, *, none=True):
    """Bad values for an integer."""
    found = {
        "low": lowest - 1,
        "half": lowest + 0.5,
        "nan": NAN,
        "text": "3",
        "truth": True,
        "several": [3],
        "thing": Thing(),
    }
    return found if none else found | {"none": None}


VERBOSE = {name: value for name, value in count(0, none=False).items() if name != "truth"}
POSITIVE = number(0, -1.0)
WEIGHT = number(0, -1.0, inf=False)  # where inf means hard, or no limit
SECONDS = number(0, -1.0, none=True, inf=False)
FLAG = {"none": None, "one": 1, "word": "yes", "several": [True], "thing": Thing()}
MAYBE = {name: value for name, value in FLAG.items() if name != "none"}
WORD = {"unknown": "nonsense", "empty": "", "number": 3, "truth": True, "several": ["auto"], "thing": Thing()}
SETTING = WORD | {"none": None}
CALLABLE = {"number": 3, "word": "print", "thing": Thing()}
INDEX = {
    "negative": -1,
    "half": 0.5,
    "nan": NAN,
    "inf": INF,
    "far": 2**70,
    "truth": True,
    "complex": 1j,
    "table": [[0, 1]],
    "none": None,
    "thing": Thing(),
}
BOUND = {
    "nan": NAN,
    "inf": INF,
    "text": "1",
    "complex": 1j,
    "truth": True,
    "two": [1.0, 2.0],
    "table": [[1.0]],
    "thing": Thing(),
    "masked": masked(np.ones(2)),
}
SENSE = {"unknown": "<", "number": 1, "none": None, "two": ["<=", ">="], "thing": Thing()}
ROWS = {"list": [(0, 1)], "none": None, "word": "pairs", "class": Constraints, "array": np.eye(2), "far": LATE}
SEED = {"negative": -1, "half": 0.5, "word": "seed", "several": [1.5], "thing": Thing()}
PATH = {"folder": "absent/model.bm", "number": 3, "none": None, "thing": Thing()}
SAMPLES = {name: value for name, value in column(len(X), none=True).items() if name in ("longer", "table")} | {
    "twice": [1] * len(X)
}
LABELS = {"longer": np.append(Y, 1), "table": np.ones((len(X), 2)), "halves": Y + 0.5, "inf": at(Y, INF)}
WEIGHTS = column(len(X), none=True, low=-1.0)  # of points
GROUPS = {"longer": np.append(Y, 1), "table": np.ones((len(X), 2)), "number": 3}  # of points
LIMITS = {"tol": POSITIVE, "max_iter": count(0), "max_seconds": SECONDS, "callback": CALLABLE}


@dataclass
class Entry:
    """A call with good arguments, and the bad values of each parameter; ``called`` is what a message calls it."""

    call: object
    good: dict | None  # None: there is no call without side effects
    bad: dict
    called: dict = field(default_factory=dict)
    free: tuple = ()  # parameters that take anything
    signature: object = None  # of what, where the call is a wrapper


def of_class(name, method, **settings):
    """Calls ``method`` of an object of the class that has been given good examples."""

    def call(**given):
        return getattr(fitted(name, **settings), method)(**given)

    return call


@cache
def fitted(name, **settings):
    """An object ready to use; what is refused does not change it."""
    if name == "MatrixExponentiatedGradient":
        return bregmat.MatrixExponentiatedGradient(4, eta=0.1, **settings).partial_fit([[0, 1], [1, 2]], [0.1, 0.2])
    if name == "OnlineLogDet":
        return bregmat.OnlineLogDet(3, eta=0.1, differences=True, **settings).partial_fit(X, np.ones(6))
    if name == "OnlinePCA":
        return bregmat.OnlinePCA(2, eta=0.1, **settings).partial_fit(X / 10)
    machine = getattr(bregmat, name)(**FEW.get(name, {}) | settings)
    if name == "RetrievalLearner":
        return machine.fit(X, X)
    return machine.fit(X) if name == "KernelKMeans" else machine.fit(X, Y)


def with_setting(name):
    """Makes the estimator with the given parameters and fits it."""

    def call(**settings):
        good = {
            "KernelKMeans": {"n_clusters": 2, "n_init": 1},
            "KernelLearner": {"kernel": "linear"},
            **FEW,
        }.get(name, {})
        machine = getattr(bregmat, name)(**good | settings)
        if name == "KernelKMeans":
            return machine.fit(X)
        if name == "RetrievalLearner":
            return machine.fit(X, X)
        if name == "MatrixExponentiatedGradient":
            return machine.partial_fit([[0, 1], [1, 2]], [0.1, 0.2])
        return (
            machine.partial_fit(X / 10)
            if name == "OnlinePCA"
            else machine.fit(X, np.ones(6) if name == "OnlineLogDet" else Y)
        )

    return call


SEARCH = {
    "strategies": {"word": "random", "unknown": ("nonsense",), "empty": (), "none": None, "thing": Thing()},
    "slack_weights": {
        "one": 1.0,
        "zero": (0.0,),
        "negative": (-1.0,),
        "inf": (INF,),
        "nan": (NAN,),
        "empty": (),
    }
    | {"text": ("a",), "truth": (True,), "none": None, "complex": (1j,)},
    "cv": {"one": 1, "zero": 0, "half": 2.5, "word": "five", "truth": True, "thing": Thing(), "many": 99},
    "estimator": {"number": 3, "word": "knn", "thing": Thing()},
    "scoring": {"unknown": "nonsense", "number": 3, "thing": Thing()},
    "n_jobs": {"zero": 0, "half": 1.5, "word": "all", "thing": Thing()},
    "max_seconds": SECONDS,
    "random_state": SEED,
    "verbose": {name: value for name, value in VERBOSE.items() if name != "none"},
}

KERNEL = {
    "kernel": WORD,
    "gamma": number(-1.0, none=True),
    "degree": number(),
    "coef0": number(),
    "kernel_params": {"list": [1], "word": "x"},
}
DRAWING = {
    "strategy": SETTING,
    "n_neighbors": count(1, none=False),
    "n_impostors": count(1, none=False),
}
PERCENTILES = {
    "one": (5,),
    "text": ("a", "b"),
    "high": (5, 105),
    "falling": (95, 5),
    "number": 5,
    "nan": (NAN, 95),
}
LEARNER = {
    "divergence": SETTING,
    "slack_weight": WEIGHT,
    "loss": WORD,
    "n_constraints": count(0),
    "solver": SETTING,
    "tol": POSITIVE,
    "max_iter": count(1),
    "callback": CALLABLE,
    "random_state": SEED,
    "warm_start": FLAG,
    **DRAWING,
    "strategy": WORD,  # None: nothing is learned
    "target_type": WORD,
    "verbose": VERBOSE,
}
POINTS = table(X, square=False)
RELEVANT = {
    "far": [[0, 9]],
    "negative": [[0, -1]],
    "half": [[0, 0.5]],
    "nan": [[0, NAN]],
    "text": [["a", "b"]],
    "three": [[0, 1, 2]],
    "flat": [0, 1],
    "truths": [[True, False]],
    "none relevant": np.zeros((0, 2), dtype=int),
    "sparse, other shape": sp.csr_array(np.eye(5)),
    "sparse, negative": sp.csr_array(-np.eye(6)),
    "sparse, nan": sp.csr_array(NAN * np.eye(6)),
    "thing": Thing(),
}
PROGRAM = {
    "x0": column(4, none=True, low=-1.0),
    "upper": dict(column(4, none=True, low=-1.0).items()),
    "solver": SETTING,
}
QP = (
    PROGRAM
    | {
        "equality": {
            "number": 3,
            "one": (np.ones((1, 4)),),
            "short": (np.ones((1, 3)), [1.0]),
            "nan": (at(np.ones((2, 4)), NAN), [1.0, 1.0]),
            "thing": Thing(),
        }
    }
    | LIMITS
    | {"max_iter": count(1)}
)
PAIR_INDEX = {
    "i": INDEX,
    "j": INDEX,
    "bound": BOUND | {"negative": -1.0, "none": None},
    "sense": SENSE,
    "weight": BOUND | {"zero": 0.0, "negative": -1.0},
}
del PAIR_INDEX["weight"]["inf"]  # hard
TUPLES = {
    "flat": [0, 1],
    "points": np.ones((2, 3, 4)),
    "list of points": [[[0.0, 1.0], [1.0, 0.0]]],
    "four": [[0, 1, 2, 3]],
    "ragged": [[0, 1, 2], [0]],
    "word": "pairs",
    "number": 3,
    "empty": [],
    "none": None,
    "thing": Thing(),
    "halves": [[0, 0.5, 1], [0, 0.5, 1]],
}
FOUR = {"i": INDEX, "j": INDEX, "k": INDEX, "l": INDEX, "margin": BOUND, "weight": PAIR_INDEX["weight"]}

ENTRIES = {
    "nearest_kernel": Entry(
        bregmat.nearest_kernel,
        {"prior": EYE, "constraints": PAIR},
        {
            "prior": table(EYE, square=True) | {"indefinite": -EYE, "sparse": sp.eye_array(4).tocsr() * NAN},
            "constraints": ROWS,
        }
        | {
            "divergence": SETTING,
            "loss": WORD,
            "slack_weight": WEIGHT,
            "solver": SETTING,
            "warm_start": {"array": EYE, "number": 1, "word": "x"},
        }
        | LIMITS,
    ),
    "nearest_metric": Entry(
        bregmat.nearest_metric,
        {"X": X, "constraints": PAIR},
        {"X": POINTS, "constraints": ROWS, "prior": table(np.eye(3), none=True, square=True) | {"order": np.eye(5)}}
        | {
            "divergence": SETTING,
            "loss": WORD,
            "slack_weight": WEIGHT,
            "solver": SETTING,
            "warm_start": {"array": EYE, "number": 1},
            "executor": count(1),
            "block_size": count(1),
        }
        | LIMITS,
    ),
    "nearest_correlation": Entry(
        bregmat.nearest_correlation,
        {"C": EYE},
        {"C": table(EYE, square=True), "divergence": SETTING, "min_eig": number(-0.1, 2.0), "rank": count(1)}
        | {"fixed": {"number": 3, "word": "x", "small": np.zeros((2, 2), bool), "numbers": EYE, "thing": Thing()}}
        | {"weights": {"number": 3, "word": "x", "small": np.ones((2, 2)), "below": -np.ones((4, 4)), "thing": Thing()}}
        | {"bounds": {"number": 3, "three": (1, 2, 3), "crossed": (0.5, 0.4), "word": ("x", None), "thing": Thing()}}
        | {"scale": MAYBE}
        | LIMITS,
    ),
    "factor_correlation": Entry(
        bregmat.factor_correlation,
        {"C": EYE, "n_factors": 2},
        {"C": table(EYE, square=True), "n_factors": count(1, none=False) | {"5": 5}, "scale": MAYBE} | LIMITS,
    ),
    "shrink_correlation": Entry(
        bregmat.shrink_correlation,
        {"C": EYE},
        {"C": table(EYE, square=True), "min_eig": number(-0.1, 2.0), "scale": MAYBE}
        | {
            "target": {
                "number": 3,
                "word": "x",
                "small": np.eye(2),
                "negative": -EYE,
                "ones": 0 * EYE + 1,
                "thing": Thing(),
            }
        }
        | {"fixed": {"number": 3, "word": "x", "small": np.zeros((2, 2), bool), "numbers": EYE, "thing": Thing()}},
    ),
    "nearest_distribution": Entry(
        bregmat.nearest_distribution,
        {"prior": np.full(4, 0.25), "A": np.ones((2, 4)), "b": [0.1, 0.1], "sense": ">="},
        {
            "prior": column(4, low=-1.0) | {"inf": at(np.ones(4), INF)},
            "A": table(np.ones((2, 4))),
            "b": column(2),
            "sense": {k: v for k, v in SENSE.items() if k != "two"},
        }
        | {"total": number(0, -1.0, none=True), "solver": SETTING}
        | LIMITS,
        {"A": "A|b"},
    ),
    "nnqp": Entry(bregmat.nnqp, {"A": EYE, "b": -np.ones(4)}, {"A": table(EYE, square=True), "b": column(4)} | QP),
    "Factor.widened": Entry(
        Factor(np.eye(3)[:, :2]).widened,
        {"eps": 0.1},
        {"eps": POSITIVE, "directions": table(np.eye(3), none=True) | {"rows": np.ones((5, 1))}},
    ),
    "balanced_cut": Entry(
        bregmat.balanced_cut,
        {"graph": np.ones((6, 6)) - np.eye(6), "max_seconds": 5.0},
        {"graph": table(np.ones((6, 6)) - np.eye(6), square=True) | {"negative": np.eye(6) - np.ones((6, 6))}}
        | {"vertex_weights": column(6, none=True, low=0.0), "target": number(0, 1, -0.5), "fixed": column(6, none=True)}
        | {"refine": FLAG, "random_state": SEED, "solver": SETTING, "n_roundings": count(0, none=False)}
        | LIMITS,
    ),
    "semidefinite_program": Entry(
        bregmat.semidefinite_program,
        {"C": EYE, "constraints": PAIR},
        {"C": table(EYE, square=True), "constraints": ROWS, "slack_weight": WEIGHT} | LIMITS,
    ),
    "unfold": Entry(
        bregmat.unfold,
        {"X": X, "n_neighbors": 4},
        {
            "X": POINTS,
            "n_neighbors": count(1, none=False) | {"far": 6},
            "n_components": count(1, none=False) | {"far": 6},
        }
        | {"divergence": SETTING, "objective": SETTING, "slack_weight": WEIGHT, "rtol": number(-1.0)}
        | {"prior_scale": number(0, -1.0, none=True)}
        | LIMITS,
    ),
    "boost_hypotheses": Entry(
        bregmat.boost_hypotheses,
        {"H": np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]), "y": [1, -1, 1]},
        {
            "H": table(np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])) | {"two": 2 * np.ones((3, 2))},
            "y": column(3) | {"zero": [1, 0, 1]},
        }
        | {
            "n_steps": count(0, none=False),
            "sample_weight": column(3, none=True, low=-1.0),
            "max_seconds": SECONDS,
            "callback": CALLABLE,
        },
        {"y": "y|label"},
    ),
    "constraints_from_labels": Entry(
        bregmat.constraints_from_labels,
        {"X": X, "y": Y},
        {
            "X": POINTS,
            "y": LABELS,
            "n_constraints": count(1),
            "percentiles": PERCENTILES,
            "random_state": SEED,
            "form": SETTING,
            **DRAWING,
        },
        free=("unlabeled",),
    ),
    "Factor": Entry(
        lambda G0: bregmat.nearest_kernel(Factor(G0), PAIR),
        {"G0": X},
        {"G0": dict(POINTS.items())},
        {"G0": "G0|the data|prior"},
    ),
    "Constraints.sq_distance": Entry(
        Constraints.sq_distance, {"i": 0, "j": 1, "bound": 1.0, "sense": "<="}, PAIR_INDEX
    ),
    "Constraints.similarity": Entry(
        Constraints.similarity,
        {"i": 0, "j": 1, "bound": 1.0, "sense": "<="},
        PAIR_INDEX | {"bound": BOUND | {"none": None}},
    ),
    "Constraints.comparison": Entry(
        Constraints.comparison, {"i": 0, "j": 1, "k": 2, "l": 3}, FOUR, {"margin": "margin|bound"}
    ),
    "Constraints.similarity_comparison": Entry(
        Constraints.similarity_comparison,
        {"j": 0, "k": 1, "l": 2, "m": 3},
        {"j": INDEX, "k": INDEX, "l": INDEX, "m": INDEX, "margin": BOUND, "weight": PAIR_INDEX["weight"]},
        {"margin": "margin|bound"},
    ),
    "Constraints.diagonal": Entry(
        Constraints.diagonal,
        {"values": [1.0]},
        {
            "values": {k: v for k, v in BOUND.items() if k != "two"} | {"negative": [-1.0]},
            "index": {k: v for k, v in INDEX.items() if k not in ("none", "thing")},
        }
        | {"weight": PAIR_INDEX["weight"]},
        {"values": "values|bound"},
    ),
    "Constraints.entries": Entry(
        Constraints.entries,
        {"C": EYE},
        {"C": {k: v for k, v in table(EYE, square=True).items() if k != "nan"}, "weight": PAIR_INDEX["weight"]},
    ),
    "Constraints.trace": Entry(
        Constraints.trace,
        {"value": 1.0},
        {"value": BOUND | {"negative": -1.0}, "weight": PAIR_INDEX["weight"]},
        {"value": "value|bound"},
    ),
    "Constraints.linear": Entry(
        Constraints.linear,
        {"matrices": [EYE], "bound": 1.0, "sense": "<="},
        {"matrices": {k: [v] for k, v in table(EYE, square=True).items() if k != "ragged"} | {"number": 3}}
        | {"bound": BOUND, "sense": SENSE, "weight": PAIR_INDEX["weight"]},
    ),
    "Constraints.of": Entry(
        lambda relation="sq_distance", samples=(0, 1), bound=1.0, sense="<=", weight=1.0: Constraints.of(
            relation, *samples, bound=bound, sense=sense, weight=weight
        ),
        {},
        {
            "relation": WORD | {"none": None, "matrix": "linear"},
            "samples": {"one": (0,), "three": (0, 1, 2)},
            "bound": BOUND,
            "sense": dict(SENSE.items()),
        }
        | {"weight": PAIR_INDEX["weight"]},
        {"samples": "samples"},
        signature=Constraints.of,
    ),
    "Constraints.from_pairs": Entry(
        Constraints.from_pairs,
        {"pairs": [[0, 1], [2, 3], [1, 4]], "y": 1, "X": X},
        {
            "pairs": TUPLES | {"triplets": [[0, 1, 2]], "same": [[0, 1], [2, 2]]},
            "y": {k: v for k, v in column(3).items() if k != "truths"} | {"two": [1, 2, 1], "both": [0, -1, 1]},
            "bounds": {
                "one": 1.0,
                "falling": (4.0, 1.0),
                "negative": (-1.0, 1.0),
                "text": ("a", "b"),
                "nan": (NAN, 1.0),
            }
            | {"inf": (1.0, INF), "thing": Thing(), "three": (1.0, 2.0, 3.0)},
            "X": POINTS,
            "percentiles": PERCENTILES,
            "weight": PAIR_INDEX["weight"],
            "random_state": SEED,
        },
        {"pairs": "pairs|i and j|i must|j must|i, j"},
        signature=Constraints.from_pairs,
    ),
    "Constraints.from_triplets": Entry(
        Constraints.from_triplets,
        {"triplets": [[0, 1, 2], [2, 3, 4], [3, 4, 5]], "X": X},
        {
            "X": table(X, none=True) | {"short": X[:3]},
            "sample_id": SAMPLES,
            "triplets": TUPLES | {"pairs": [[0, 1]], "same": [[0, 1, 2], [0, 1, 1]]},
            "margin": {k: v for k, v in BOUND.items() if k != "two"},
            "weight": PAIR_INDEX["weight"],
        },
        {"triplets": "triplets|anchor|near|far|a and p", "margin": "margin|bound", "X": "X|the data"},
    ),
    "Constraints.from_frame": Entry(
        Constraints.from_frame,
        {"frame": {"anchor": [0, 2], "near": [1, 3], "far": [2, 4]}, "X": X},
        {
            "frame": {
                "none": None,
                "word": "frame",
                "thing": Thing(),
                "array": EYE,
                "class": dict,
                "empty": {},
                "no rows": {"relation": [], "i": [], "j": [], "bound": [], "sense": []},
                "ragged": {"relation": ["trace"], "bound": [1.0, 2.0], "sense": ["=="]},
                "table": {"relation": [["trace"]], "bound": [[1.0]], "sense": [["=="]]},
                "one column": {"a": [0, 1]},
                "no pairs": {"a": [], "b": []},
            },
            "scores": WORD,
            "X": table(X, none=True) | {"short": X[:3]},
            "sample_id": SAMPLES,
            "random_state": SEED,
        },
        {"frame": "frame", "X": "X|the data"},
    ),
    "Constraints.with_bounds_from": Entry(
        Constraints.comparison([0, 2], [1, 3], [0, 2], [2, 4]).with_bounds_from,
        {"X": X},
        {
            "X": table(X) | {"short": X[:3]},
            "sample_id": SAMPLES,
            "percentiles": PERCENTILES,
            "random_state": SEED,
        },
        {"X": "X|the data"},
    ),
    "Constraints.select": Entry(
        PAIR.select,
        {"mask": [0]},
        {
            "mask": {
                "far": 5,
                "very far": 2**70,
                "half": 0.5,
                "complex": 1j,
                "longer": [True, False],
                "none": None,
                "word": "all",
                "table": [[0]],
                "thing": Thing(),
                "slice": slice("a"),
            }
        },
    ),
    "Constraints.locate": Entry(
        PAIR.locate,
        {"n": 6},
        {"sample_id": {"twice": [1, 1], "table": np.eye(2), "words": ["a", "b"]}, "n": {"small": 1}},
        {"n": "rows", "sample_id": "sample_id"},
    ),
    "Constraints.describe": Entry(
        PAIR.describe,
        {"row": 0},
        {"row": {"far": 5, "half": 0.5, "word": "x", "none": None, "complex": 1j}},
        free=("sample_id",),
    ),
    "Constraints.matrix": Entry(PAIR.matrix, {"row": 0}, {"row": {"far": 5, "half": 0.5, "word": "x", "none": None}}),
    "save": Entry(
        lambda path="model.bm", obj=RESULT, info=None: bregmat.save(path, obj, info=info),
        {},
        {
            "path": PATH,
            "obj": {"thing": Thing(), "array": EYE, "none": None},
            "info": {"list": [1], "thing": {"a": Thing()}, "word": "x"},
        },
        {"path": "path|cannot write", "obj": "cannot save"},
        signature=bregmat.save,
    ),
    "load": Entry(
        bregmat.load,
        None,
        {
            "path": dict(PATH.items()) | {"absent": "absent.bm"},
        },
        {"path": "path|No such file"},
        free=("kind",),
    ),
    "register": Entry(
        bregmat.register,
        None,
        {"cls": {"number": 3, "word": "x", "thing": Thing(), "class": Thing, "none": None}},
        {"cls": "registered|register"},
    ),
    "verify": Entry(
        bregmat.verify,
        {"result": RESULT, "prior": EYE, "constraints": PAIR},
        {"result": {"number": 3, "none": None, "thing": Thing(), "array": EYE, "class": bregmat.MatrixResult}},
        free=("X",),
    ),
    "verify with arguments": Entry(
        lambda problem: bregmat.verify(RESULT, **problem),
        {"problem": {"prior": EYE, "constraints": PAIR}},
        {
            "problem": {
                "no constraints": {"prior": EYE},
                "no prior": {"constraints": PAIR},
                "unknown": {"prior": EYE, "constraints": PAIR, "divergenz": "logdet"},
                "other": {"A": EYE, "b": np.ones(4)},
                "rows": {"prior": EYE, "constraints": [(0, 1)]},
                "more rows": {"prior": EYE, "constraints": PAIR + PAIR},
                "far rows": {"prior": EYE, "constraints": LATE},
                "smaller": {"prior": np.eye(3), "constraints": PAIR},
                "no numbers": {"prior": "points", "constraints": PAIR},
                "flat": {"prior": np.ones(4), "constraints": PAIR},
                "not finite": {"prior": EYE * NAN, "constraints": PAIR},
                "divergence": {"prior": EYE, "constraints": PAIR, "divergence": "nonsense"},
                "loss": {"prior": EYE, "constraints": PAIR, "loss": "nonsense"},
                "weight": {"prior": EYE, "constraints": PAIR, "slack_weight": -1.0},
                "weights": {"prior": EYE, "constraints": PAIR, "slack_weight": [1.0, 2.0]},
                "text weight": {"prior": EYE, "constraints": PAIR, "slack_weight": "1"},
                "points": {"X": X * NAN, "constraints": PAIR},
            },
        },
        {"problem": "problem|result has|constraints|prior|divergence|loss|slack_weight|X"},
    ),
    "check": Entry(bregmat.check, None, {"result": {"number": 3, "none": None, "thing": Thing(), "array": EYE}}),
    "CyclicProjection": Entry(
        bregmat.CyclicProjection,
        {},
        {
            "corrected": FLAG,
            "movement_atol": number(0, -1.0, none=True),
            "movement_tol": number(0, -1.0, none=True),
            "violation_tol": POSITIVE,
            "root_tol": POSITIVE,
            "refresh": count(1, none=False),
        },
    ),
    "DefiniteBoost": Entry(
        bregmat.DefiniteBoost,
        {},
        {
            "projection": SETTING,
            "corrected": FLAG,
            "order": SETTING,
            "violation_tol": POSITIVE,
            "root_tol": POSITIVE,
            "block": count(1),
        }
        | {
            "spectrum": {
                "one": (1.0,),
                "same": (1.0, 1.0),
                "nan": (NAN, 1.0),
                "number": 3,
                "text": ("a", "b"),
                "truths": (False, True),
            }
        },
    ),
    "DivergenceSlack": Entry(
        bregmat.DivergenceSlack, {}, {"divergence": {"word": "best", "number": 3, "thing": Thing()}}
    ),
    "MultiplicativeUpdates": Entry(
        bregmat.MultiplicativeUpdates,
        {},
        {
            "clamp": number(-1.0, 1.0),
            "block": count(1),
            "max_iter": count(1, none=False),
        },
    ),
    "Relation": Entry(
        bregmat.Relation,
        {"name": "own", "form": {"i-j": 1.0}},
        {
            "name": {"number": 3, "none": None, "empty": "", "thing": Thing()},
            "form": {"unknown": {"i-z": 1.0}, "nan": {"i-j": NAN}, "text": {"i-j": "1"}, "number": 3, "none": None},
        }
        | {"bound": number(none=True), "sense": {"unknown": "<", "number": 3}},
        free=("left", "right", "one", "many", "help", "different", "takes_matrix"),
    ),
    "MetricLearner": Entry(
        with_setting("MetricLearner"),
        {},
        LEARNER
        | {
            "n_components": count(1) | {"many": 7},
            "prior": WORD | table(np.eye(3), none=True, square=True),
            "metric": SETTING,
        },
        free=("unlabeled",),
    ),
    "MetricLearner.fit": Entry(
        bregmat.MetricLearner().fit,
        {"X": X, "y": Y},
        {
            "X": POINTS,
            "y": LABELS,
            "constraints": {k: v for k, v in ROWS.items() if k != "none"},
            "sample_id": SAMPLES,
            "sample_weight": WEIGHTS,
            "groups": GROUPS,
            "executor": count(1),
            "block_size": count(1),
        },
    ),
    "MetricLearner.transform": Entry(
        of_class("MetricLearner", "transform"), {"X": X}, {"X": POINTS | {"features": np.ones((3, 5))}}
    ),
    "MetricLearner.pair_distance": Entry(
        of_class("MetricLearner", "pair_distance"),
        {"pairs": X[:4].reshape(2, 2, 3)},
        {"pairs": table(X) | {"features": np.ones((2, 2, 5))}},
    ),
    "MetricLearner.pair_score": Entry(
        of_class("MetricLearner", "pair_score"),
        {"pairs": X[:4].reshape(2, 2, 3)},
        {"pairs": table(X) | {"features": np.ones((2, 2, 5))}},
    ),
    "KernelLearner": Entry(
        with_setting("KernelLearner"), {}, LEARNER | KERNEL | {"rank": count(1)}, free=("unlabeled",)
    ),
    "KernelLearner.fit": Entry(
        bregmat.KernelLearner().fit,
        {"X": X, "y": Y},
        {
            "X": POINTS,
            "y": LABELS,
            "constraints": {k: v for k, v in ROWS.items() if k != "none"},
            "sample_id": SAMPLES,
            "sample_weight": WEIGHTS,
            "groups": GROUPS,
        },
    ),
    "KernelLearner.transform": Entry(
        of_class("KernelLearner", "transform"), {"X": X}, {"X": POINTS | {"features": np.ones((3, 5))}}
    ),
    "KernelLearner.kernel": Entry(
        of_class("KernelLearner", "kernel"),
        {"X": X},
        {"X": POINTS | {"features": np.ones((3, 5))}, "Y": table(X, none=True)},
    ),
    "KernelKMeans": Entry(
        with_setting("KernelKMeans"),
        {},
        KERNEL
        | {
            "n_clusters": count(1, none=False) | {"many": 7},
            "rank": count(1),
            "n_init": count(1, none=False),
            "max_iter": count(1, none=False),
            "tol": number(-1.0),
            "random_state": SEED,
        },
    ),
    "KernelKMeans.fit": Entry(
        bregmat.KernelKMeans(2, n_init=1).fit,
        {"X": X},
        {"X": POINTS, "sample_weight": WEIGHTS},
        free=("y",),
    ),
    "KernelKMeans.predict": Entry(
        of_class("KernelKMeans", "predict", n_clusters=2, n_init=1),
        {"X": X},
        {"X": POINTS | {"features": np.ones((3, 5))}},
    ),
    "MarginSVC": Entry(
        with_setting("MarginSVC"),
        {},
        KERNEL
        | {
            "gamma": number(-1.0) | {"word": "wide"},
            "C": WEIGHT,
            "fit_intercept": FLAG,
            "squared_hinge": FLAG,
            "solver": SETTING,
            "tol": POSITIVE | {"one": 1.0},
        }
        | {
            "class_weight": {"word": "even", "negative": {0: -1.0}, "nan": {0: NAN}, "text": {0: "a"}, "number": 3},
            "max_iter": count(1),
            "max_seconds": SECONDS,
        }
        | {"decision_function_shape": SETTING, "random_state": SEED, "callback": CALLABLE, "verbose": VERBOSE},
    ),
    "MarginSVC.fit": Entry(
        bregmat.MarginSVC().fit,
        {"X": X, "y": Y},
        {"X": POINTS, "y": LABELS, "sample_weight": WEIGHTS},
    ),
    "MarginSVC.predict": Entry(
        of_class("MarginSVC", "predict"), {"X": X}, {"X": POINTS | {"features": np.ones((3, 5))}}
    ),
    "MarginSVC.decision_function": Entry(
        of_class("MarginSVC", "decision_function"), {"X": X}, {"X": POINTS | {"features": np.ones((3, 5))}}
    ),
    "RetrievalLearner": Entry(
        with_setting("RetrievalLearner"),
        {},
        {
            "prior": SETTING,
            "temperature": POSITIVE | {"word": "low"},
            "slack_weight": POSITIVE | {"word": "low"},
            "n_negatives": count(0, none=False),
            "n_passes": count(1, none=False),
            "random_state": SEED,
            "tol": POSITIVE,
            "max_iter": count(1),
            "verbose": VERBOSE,
            "callback": CALLABLE,
        },
    ),
    "RetrievalLearner.fit": Entry(
        lambda **given: bregmat.RetrievalLearner(**FEW["RetrievalLearner"]).fit(**given),
        {"queries": X, "documents": X},
        {"queries": POINTS, "documents": POINTS | {"features": np.ones((6, 5))}, "relevant": RELEVANT},
    ),
    "RetrievalLearner.score": Entry(
        of_class("RetrievalLearner", "score"),
        {"queries": X, "documents": X},
        {
            "queries": POINTS | {"features": np.ones((6, 5))},
            "documents": POINTS | {"features": np.ones((6, 5))},
            "relevant": RELEVANT,
        },
    ),
    "RetrievalLearner.transform": Entry(
        of_class("RetrievalLearner", "transform"), {"X": X}, {"X": POINTS | {"features": np.ones((3, 5))}}
    ),
}
PAIRS, TARGETS = [[0, 1], [1, 2]], [0.1, 0.2]
STREAM = {k: v for k, v in POINTS.items() if k != "no rows"}  # of which there may be none
BAD_PAIRS = {
    "far": [[0, 9]],
    "negative": [[0, -1]],
    "half": [[0, 0.5]],
    "nan": [[0, NAN]],
    "text": [["a", "b"]],
    "three": [[0, 1, 2]],
    "none": None,
    "thing": Thing(),
    "complex": [[0, 1j]],
}
ONE = {k: v for k, v in number().items() if k not in ("text", "several")} | {"text": "a", "two": [1.0, 2.0]}
ROUNDS = {k: v for k, v in column(2).items() if k != "truths"} | {"inf": at(np.ones(2), INF)}
COMPARISON = table(np.eye(4) / 4, square=True)
POINT = {k: v for k, v in column(3).items() if k not in ("truths", "table")} | {"inf": at(np.ones(3), INF)}
SIX = {k: v for k, v in column(6).items() if k != "truths"} | {"inf": at(np.ones(6), INF)}
ENTRIES |= {
    "MatrixExponentiatedGradient": Entry(
        with_setting("MatrixExponentiatedGradient"),
        {"dim": 4, "eta": 0.1},
        {
            "dim": count(1),
            "eta": number(0, -1.0) | {"word": "fast"},
            "loss": SETTING,
            "prior": table(EYE / 4, none=True, square=True),
            "trace": POSITIVE,
        }
        | {
            "spectral_spread": POSITIVE,
            "loss_budget": number(-1.0),
            "instances": SETTING,
        },
    ),
    "MatrixExponentiatedGradient.fit": Entry(
        bregmat.MatrixExponentiatedGradient(4, eta=0.1).fit, {"X": PAIRS, "y": TARGETS}, {"X": BAD_PAIRS, "y": ROUNDS}
    ),
    "MatrixExponentiatedGradient.partial_fit": Entry(
        of_class("MatrixExponentiatedGradient", "partial_fit"),
        {"X": PAIRS, "y": TARGETS},
        {"X": BAD_PAIRS, "y": ROUNDS},
    ),
    "MatrixExponentiatedGradient.predict_then_learn": Entry(
        of_class("MatrixExponentiatedGradient", "predict_then_learn"),
        {"X": PAIRS, "y": TARGETS},
        {"X": BAD_PAIRS, "y": ROUNDS},
    ),
    "MatrixExponentiatedGradient.predict": Entry(
        of_class("MatrixExponentiatedGradient", "predict"), {"X": PAIRS}, {"X": BAD_PAIRS}
    ),
    "MatrixExponentiatedGradient.learn_one": Entry(
        of_class("MatrixExponentiatedGradient", "learn_one"),
        {"x": [0, 1], "y": 0.1},
        {"x": {k: v[0] if v and k != "thing" else v for k, v in BAD_PAIRS.items()}, "y": ONE},
        {"x": "x|X"},
    ),
    "MatrixExponentiatedGradient.predict_one": Entry(
        of_class("MatrixExponentiatedGradient", "predict_one"),
        {"x": [0, 1]},
        {"x": {k: v[0] if v and k != "thing" else v for k, v in BAD_PAIRS.items()}},
        {"x": "x|X"},
    ),
    "MatrixExponentiatedGradient.loss_bound": Entry(
        of_class("MatrixExponentiatedGradient", "loss_bound"),
        {},
        {"U": {k: v for k, v in COMPARISON.items() if k != "none"}, "loss_of_U": number(-1.0, none=True)},
    ),
    "MatrixExponentiatedGradient.loss_of": Entry(
        of_class("MatrixExponentiatedGradient", "loss_of"), {"U": EYE / 4}, {"U": COMPARISON}
    ),
    "MatrixExponentiatedGradient.regret": Entry(
        of_class("MatrixExponentiatedGradient", "regret"),
        {"U": EYE / 4},
        {"U": COMPARISON},
    ),
    "MatrixExponentiatedGradient.transform": Entry(
        of_class("MatrixExponentiatedGradient", "transform"),
        {},
        {
            "points": {"far": [9], "half": [0.5], "text": ["a"], "negative": [-9], "thing": Thing(), "table": [[0]]},
            "n_components": count(1),
        },
    ),
    "OnlineLogDet": Entry(
        with_setting("OnlineLogDet"),
        {"dim": 3, "differences": True},
        {
            "dim": count(1) | {"other": 5},
            "eta": number(0, -1.0) | {"word": "fast"},
            "prior": table(np.eye(3), none=True, square=True),
            "differences": FLAG,
        },
        {"dim": "dim|X"},
    ),
    "OnlineLogDet.fit": Entry(
        of_class("OnlineLogDet", "fit"), {"X": X, "y": np.ones(6)}, {"X": STREAM, "y": SIX, "sense": SENSE}
    ),
    "OnlineLogDet.partial_fit": Entry(
        of_class("OnlineLogDet", "partial_fit"), {"X": X, "y": np.ones(6)}, {"X": STREAM, "y": SIX, "sense": SENSE}
    ),
    "OnlineLogDet.predict_then_learn": Entry(
        of_class("OnlineLogDet", "predict_then_learn"),
        {"X": X, "y": np.ones(6)},
        {"X": STREAM, "y": SIX, "sense": SENSE},
    ),
    "OnlineLogDet.learn_one": Entry(
        of_class("OnlineLogDet", "learn_one"),
        {"x": X[0], "y": 1.0},
        {"x": POINT, "y": ONE, "sense": SENSE},
        {"x": "x|X"},
    ),
    "OnlineLogDet.predict_one": Entry(of_class("OnlineLogDet", "predict_one"), {"x": X[0]}, {"x": POINT}, {"x": "x|X"}),
    "OnlineLogDet.predict": Entry(
        of_class("OnlineLogDet", "predict"), {"X": X}, {"X": STREAM | {"features": np.ones((2, 5))}}
    ),
    "OnlineLogDet.transform": Entry(
        of_class("OnlineLogDet", "transform"), {"X": X}, {"X": STREAM | {"features": np.ones((2, 5))}}
    ),
    "OnlineLogDet.loss_bound": Entry(
        of_class("OnlineLogDet", "loss_bound"),
        {"U": np.eye(3), "loss_of_U": 1.0},
        {"U": table(np.eye(3), square=True), "loss_of_U": number(-1.0)},
    ),
    "OnlineLogDet.pair_distance": Entry(
        of_class("OnlineLogDet", "pair_distance"),
        {"pairs": X[:4].reshape(2, 2, 3)},
        {"pairs": table(X) | {"features": np.ones((2, 2, 5))}},
    ),
    "OnlineLogDet.pair_score": Entry(
        of_class("OnlineLogDet", "pair_score"),
        {"pairs": X[:4].reshape(2, 2, 3)},
        {"pairs": table(X) | {"features": np.ones((2, 2, 5))}},
    ),
    "OnlinePCA": Entry(
        with_setting("OnlinePCA"),
        {"n_components": 2, "eta": 0.1},
        {
            "n_components": count(1) | {"many": 4},
            "eta": number(0, -1.0, none=True),
            "n_rounds": count(1),
            "random_state": SEED,
        },
    ),
    "OnlinePCA.fit": Entry(of_class("OnlinePCA", "fit"), {"X": X / 10}, {"X": POINTS}, free=("y",)),
    "OnlinePCA.partial_fit": Entry(
        of_class("OnlinePCA", "partial_fit"), {"X": X / 10}, {"X": POINTS | {"features": np.ones((2, 5))}}, free=("y",)
    ),
    "OnlinePCA.learn_one": Entry(of_class("OnlinePCA", "learn_one"), {"x": X[0] / 10}, {"x": POINT}, {"x": "x|X"}),
    "OnlinePCA.transform": Entry(
        of_class("OnlinePCA", "transform"), {"X": X / 10}, {"X": POINTS | {"features": np.ones((2, 5))}}
    ),
    "OnlinePCA.loss_bound": Entry(of_class("OnlinePCA", "loss_bound"), {}, {"loss_of_best": number(-1.0, none=True)}),
    "OnlinePCA.sample_components": Entry(of_class("OnlinePCA", "sample_components"), {}, {"random_state": SEED}),
    "Constraints.values": Entry(PAIR.values, {"G": X}, {"G": POINTS | {"short": X[:1]}}, {"G": "G|rows"}),
    "Constraints.violation": Entry(PAIR.violation, {"G": X}, {"G": POINTS | {"short": X[:1]}}, {"G": "G|rows"}),
    "Constraints.satisfied": Entry(
        PAIR.satisfied, {"G": X}, {"G": POINTS | {"short": X[:1]}, "tol": number(-1.0)}, {"G": "G|rows"}
    ),
    "MatrixResult.transform": Entry(
        bregmat.nearest_metric(X, PAIR).transform, {"X": X}, {"X": POINTS | {"features": np.ones((2, 5))}}
    ),
}
for divergence in ("LogDet", "VonNeumann", "Frobenius"):
    arrays = {k: v for k, v in table(EYE, square=True).items() if k != "complex"} | {"complex": at(EYE, 1j) + EYE}
    ENTRIES[divergence] = Entry(
        getattr(bregmat, divergence)(),
        {"X": EYE, "Y": EYE},
        {"X": arrays, "Y": arrays | {"order": np.eye(3)}, "rtol": number(-1.0)},
    )


# ---------------------------------------------------------------- commands
@dataclass
class Command:
    """Good arguments of a command, and bad texts of each option (or argument) with what the message names."""

    good: list
    bad: dict
    free: tuple = ()


def write_files(folder):
    """What the good arguments name, and files that are none."""
    bregmat.io.write_points(
        folder / "points.csv", X, names=["a", "b", "c"], columns={"kind": np.where(Y == 1, "yes", "no")}
    )
    rows = ["a,b,y", "0,1,0.5", "1,2,0.25"]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "rows.csv").write_text("relation,i,j,bound,sense\nsq_distance,0,1,1,<=\n", encoding="utf-8")
    (folder / "typo.csv").write_text("a,b,c,kind\n1,2,1,no\n3,x,1,yes\n5,6,1,no\n", encoding="utf-8")
    (folder / "typo first.csv").write_text("a,b,c,kind\n1x,2,1,no\n3,4,1,yes\n5,6,1,no\n", encoding="utf-8")
    (folder / "nan.csv").write_text("a,b,c,kind\n1,2,1,no\n3,nan,1,yes\n", encoding="utf-8")
    (folder / "ragged.csv").write_text("a,b,y\n0,1,1\n1,2,3,4\n", encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "square.csv").write_text("p,q\n1,0.5\n0.5,1\n", encoding="utf-8")
    np.save(folder / "labels.npy", Y[:3])
    np.save(folder / "matrix.npy", np.full((4, 4), NAN))
    bregmat.save(folder / "model.bm", fitted("MetricLearner"), info={"feature_names": ["a", "b", "c"]})
    (folder / "damaged.bm").write_bytes((folder / "model.bm").read_bytes()[:300])


FILES = {
    "absent.csv": "absent.csv",
    "points.txt": "points.txt|txt",
    "empty.csv": "empty.csv",
    "binary.csv": "binary.csv",
    "ragged.csv": "ragged.csv, line 3: ",
}
TYPOS = FILES | {
    "typo.csv": "typo.csv, line 3, column 'b': 'x'",
    "typo first.csv": "line 2, column 'a': '1x'",
    "nan.csv": "nan.csv, line 3, column 'b'",
}
NUMBERS = {"x": "{}", "nan": "{}", "-1": "{}", "": "{}"}
COUNTS = {"x": "{}", "-1": "{}", "1.5": "{}", "": "{}"}
NAMES = {"nonsense": "{}.*nonsense", "": "{}"}
OUTPUTS = {"absent/out.bm": "absent", ".": "folder"}
MODELS = {"absent.bm": "absent.bm", "damaged.bm": "damaged.bm", "points.csv": "points.csv"}
COMMANDS = {
    "learn": Command(
        ["points.csv", "--labels", "kind", "--out", "out.bm"],
        {
            "points": TYPOS,
            "--constraints": FILES | {"points.csv": "points.csv"},
            "--labels": {"nobody": "nobody", "labels.npy": "labels.npy"},
            "--sample-id": {"nobody": "nobody"},
            "--drop": {"nobody": "nobody"},
            "--columns": {"nobody": "nobody", "a,kind": "kind", "": "no column"},
            "--missing": NAMES,
            "--encoding": {"nonsense": "{}.*nonsense"},
            "--divergence": NAMES,
            "--slack-weight": NUMBERS | {"0": "{}"},
            "--prior": NAMES,
            "--strategy": NAMES,
            "--metric": NAMES,
            "--keep": {"nobody": "nobody"},
            "--categorical": {"nobody": "nobody"},
            "--n-constraints": COUNTS,
            "--n-components": COUNTS | {"0": "{}", "9": "{}"},
            "--tol": NUMBERS | {"0": "{}", "inf": "{}"},
            "--random-state": COUNTS,
            "--folds": COUNTS | {"1": "{}"},
            "--out": OUTPUTS,
            "--report": {"absent/out.html": "absent", ".": "folder"},
        },
        free=("--unlabeled", "--quiet"),
    ),
    "label": Command(
        ["points.csv", "--no-browser"],
        {
            "points": TYPOS,
            "--images": {"absent": "{}"},
            "--text": {"nobody": "nobody"},
            "--labels": {"nobody": "nobody"},
            "--sample-id": {"nobody": "nobody"},
            "--drop": {"nobody": "nobody"},
            "--columns": {"nobody": "nobody", "a,kind": "kind", "": "no column"},
            "--keep": {"nobody": "nobody"},
            "--missing": NAMES,
            "--encoding": {"nonsense": "{}.*nonsense"},
            "--prior": NAMES,
            "--slack-weight": NUMBERS | {"0": "{}"},
            "--journal": {"absent/j.jsonl": "absent", "points.csv": "points.csv"},
            "--port": COUNTS | {"65536": "{}"},
        },
        free=("--demo", "--resume", "--no-browser", "--unlabeled", "--classes"),
    ),
    "retrieve": Command(
        ["points.csv", "points.csv"],
        {
            "queries": FILES,
            "documents": FILES,
            "relevant": FILES,
            "--out": {"absent/m.bm": "absent"},
            "--prior": NAMES,
            "--random-state": COUNTS,
        },
        free=("--quiet",),
    ),
    "transform": Command(
        ["model.bm", "--out", "out.csv", "points.csv"],
        {
            "model": MODELS,
            "--out": {"absent/out.csv": "absent", "out.txt": "txt"},
            "points": TYPOS,
            "--missing": NAMES,
            "--encoding": {"nonsense": "{}.*nonsense"},
        },
    ),
    "inspect": Command(["model.bm"], {"model": MODELS}),
    "correlation": Command(
        ["square.csv"],
        {
            "matrix": FILES | {"points.csv": "points.csv"},
            "--out": {"absent/out.csv": "absent", "out.txt": "txt"},
            "--min-eig": NUMBERS | {"1": "{}"},
            "--weights": FILES | {"points.csv": "points.csv"},
            "--fixed": FILES | {"points.csv": "points.csv"},
            "--lower": {"x": "{}", "nan": "{}", "-2": "{}", "": "{}"},
            "--upper": {"x": "{}", "nan": "{}", "2": "{}", "": "{}"},
        },
        free=("--scale", "--keep-variances"),
    ),
    "demo": Command(
        [],
        {"names": {"nonsense": "nonsense"}, "--out-dir": {"points.csv": "points.csv"}},
        free=("--download", "--quiet"),
    ),
    "reproduce": Command(
        ["--small"],
        {
            "names": {"nonsense": "nonsense"},
            "--out": {"points.csv": "points.csv"},
            "--page": {"absent/page.md": "absent"},
        },
        free=("--full", "--small", "--download", "--list", "--quiet"),
    ),
}


def bad_commands():
    """Arguments of every command with one of them bad, and a pattern for what the message has to name."""
    for name, command in COMMANDS.items():
        for option, texts in command.bad.items():
            for text, named in texts.items():
                given = list(command.good)
                if option.startswith("--"):
                    if option in given:
                        at_option = given.index(option)
                        del given[at_option : at_option + 2]
                    given += [option, text]
                elif given and not given[0].startswith("--"):
                    given[-1 if option == "points" and name == "transform" else 0] = text
                else:
                    given.insert(0, text)
                yield [name, *given], named.format(option)
