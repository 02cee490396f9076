"""The mapping file, in which a user matches headings of their own file; `columns` applies it."""

from __future__ import annotations

import difflib
import json
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from nightscreen.schemas.columns import CUSTOMERS, InputKind
from nightscreen.schemas.errors import SettingsError

DATE_ORDERS = ("dmy", "mdy", "ymd")
_MOST_BYTES = 1 << 20
"""A mapping file has a few lines; a larger file is something else."""
_SHOWN = 200  # characters of the file in a message: another kind of file may have one long line
_KEYS = ("columns", "defaults", "date_order", "sheet", "drop", "merge_rows", "loan_status")
_EXPECTED = {
    "columns": 'must be "Their Heading" or a list of headings',
    "defaults": 'must be a text, number or date, such as "web"',
    "date_order": f"must be one of {', '.join(DATE_ORDERS)}",
    "sheet": "must be the name of a sheet in quotes",
    "drop": "must be a list of headings",
    "merge_rows": "must be true or false",
    "loan_status": 'must be one heading: "Their Heading"',
}


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_text(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    plain = isinstance(value, int | date) and not isinstance(value, bool)
    return str(value) if plain else value


class Mapping(BaseModel):
    """The content of a mapping file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Path("mapping.toml")  # the file, for messages
    # headings by known column, in the order in which they are merged; an empty list means that no
    # column of the file matches
    columns: dict[str, Annotated[tuple[str, ...], BeforeValidator(_listed)]] = {}
    # values for all rows, by known column
    defaults: dict[str, Annotated[str, BeforeValidator(_as_text)]] = {}
    # the order of dates that are not ISO; None if not declared
    date_order: Annotated[
        Literal["dmy", "mdy", "ymd"] | None,
        BeforeValidator(lambda value: value.casefold() if isinstance(value, str) else value),
    ] = None
    sheet: Annotated[str, Field(min_length=1)] | None = None  # the sheet of a workbook to read
    drop: tuple[str, ...] = ()  # headings to leave out entirely
    merge_rows: StrictBool = False  # the rows of one `customer_id` are one customer
    loan_status: str = ""  # heading of the column with a loan's status; empty if not named


def nearest(word: str, words: tuple[str, ...] | list[str]) -> str:
    """Return `; did you mean "x"?` for the nearest of `words`, or nothing."""
    known = {each.casefold(): each for each in words}
    near = difflib.get_close_matches(word.casefold(), known, n=1, cutoff=0.6)
    return f'; did you mean "{known[near[0]]}"?' if near else ""


def read_mapping(path: Path, kind: InputKind = CUSTOMERS) -> Mapping:
    """Read a mapping file for rows of some kind.

    Raises:
        SettingsError: the file is missing, is not TOML, or has an unknown key or column or a wrong
            value; the message names the file and the key.
    """
    try:
        tree = tomllib.loads(_text(path), parse_float=str)
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply; a mapping file has one level") from None
    except ValueError as error:  # also of a number too long for tomllib
        raise SettingsError(
            f"{path}: not valid TOML: {str(error)[:_SHOWN]}; correct that place"
        ) from None
    trouble = _trouble(tree, kind)
    if trouble:
        raise SettingsError(f"{path}: {trouble}")
    try:
        return Mapping.model_validate({**tree, "path": path})
    except ValidationError as error:
        section, *rest = map(str, error.errors()[0]["loc"])
        key = f"[{section}] {rest[0]}" if section in {"columns", "defaults"} else section
        raise SettingsError(f"{path}: {key} {_EXPECTED[section]}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(_MOST_BYTES + 1)
        if len(start) > _MOST_BYTES:
            raise SettingsError(f"{path}: over {_MOST_BYTES >> 20} MB, so no mapping file; name it")
        return start.decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such mapping file; check the path") from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: a folder, not a mapping file; name the file") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text; save the mapping file as UTF-8") from None
    except OSError as error:
        raise SettingsError(
            f"{path}: the mapping file cannot be read ({error.strerror}); check its permissions"
        ) from None


def _trouble(tree: dict[str, Any], kind: InputKind) -> str:
    """Return what is wrong with the keys of a mapping file; empty if nothing is."""
    for key in tree:
        if key not in _KEYS:
            hint = nearest(key, _KEYS) or f"; known are {', '.join(_KEYS)}"
            if key in kind.columns:
                hint = f"; write it under [columns] or [defaults]: {key} = ..."
            return f"{key[:_SHOWN]} is no key of a mapping file{hint}"
    for section in ("columns", "defaults"):
        table = tree.get(section, {})
        if not isinstance(table, dict):
            return f"{section} must be a table: [{section}] on its own line, entries below it"
        for name in table:
            if name not in kind.columns:
                hint = nearest(name, kind.columns) or f"; known are {', '.join(kind.columns)}"
                return f"[{section}] {name[:_SHOWN]} is no column that nightscreen knows{hint}"
            if section == "defaults" and name in kind.personal:
                return f"[defaults] {name} differs from person to person and takes no default"
    return ""


def mapping_toml(mapping: Mapping) -> str:
    """Return the text of a mapping file."""

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    keys = ("date_order", "sheet", "merge_rows", "loan_status")
    given = [(key, getattr(mapping, key)) for key in keys]
    lines = [
        f"drop = {text(mapping.drop)}",
        *(f"{key} = {text(value)}" for key, value in given if value),
    ]
    for section in ("columns", "defaults"):
        entries = getattr(mapping, section).items()
        if entries or section == "columns":
            lines += ["", f"[{section}]", *(f"{name} = {text(value)}" for name, value in entries)]
    return "\n".join(lines) + "\n"
