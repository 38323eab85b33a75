"""scikit-learn's own checks, for every estimator class alike."""

import os
import subprocess
import sys
import warnings
from functools import partial

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_array_api_input,
    check_global_output_transform_pandas,
    check_global_set_output_transform_polars,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    estimator_checks_generator,
)

REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a repeated point is its own nearest neighbour, pairs are drawn by row, and "
    "percentiles count copies; where nothing is drawn and copies are not neighbours, test_sample_weight.py has the equality"
    for kind in ("dense", "sparse")
}  # why weights are not repetitions for what learns from labels

# settings of a learner with few constraints, where what it learns does not matter
LIGHT = {"n_neighbors": 1, "n_impostors": 3}

CONTAINERS = (  # scikit-learn runs these on its own transformers only
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_global_output_transform_pandas,
    check_set_output_transform_polars,
    check_global_set_output_transform_polars,
)

ALONE = pytest.mark.filterwarnings("ignore:.* are alone in their class")  # in the data of that check


def sklearn_checks(*estimators, unmet=None, raises=AssertionError):
    """Parameters (estimator, check); the check that needs a switch set before SciPy is imported runs on its own.

    ``unmet``: names of checks that must fail, with the reason; ``raises``: with which error.
    """
    for estimator in estimators:
        with warnings.catch_warnings():
            if not get_tags(estimator).input_tags.two_d_array:  # what needs no table of features is checked
                warnings.simplefilter("ignore", SkipTestWarning)
            checks = list(estimator_checks_generator(estimator))
        if hasattr(estimator, "set_output"):
            checks += [(estimator, partial(check, type(estimator).__name__)) for check in CONTAINERS]
        for instance, check in checks:
            name = getattr(check, "func", check).__name__
            if name != check_array_api_input.__name__:
                why = (unmet or {}).get(name)
                marks = [] if why is None else [pytest.mark.xfail(reason=why, strict=True, raises=raises), ALONE]
                if getattr(check, "func", None) in CONTAINERS:  # which map arrays after frames, and frames after arrays
                    marks.append(pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names"))
                yield pytest.param(
                    instance, check, marks=marks, id=f"{estimator}-{name}-{getattr(check, 'keywords', '')}"
                )


def run_array_api_check(cls):
    """That check, in a process of its own."""
    code = (
        f"from sklearn.utils.estimator_checks import {check_array_api_input.__name__} as check\n"
        f"from bregmat import {cls.__name__}\n"
        f"check('{cls.__name__}', {cls.__name__}(), array_namespace='numpy', expect_only_array_outputs=False)\n"
    )
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:no candidate that learns:UserWarning", "-c", code],
        env=env,
        check=True,
    )
