"""How a command is made: its options, its document, and how that is printed.

A command is a function that returns a document, as `--json` prints it; its view shows the same
document to people. Options that stand for parameters of a flow are made from their model, which
declares each of them once. A list may be given with commas or by repeating the option: both add up.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import typer

from nightscreen.cli import output
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from nightscreen.schemas.api_runs import Option

View = str | Callable[..., None]
"""A template of `data/views`, by its name, or a function that prints a document."""
Parameters = TypeVar("Parameters", bound="BaseModel")

CustomerArgument = Annotated[
    str, typer.Argument(metavar="CUSTOMER_ID", help="As the file has it, leading zeros included.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="Id of the run.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Go on without asking.")]
_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=JsonOption,
)
_WRITE = {
    "max_spend": "write naira such as 250000 or 99.50, without sign or commas",
    "deadline": "write a time of day in Lagos such as 06:00, or an instant such as "
    "2026-03-01T06:00",
    "run": "an id holds letters, digits and hyphens; see the ids with: nightscreen runs list",
    "batch": "write at most 80 characters",
}


class Result(NamedTuple):
    """What a command returns that does not simply end well."""

    document: Any  # as `--json` prints it
    status: int = 0  # the exit status
    view: View | None = None  # shows the document to people, in place of the command's own view
    # what the view needs beside the document, by name
    more: Mapping[str, Any] = MappingProxyType({})


def show(view: View, document: Any, more: Mapping[str, Any]) -> None:  # noqa: ANN401 - of any command
    """Show a document to people: by a template, or by what prints it."""
    if isinstance(view, str):
        typer.echo(output.view(view, document, **more), nl=False)
    else:
        view(document, **more)


def group(words: str, about: str, **settings: Any) -> typer.Typer:  # noqa: ANN401 - as Typer takes them
    """Return a group for commands of one subject, which are typed after its own words."""
    given = {"no_args_is_help": True, **settings}
    return typer.Typer(name=words, help=about, rich_markup_mode=None, **given)


def command(
    example: str,
    *,
    of: typer.Typer | None = None,
    view: View | None = None,
    only: Collection[str] = (),
    leave_out: Collection[str] = (),
    needs: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a command of a function that returns a document, a `Result`, or None.

    Where the function's first parameter is a pydantic model, it gets an argument or option for each
    field; what was not typed is not set in the model that the function is given.

    Args:
        example: a command line, without `nightscreen`.
        of: the group that the command is added to, under its word of the example; else its path
            stands in `main.COMMANDS`.
        view: shows the document to people: a template of `data/views` by its name, or a function
            that prints it; without one there is no `--json`.
        only: fields of the model that the command offers; all of them where none is named.
        leave_out: fields that it does not offer.
        needs: fields that must be typed.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        model = own[0].annotation if own and hasattr(own[0].annotation, "model_fields") else None
        first = own.pop(0).name if model is not None else ""
        fields: dict[str, FieldInfo] = {}
        if model is not None:
            order = model.model_json_schema()["properties"]  # as its form has them
            offered = [each for each in only or order if each not in leave_out]
            fields = {each: model.model_fields[each] for each in offered}

        @wraps(function)
        def run(**typed: Any) -> None:  # noqa: ANN401 - whatever was typed
            as_json = typed.pop("as_json", False)
            given = {parameter.name: typed.pop(parameter.name) for parameter in own}
            if model is not None:
                options = {each: _value(fields[each], value) for each, value in typed.items()}
                given[first] = read_options(model, options)
            returned = function(**given)
            result = returned if isinstance(returned, Result) else Result(returned)
            shown = result.view or view
            if as_json:
                output.print_json(result.document)
            elif shown is not None:
                show(shown, result.document, result.more)
            if result.status:
                raise typer.Exit(result.status)

        every = [_parameter(each, fields[each], needed=each in needs) for each in fields]
        every += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        every += [_JSON] if view is not None else []
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # for Typer
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        run.epilog = f"Example: nightscreen {example}"  # type: ignore[attr-defined]
        if of is not None:
            name = example.removeprefix(f"{of.info.name} ").partition(" ")[0]
            of.command(name, epilog=f"Example: nightscreen {example}")(run)
        return run

    return decorate


def _parameter(name: str, field: FieldInfo, *, needed: bool) -> inspect.Parameter:
    """Return the argument or option of a field; its default None shows that it was not typed."""
    from annotated_types import Ge, Le

    option = _option(field)
    kind = field.annotation
    choices = kind if get_origin(kind) is not list else get_args(kind)[0]
    words = get_args(choices) if get_origin(choices) is Literal else ()
    names = option.names if option else ()
    help_text = (option.help if option else "") or field.description or ""
    default = field.get_default()
    shown = ",".join(default) if isinstance(default, list) else default
    if shown and not isinstance(shown, bool):
        help_text += f" (default: {shown})"
    how: dict[str, Any] = {"help": help_text}
    if words:
        how["metavar"] = ("," if _is_list(field) else "|").join(filter(None, words))
    typed: Any = str
    if _is_list(field):
        typed = list[str]
    elif kind is bool:
        typed = bool
        names = names or (f"--{name.replace('_', '-')}",)  # so there is no --no-... beside it
    elif kind is not str and int in (kind, *get_args(kind)):
        typed = int
        how["min"] = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
        how["max"] = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    argument = option.argument if option else ""
    word = typer.Argument(metavar=argument, **how) if argument else typer.Option(*names, **how)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[typed if needed else typed | None, word],
    )


def _option(field: FieldInfo) -> Option | None:
    return next((entry for entry in field.metadata if hasattr(entry, "argument")), None)


def _is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is list


def _value(field: FieldInfo, typed: Any) -> Any:  # noqa: ANN401 - a word, a number, a list of words
    """Return what was typed, None for nothing; of a list all its words, each once, in order."""
    if typed is False or typed == [] or not _is_list(field):
        return typed or None
    words = (word.strip() for text in typed or () for word in text.split(","))
    return None if typed is None else list(dict.fromkeys(word for word in words if word))


def read_options(model: type[Parameters], options: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a flow; what was left empty keeps its default.

    An empty list is kept: of some options it is a mistake, of others a wish.

    Raises:
        UsageError: an option is wrong; it is named as it is typed.
    """
    from pydantic import ValidationError

    given = {name: value for name, value in options.items() if value is not None and value != ""}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "options"
        field = model.model_fields.get(name)
        option = None if field is None else _option(field)
        typed = option.names[0] if option and option.names else f"--{name.replace('_', '-')}"
        raise UsageError(f"{typed}: {_advice(name, first)}") from None


def _advice(name: str, mistake: ErrorDetails) -> str:
    if mistake["type"] == "literal_error":
        return _none_of(str(mistake["input"]), str(mistake["ctx"]["expected"]))
    if name == "checks":
        from nightscreen.checks.registry import CHECKS

        return f"name at least one of {', '.join(CHECKS)}"
    return _WRITE.get(name, str(mistake["msg"]).removeprefix("Value error, "))


def _none_of(given: str, expected: str) -> str:
    """Say what may be given, from the validator's list of quoted words, and the nearest of them."""
    words = [word for word in expected.replace(" or ", ", ").replace("'", "").split(", ") if word]
    near = difflib.get_close_matches(given.casefold(), words, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{given} is none of {', '.join(words)}{hint}"
