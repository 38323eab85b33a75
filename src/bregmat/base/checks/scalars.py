"""Checks of numbers and choices, and of the limits of iterations."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_number(name: str, value: Any, *, hint: str = "") -> None:
    """Raise ``TypeError`` unless ``value`` is a real number and not a truth value."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {hint}a number; got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = False, zero: bool = False, hint: str = "") -> None:
    """Raise unless ``value`` is a positive number.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    value : object
    finite, zero : bool
        Whether ``inf`` is refused, and whether 0 is allowed.
    hint : str
        Other allowed values, e.g. ``"None or "``.
    """
    check_number(name, value, hint=hint)
    if not (float(value) > 0 or (zero and value == 0)) or (finite and not np.isfinite(float(value))):
        words = ("finite and at least 0" if finite else "at least 0") if zero else "positive" + " and finite" * finite
        raise ValueError(f"{name} must be {hint}{words}; got {value!r}.")


def check_share(name: str, value: Any, *, zero: bool = False, one: bool = False, why: str = "") -> None:
    """Raise unless ``value`` is a number between 0 and 1.

    Parameters
    ----------
    name, value
        As in :func:`check_positive`.
    zero, one : bool
        Whether 0 and 1 are allowed.
    why : str
        Text after the range in messages.
    """
    check_number(name, value)
    if not (0 < value < 1 or (zero and value == 0) or (one and value == 1)):
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1{']' if one else ')'}{why}; got {value!r}.")


def check_integer(name: str, value: Any, lowest: int, *, optional: bool = True) -> None:
    """Raise unless ``value`` is an integer.

    Parameters
    ----------
    name, value
        As in :func:`check_positive`.
    lowest : int
        Smallest value allowed.
    optional : bool
        Whether it may be None.
    """
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer{' or None' if optional else ''}; got {value!r}.")
    if value < lowest:
        raise ValueError(f"{name} must be at least {lowest}; got {value!r}.")


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless ``value`` is True or False, or None where that is allowed."""
    if not (isinstance(value, bool | np.bool_) or (optional and value is None)):
        raise TypeError(f"{name} must be {'None, ' * optional}True or False; got {value!r}.")


def check_limits(
    *, tol: Any, max_iter: Any = None, max_seconds: Any = None, callback: Any = None, fewest: int = 0
) -> None:
    """Raise for an invalid tolerance, limit or callback of an iterative solver.

    Parameters
    ----------
    tol, max_iter, max_seconds, callback : object
    fewest : int
        Smallest ``max_iter`` allowed.
    """
    check_positive("tol", tol, finite=True)
    check_integer("max_iter", max_iter, fewest)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {callback!r}.")


def as_choice(name: str, value: Any, options: Iterable[Any], *, hint: str = "") -> Any:
    """``value``, which must be one of the options.

    Parameters
    ----------
    name, value
        As in :func:`check_positive`.
    options : iterable of str or None
    hint : str
        Other allowed values, as text after the options in messages.
    """
    known = list(options)
    if not (value is None or isinstance(value, str)) or value not in known:
        shown = ", ".join(repr(option) for option in known)
        raise ValueError(f"{name} must be one of {shown}{hint}; got {value!r}.")
    return value
