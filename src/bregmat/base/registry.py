"""Registries of classes by name, for string arguments, model files, reports and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from bregmat.base.checks import similar_name

T = TypeVar("T")
_KINDS: list[Registry] = []


class Registry(Mapping[str, Any]):
    """The classes of one kind, in the order in which they were added.

    Parameters
    ----------
    kind : str
        Name of the kind in messages, and of the argument that takes it.
    example : str
        Expression for an object of the kind, for messages.
    base : type, optional
        Required base class.
    needs : tuple of str
        Required attributes and methods besides ``name``.
    before : str
        Other values of the argument, for messages, before the names.
    check : callable, optional
        Raises for an object of a user's own class whose functions do not belong together.
    """

    def __init__(
        self,
        kind: str,
        *,
        example: str,
        base: type | None = None,
        needs: tuple[str, ...] = (),
        before: str = "",
        check: Callable[[Any], None] | None = None,
    ) -> None:
        self.kind, self.example, self.base, self.needs, self.before = kind, example, base, ("name", *needs), before
        self.check = check
        self._classes: dict[str, Any] = {}
        _KINDS.append(self)

    def __getitem__(self, name: str) -> Any:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def missing(self, value: Any) -> list[str]:
        """What a class or object lacks to be of this kind."""
        cls = value if isinstance(value, type) else type(value)
        if self.base is not None and not issubclass(cls, self.base):
            return [f"base class {self.base.__name__}"]
        return sorted({n for n in self.needs if not hasattr(value, n)} | set(getattr(cls, "__abstractmethods__", ())))

    def add(self, cls: T) -> T:
        """Register a class by its ``name`` and return it, so that this works as a decorator.

        Raises
        ------
        TypeError
            If something is missing, or the name is no string.
        ValueError
            If another class has the name. The same class, defined again as in a notebook, takes its place.
        """
        lacks = self.missing(cls)
        if lacks:
            raise TypeError(f"{_called(cls)} is no {self.kind}: it has no {', '.join(lacks)}.")
        name = cls.name  # type: ignore[attr-defined]
        if not isinstance(name, str) or not name.isidentifier():
            raise TypeError(f"the name of a {self.kind} must be a string in snake case; got {name!r}.")
        old = self._classes.get(name)
        if old is not None and _called(old) != _called(cls):
            raise ValueError(f"the {self.kind} {name!r} is {_called(old)} already; give {_called(cls)} another name.")
        self._classes[name] = cls
        return cls

    def resolve(self, value: Any) -> Any:
        """An object of the kind from an object or a string that names one; ``check`` is called for objects of a user's own class."""
        if isinstance(value, str):
            if value not in self._classes:
                like = similar_name(value, self)
                raise ValueError(f"{self.kind} must be {self._choices()}; got {value!r}{like or '.'}")
            registered = self._classes[value]  # which was checked when it was added
            value = registered() if isinstance(registered, type) else registered
        elif isinstance(value, type) or (lacks := self.missing(value)):
            lack = "" if isinstance(value, type) else f", which has no {', '.join(lacks)}"
            got = f"the class {value.__name__} itself" if isinstance(value, type) else repr(value)
            raise TypeError(f"{self.kind} must be {self._choices()}; got {got}{lack}.")
        if self.check is not None and not type(value).__module__.startswith("bregmat."):
            self.check(value)
        return value

    def settings(self, value: Any) -> dict[str, Any]:
        """Settings of an object of the kind, which files hold beside its name: the fields of a dataclass, else none.

        Raises
        ------
        TypeError
            Its class is not registered, so that a file could not be read again.
        """
        name: str = value.name
        known = self._classes.get(name)
        if known is type(value):
            return {f.name: getattr(value, f.name) for f in fields(value) if f.init} if is_dataclass(value) else {}
        if known is not None and known == value:  # a relation, which is registered itself
            return {}
        what = name if type(value) is self.base else type(value).__name__
        raise TypeError(
            f"the {self.kind} {name!r} must be known by its name to be written to a file; call "
            f"bregmat.register({what}) where it is defined."
        )

    def restored(self, name: str, settings: dict[str, Any]) -> Any:
        """The object that has this name and the settings that :meth:`settings` gave."""
        if name not in self._classes:
            raise ValueError(
                f"the file has the {self.kind} {name!r}, which is not known here; import the module that registers it."
            )
        registered = self._classes[name]
        return registered(**settings) if isinstance(registered, type) else registered

    def _choices(self) -> str:
        return f"{self.before}one of {', '.join(self)} or an object such as {self.example}"


def _called(cls: Any) -> str:
    """Module and name of a class."""
    return f"{getattr(cls, '__module__', '')}.{getattr(cls, '__qualname__', repr(cls))}"


def registry_of(value: Any) -> Registry | None:
    """The registry of the kind that an object is of; None for an object of no kind."""
    return next((registry for registry in _KINDS if not registry.missing(value)), None)


def register(cls: T) -> T:
    """Register a divergence, loss, relation or solver of your own by its ``name``.

    Every argument that takes an object of the kind then takes the name as well, model files that hold one can be read, and the
    command line offers it. It works as a decorator. Objects work without being registered, except in files.

    Parameters
    ----------
    cls : type or Relation
        With an attribute ``name`` in snake case. If the name is given, the class is called without arguments.

    Returns
    -------
    type or Relation
        The same.

    Raises
    ------
    TypeError
        If the class is of no kind; the message lists what each kind needs.
    ValueError
        If another class of the kind has the name.

    Examples
    --------
    >>> from bregmat import Relation, register
    >>> height = register(Relation("height_above", {"i": 1.0, "j": -1.0}, one="difference of two squared norms"))
    >>> from bregmat import Constraints
    >>> Constraints.of("height_above", [0], [1], bound=0.0, sense=">=").n_constraints
    1
    """
    kinds = [registry for registry in _KINDS if not registry.missing(cls)]
    if len(kinds) != 1:
        what = "; ".join(f"as a {r.kind} it has no {', '.join(r.missing(cls))}" for r in _KINDS if r not in kinds)
        raise TypeError(
            f"{_called(cls)} is of {'several kinds' if kinds else 'no kind'} that can be registered: {what}."
        )
    return kinds[0].add(cls)
