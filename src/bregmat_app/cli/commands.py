"""Classes of commands with a plain help page, and dataclasses whose fields are options."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from typer.core import TyperCommand, TyperGroup

_CONSTRAINTS_FILE = """
The constraints file has one constraint per line and the columns relation,i,j,k,l,bound,sense,weight. Relations:

{relations}

weight is optional: the cost of violating this constraint compared with others (default 1; inf: it must hold). Points are named by values
of the id column of POINTS, or by row numbers from 0 if there is none.

Example rows: sq_distance,a,b,,,1.5,<=,1 and comparison,a,b,a,c,-1,, (a is closer to b than to c, by at least 1).

Pairs and triplets need no bounds, which are then derived from the points: the columns a,b (each two belong together), a,b,link (must or
cannot, same or different, 1 or -1), a,b,distance (or sq_distance), a,b,similarity (or dissimilarity; scores such as ratings),
or anchor,near,far.
"""


def paragraphs(text: str) -> str:
    """A text for a help page, which wraps its lines itself."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


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
        from bregmat.constraints.relations import RELATIONS  # loads the library

        relations = "\n\n".join(f"{name}: {r.help}" for name, r in RELATIONS.items() if not r.takes_matrix)
        self.epilog = paragraphs(_CONSTRAINTS_FILE.format(relations=relations))
        super().format_help(ctx, formatter)


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace each parameter whose type is a dataclass by one option for every field of it.

    The fields are annotated as typer expects it of parameters. The function is called with the dataclasses.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    fields = {name: [*signature(group).parameters.values()] for name, group in groups.items()}
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        types = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        for own in fields.get(name, [parameter]):
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[own.name]))

    @wraps(function)
    def command(**given: Any) -> Any:
        made = {
            name: group(**{own.name: given.pop(own.name) for own in fields[name]}) for name, group in groups.items()
        }
        return function(**given, **made)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
