"""Checks of the settings of a solver; messages name the class, the argument and the value."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def check_positive(settings: Any, *names: str) -> None:
    """Raise unless each is a positive finite number."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{type(settings).__name__}: {name} must be a number; got {value!r}.")
        if not 0 < float(value) < np.inf:
            raise ValueError(f"{type(settings).__name__}: {name} must be positive and finite; got {value!r}.")


def check_count(settings: Any, *names: str) -> None:
    """Raise unless each is an integer of at least 1."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise TypeError(f"{type(settings).__name__}: {name} must be an integer; got {value!r}.")
        if value < 1:
            raise ValueError(f"{type(settings).__name__}: {name} must be at least 1; got {value!r}.")


def check_flag(settings: Any, *names: str) -> None:
    """Raise unless each is True or False."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{type(settings).__name__}: {name} must be True or False; got {value!r}.")
