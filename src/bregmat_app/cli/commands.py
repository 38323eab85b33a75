"""Classes of commands with a plain help page, and dataclasses whose fields are options."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "LearnCommand", "with_option_groups"]


def _no_type(ctx: Any) -> None:
    """The type that the help shows beside the name of an argument: none."""


class _PlainParameters:
    """Mixin that hides types of arguments and flags on help pages."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
            if param.param_type_name == "argument":
                param.display_type_rich = _no_type
        return params


class Command(_PlainParameters, TyperCommand):
    """A command."""


class Group(_PlainParameters, TyperGroup):
    """The command that holds all others."""


class LearnCommand(Command):
    """`bregmat learn`, whose help page lists the relations that are registered when it is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from bregmat_app.cli.inputs import constraints_help  # loads the library

        self.epilog = constraints_help()
        super().format_help(ctx, formatter)


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each parameter whose type is a dataclass by one option for every field of it.

    The fields are annotated as typer expects it of parameters. The function is called with the dataclasses.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            parameters += [_parameter(f.name, _default(f), types[f.name]) for f in fields(groups[name])]
        else:
            parameters.append(_parameter(name, parameter.default, hints[name]))

    @wraps(function)
    def command(**given: Any) -> Any:
        made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        return function(**given, **made)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(name: str, default: Any, annotation: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
