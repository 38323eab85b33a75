"""Checks of single arguments; messages name the argument and the value."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def check_number(name: str, value: Any) -> None:
    """Raise ``TypeError`` unless ``value`` is a real number and not a truth value."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number; got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = False) -> None:
    """Raise unless ``value`` is a positive number (``inf`` too, unless ``finite``)."""
    check_number(name, value)
    if not float(value) > 0 or (finite and not np.isfinite(float(value))):
        raise ValueError(f"{name} must be positive{' and finite' if finite else ''}; got {value!r}.")


def check_integer(name: str, value: Any, lowest: int, *, optional: bool = True) -> None:
    """Raise unless ``value`` is an integer of at least ``lowest``, or None where that is allowed."""
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer{' or None' if optional else ''}; got {value!r}.")
    if value < lowest:
        raise ValueError(f"{name} must be at least {lowest}; got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
