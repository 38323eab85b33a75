"""Commands whose help has no type beside an argument's name, and none for an option that takes no value."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group"]


def _no_word(ctx: Any) -> None:
    """What typer asks of an argument, beside its name."""


class _PlainParameters:
    """Of what lists its parameters: without the word for a truth, or for a path."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
            if param.param_type_name == "argument":
                param.display_type_rich = _no_word
        return params


class Command(_PlainParameters, TyperCommand):
    """A command."""


class Group(_PlainParameters, TyperGroup):
    """The command that the others are of."""
