"""metric-learn, made to run under scikit-learn >= 1.8, which renamed `force_all_finite`."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import Any


def has_metric_learn() -> bool:
    """Whether it is installed; rows that bear its name are left out otherwise."""
    return find_spec("metric_learn") is not None


def metric_learn() -> Any:
    """The module."""
    import metric_learn
    import metric_learn._util as module

    if "force_all_finite" not in inspect.signature(module.check_array).parameters:
        for name in ("check_array", "check_X_y"):
            setattr(module, name, _renamed(getattr(module, name)))
    return metric_learn


def _renamed(check: Any) -> Any:
    return lambda *args, force_all_finite=True, **kwargs: check(*args, ensure_all_finite=force_all_finite, **kwargs)
