"""Checks of hyper-parameters, made in ``fit``; messages name the argument and the value."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np


def check_integer(name: str, value: Any, lowest: int) -> None:
    """Raise unless ``value`` is None or an integer of at least ``lowest``."""
    if value is None:
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer or None; got {value!r}.")
    if value < lowest:
        raise ValueError(f"{name} must be at least {lowest}; got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = False) -> None:
    """Raise unless ``value`` is a positive number (``inf`` too, unless ``finite``)."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    if not float(value) > 0 or (finite and not np.isfinite(float(value))):
        raise ValueError(f"{name} must be positive{' and finite' if finite else ''}; got {value!r}.")
