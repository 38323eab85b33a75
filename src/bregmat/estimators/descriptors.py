"""A method and a constructor parameter of one name."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


class MethodBesideParameter:
    """Lets ``learner.kernel(X, Y)`` be a method although the constructor has a parameter ``kernel``.

    The parameter stays in the instance dictionary, where ``get_params`` finds it.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.method if instance is None else MethodType(self.method, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)["kernel"] = value
