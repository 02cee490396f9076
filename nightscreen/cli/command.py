"""Make commands: their options, the document each returns, and how it is printed.

A command is a function that returns the document that `--json` prints; a view shows the same
document to people. The options for a flow's parameters are made from the parameters' model. A list
may be given with commas, by repeating the option, or both.
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
"""The name of a template in `data/views`, or a function that prints a document."""
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
}


class Result(NamedTuple):
    """A command's document with an exit status, another view, or more values for the view."""

    document: Any  # as `--json` prints it
    status: int = 0  # the exit status
    view: View | None = None  # replaces the command's own view
    more: Mapping[str, Any] = MappingProxyType({})  # what else the view needs, by name


def show(view: View, document: Any, more: Mapping[str, Any]) -> None:  # noqa: ANN401 - of any command
    """Print a document for people, with a template or a function."""
    if isinstance(view, str):
        typer.echo(output.view(view, document, **more), nl=False)
    else:
        view(document, **more)


def group(name: str, about: str, **settings: Any) -> typer.Typer:  # noqa: ANN401 - as Typer takes them
    """Return a group of commands; they are typed after its name."""
    settings = {"no_args_is_help": True, **settings}
    return typer.Typer(name=name, help=about, rich_markup_mode=None, **settings)


def command(
    example: str,
    *,
    of: typer.Typer | None = None,
    view: View | None = None,
    only: Collection[str] = (),
    leave_out: Collection[str] = (),
    needs: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a command from a function that returns a document, a `Result`, or None.

    If the function's first parameter is a pydantic model, the command has an argument or option for
    each field. Fields that were not typed are not set in the model passed to the function.

    Args:
        example: a command line, without `nightscreen`.
        of: the group that the command belongs to; its name in the group is taken from the example.
            A command without a group is listed in `main.COMMANDS`.
        view: shows the document to people; without a view there is no `--json`.
        only: the model's fields that the command offers; empty for all.
        leave_out: fields that it does not offer.
        needs: fields that are required.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        model = own[0].annotation if own and hasattr(own[0].annotation, "model_fields") else None
        first = own.pop(0).name if model is not None else ""
        fields: dict[str, FieldInfo] = {}
        if model is not None:
            order = model.model_json_schema()["properties"]  # as in Prefect's form
            offered = [each for each in only or order if each not in leave_out]
            fields = {each: model.model_fields[each] for each in offered}

        @wraps(function)
        def run(**typed: Any) -> None:  # noqa: ANN401 - any option's value
            as_json = typed.pop("as_json", False)
            arguments = {parameter.name: typed.pop(parameter.name) for parameter in own}
            if model is not None:
                options = {name: _value(fields[name], value) for name, value in typed.items()}
                arguments[first] = read_options(model, options)
            returned = function(**arguments)
            result = returned if isinstance(returned, Result) else Result(returned)
            chosen_view = result.view or view
            if as_json:
                output.print_json(result.document)
            elif chosen_view is not None:
                show(chosen_view, result.document, result.more)
            if result.status:
                raise typer.Exit(result.status)

        parameters = [_parameter(name, fields[name], needed=name in needs) for name in fields]
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        parameters += [_JSON] if view is not None else []
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # for Typer
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.epilog = f"Example: nightscreen {example}"  # type: ignore[attr-defined]
        if of is not None:
            name = example.removeprefix(f"{of.info.name} ").partition(" ")[0]
            of.command(name, epilog=f"Example: nightscreen {example}")(run)
        return run

    return decorate


def _parameter(name: str, field: FieldInfo, *, needed: bool) -> inspect.Parameter:
    """Return the argument or option of a field; the default None means that it was not typed."""
    from annotated_types import Ge, Le

    option = _option(field)
    kind = field.annotation
    choices = kind if get_origin(kind) is not list else get_args(kind)[0]
    allowed = get_args(choices) if get_origin(choices) is Literal else ()
    names = option.names if option else ()
    help_text = (option.help if option else "") or field.description or ""
    default = field.get_default()
    default_text = ",".join(default) if isinstance(default, list) else default
    if default_text and not isinstance(default_text, bool):
        help_text += f" (default: {default_text})"
    settings: dict[str, Any] = {"help": help_text}
    if allowed:
        settings["metavar"] = ("," if _is_list(field) else "|").join(filter(None, allowed))
    typed: Any = str
    if _is_list(field):
        typed = list[str]
    elif kind is bool:
        typed = bool
        names = names or (f"--{name.replace('_', '-')}",)  # so Typer adds no --no-... option
    elif kind is not str and int in (kind, *get_args(kind)):
        typed = int
        settings["min"] = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
        settings["max"] = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    argument = option.argument if option else ""
    declared = (
        typer.Argument(metavar=argument, **settings)
        if argument
        else typer.Option(*names, **settings)
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[typed if needed else typed | None, declared],
    )


def _option(field: FieldInfo) -> Option | None:
    return next((entry for entry in field.metadata if hasattr(entry, "argument")), None)


def _is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is list


def _value(field: FieldInfo, typed: Any) -> Any:  # noqa: ANN401 - text, a number, a list of texts
    """Return the typed value, or None; a list is split at commas, without duplicates, in order."""
    if typed is False or typed == [] or not _is_list(field):
        return typed or None
    items = (item.strip() for text in typed or () for item in text.split(","))
    return None if typed is None else list(dict.fromkeys(item for item in items if item))


def read_options(model: type[Parameters], options: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a flow; empty options keep their defaults.

    An empty list is passed on: some options allow it, others report it as a mistake.

    Raises:
        UsageError: an option is wrong; the text names the option as it is typed.
    """
    from pydantic import ValidationError

    values = {name: value for name, value in options.items() if value is not None and value != ""}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "options"
        field = model.model_fields.get(name)
        option = None if field is None else _option(field)
        typed = f"--{name.replace('_', '-')}"
        if option is not None:
            typed = option.argument or next(iter(option.names), typed)
        raise UsageError(f"{typed}: {_advice(name, first)}") from None


def _advice(name: str, mistake: ErrorDetails) -> str:
    if mistake["type"] == "literal_error":
        return _none_of(str(mistake["input"]), str(mistake["ctx"]["expected"]))
    if mistake["type"] == "string_too_long":
        return f"write at most {mistake['ctx']['max_length']} characters"
    if name == "checks":
        from nightscreen.checks.registry import CHECKS

        return f"name at least one of {', '.join(CHECKS)}"
    return _WRITE.get(name, str(mistake["msg"]).removeprefix("Value error, "))


def _none_of(given: str, expected: str) -> str:
    """Return a text with the allowed values, from the validator's quoted list, and the nearest."""
    allowed = [each for each in expected.replace(" or ", ", ").replace("'", "").split(", ") if each]
    near = difflib.get_close_matches(given.casefold(), allowed, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{given} is none of {', '.join(allowed)}{hint}"
