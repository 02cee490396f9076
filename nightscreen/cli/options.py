"""Options of the command line, made from the parameters of a flow; mistakes name the option.

The parameters are declared in `schemas/`. A list may be given with commas or by repeating the
option: both add up.
"""

from __future__ import annotations

import difflib
import inspect
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.api_runs import Option
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

Parameters = TypeVar("Parameters", bound=BaseModel)
Options = dict[str, Any]
"""The options that were typed, by the parameter's name; others are left out."""

_WRITE = {
    "max_spend": "write naira such as 250000 or 99.50, without sign or commas",
    "deadline": "write a time of day in Lagos such as 06:00, or an instant such as "
    "2026-03-01T06:00",
    "run": "an id holds letters, digits and hyphens; see the ids with: nightscreen runs list",
    "batch": "write at most 80 characters",
    "checks": f"name at least one of {', '.join(CHECKS)}",
}


def options_of(
    model: type[BaseModel], *, leave_out: Collection[str] = (), needs: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an argument or option for each field of a model, before its own.

    The command takes what was typed as its first argument, `Options`.

    Args:
        model: the parameters of a flow.
        leave_out: fields that the command does not offer.
        needs: fields that must be typed.
    """
    fields = {name: field for name, field in model.model_fields.items() if name not in leave_out}
    order = [name for name in model.model_json_schema()["properties"] if name in fields]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def typed(**given: Any) -> None:  # noqa: ANN401 - whatever was typed
            rest = {parameter.name: given.pop(parameter.name) for parameter in own}
            options = {
                name: _value(fields[name], value)
                for name, value in given.items()
                if value is not None and value is not False and value != []
            }
            command(options, **rest)

        made = [_parameter(name, fields[name], needed=name in needs) for name in order]
        every = [
            *made,
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        ]
        typed.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # for Typer
        typed.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        return typed

    return decorate


def _parameter(name: str, field: FieldInfo, *, needed: bool) -> inspect.Parameter:
    """Return the argument or option of a field; Its default None shows that it was not typed."""
    option = _option(field)
    help_text = option.help or field.description or ""
    default = field.get_default()
    shown = ",".join(default) if isinstance(default, list) else default
    if shown and not isinstance(shown, bool):
        help_text += f" (default: {shown})"
    how: dict[str, Any] = {"help": help_text}
    words = _words(field.annotation)
    if words:
        how["metavar"] = ("," if _is_list(field) else "|").join(words)
    kind: Any = str
    names = list(option.names)
    if _is_list(field):
        kind = list[str]
    elif field.annotation is bool:
        kind = bool
        names = names or [f"--{name.replace('_', '-')}"]  # given so, it has no --no-... beside it
    elif field.annotation is not str and int in (field.annotation, *get_args(field.annotation)):
        kind = int
        how["min"] = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
        how["max"] = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    word = (
        typer.Argument(metavar=option.argument, **how)
        if option.argument
        else typer.Option(*names, **how)
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[kind if needed else kind | None, word],
    )


def _words(annotation: Any) -> tuple[str, ...]:  # noqa: ANN401 - any annotation
    """Return the words that a field, or each of its list, may be; none where it is free text."""
    kind = get_args(annotation)[0] if get_origin(annotation) is list else annotation
    return get_args(kind) if get_origin(kind) is Literal else ()


def _option(field: FieldInfo) -> Option:
    return next((entry for entry in field.metadata if isinstance(entry, Option)), Option())


def _is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is list


def _value(field: FieldInfo, typed: Any) -> Any:  # noqa: ANN401 - a word, a number, a list of words
    """Return what was typed; of a list all its words, each once, in the order given."""
    if not _is_list(field):
        return typed
    words = (word.strip() for text in typed for word in text.split(","))
    return list(dict.fromkeys(word for word in words if word))


def read_options(model: type[Parameters], options: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a flow; what was left empty keeps its default.

    An empty list is kept: of some options it is a mistake, of others a wish.

    Raises:
        UsageError: an option is wrong; it is named as it is typed.
    """
    given = {name: value for name, value in options.items() if value is not None and value != ""}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "options"
        field = model.model_fields.get(name)
        names = () if field is None else _option(field).names
        typed = names[0] if names else f"--{name.replace('_', '-')}"
        raise UsageError(f"{typed}: {_advice(name, first)}") from None


def _advice(name: str, mistake: ErrorDetails) -> str:
    if mistake["type"] == "literal_error":
        return _none_of(str(mistake["input"]), str(mistake["ctx"]["expected"]))
    return _WRITE.get(name, str(mistake["msg"]).removeprefix("Value error, "))


def _none_of(given: str, expected: str) -> str:
    """Say what may be given, from the validator's list of quoted words, and the nearest of them."""
    words = [word for word in expected.replace(" or ", ", ").replace("'", "").split(", ") if word]
    near = difflib.get_close_matches(given.casefold(), words, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{given} is none of {', '.join(words)}{hint}"
