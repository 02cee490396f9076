"""The mapping file: what a user says about the headings of their own file.

Reading and checking the TOML lives here. `column_mapping`, which has the file's own headings, makes
the final decision.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from nightscreen.schemas.columns import CUSTOMERS, InputKind
from nightscreen.schemas.errors import SettingsError

MOST_BYTES = 1 << 20
"""A mapping file has a few lines; what is larger is another file, or has no end."""
_SHOWN = 200
DATE_ORDERS = ("dmy", "mdy", "ymd")
KEYS = ("columns", "defaults", "date_order", "sheet", "drop", "merge_rows", "loan_status")


@dataclass(frozen=True, slots=True)
class Mapping:
    """The content of a mapping file.

    Attributes:
        path: the file, for messages.
        columns: known column to the headings that mean it, in the order they are merged; no
            heading at all says that nothing in the file means it.
        defaults: known column to its value for all rows.
        date_order: `dmy`, `mdy`, `ymd`, or None where not declared.
        sheet: the sheet of a workbook to read.
        drop: headings to leave out entirely.
        merge_rows: the rows of one `customer_id` are one customer.
        loan_status: heading of the column with a loan's status; empty if not named.
    """

    path: Path = Path("mapping.toml")
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    date_order: str | None = None
    sheet: str | None = None
    drop: tuple[str, ...] = ()
    merge_rows: bool = False
    loan_status: str = ""


def nearest(word: str, words: tuple[str, ...]) -> str:
    """Return `; did you mean "x"?` for the nearest of `words`, or nothing."""
    near = difflib.get_close_matches(word.casefold(), words, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def read_mapping(path: Path, kind: InputKind = CUSTOMERS) -> Mapping:
    """Read a mapping file for rows of some kind.

    Raises:
        SettingsError: the file is missing, is no TOML, or holds a key, column or value that means
            nothing; the message names the file, the line and the key.
    """
    text = _text(path)
    try:
        tree = tomllib.loads(text, parse_float=str)
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply; a mapping file has one level") from None
    except ValueError as error:  # also of a number too long for tomllib
        raise SettingsError(
            f"{path}: not valid TOML: {str(error)[:_SHOWN]}; correct that place"
        ) from None
    place = _Place(path, text, kind)
    for key in tree:
        if key not in KEYS:
            raise place.error(key, f"is no key of a mapping file{_hint_for_key(key, kind)}")
    return Mapping(
        path=path,
        columns=_columns(tree.get("columns", {}), place),
        defaults=_defaults(tree.get("defaults", {}), place),
        date_order=_date_order(tree.get("date_order"), place),
        sheet=_sheet(tree.get("sheet"), place),
        drop=_headings("drop", tree.get("drop", []), place),
        merge_rows=_merge_rows(tree.get("merge_rows", False), place),
        loan_status=_heading("loan_status", tree.get("loan_status", ""), place),
    )


def mapping_toml(mapping: Mapping) -> str:
    """Return a mapping as the text of its file."""

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    keys = ("date_order", "sheet", "merge_rows", "loan_status")
    entries_given = [(key, getattr(mapping, key)) for key in keys]
    lines = [
        f"drop = {text(mapping.drop)}",
        *(f"{key} = {text(value)}" for key, value in entries_given if value),
    ]
    for section in ("columns", "defaults"):
        entries = getattr(mapping, section).items()
        if entries or section == "columns":
            lines += ["", f"[{section}]", *(f"{name} = {text(value)}" for name, value in entries)]
    return "\n".join(lines) + "\n"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(MOST_BYTES + 1)
        if len(start) > MOST_BYTES:
            raise SettingsError(f"{path}: over {MOST_BYTES >> 20} MB, so no mapping file; name it")
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


def _hint_for_key(key: str, kind: InputKind) -> str:
    if key in kind.columns:
        return f"; write it under [columns] or [defaults]: {key} = ..."
    return nearest(key, KEYS) or f"; known are {', '.join(KEYS)}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Makes errors that name the file, the line and the key."""

    path: Path
    text: str
    kind: InputKind

    def error(self, key: str, trouble: str, section: str = "") -> SettingsError:
        line = self._line(key, section)
        where = f"{self.path} line {line}" if line else f"{self.path}"
        table = f"[{section}] " if section else ""
        return SettingsError(f"{where}: {table}{key[:_SHOWN]} {trouble}")

    def _line(self, key: str, section: str) -> int | None:
        names = (key, f'"{key}"', f"'{key}'")
        inside = not section
        for number, line in enumerate(self.text.splitlines(), start=1):
            stripped = line.strip()
            if section and stripped.startswith("["):
                inside = stripped.startswith(f"[{section}]")
            elif inside and (
                stripped.startswith(f"[{key}]")
                or any(
                    stripped.startswith(name)
                    and stripped[len(name) :].lstrip().startswith(("=", "."))
                    for name in names
                )
            ):
                return number
        return None


def _known(name: str, section: str, place: _Place) -> str:
    columns = place.kind.columns
    if name not in columns:
        hint = nearest(name, columns) or f"; known are {', '.join(columns)}"
        raise place.error(name, f"is no column that nightscreen knows{hint}", section)
    return name


def _table(name: str, value: object, place: _Place) -> dict[str, object]:
    if not isinstance(value, dict):
        raise place.error(name, f"must be a table: [{name}] on its own line, entries below it")
    return value


def _columns(value: object, place: _Place) -> dict[str, tuple[str, ...]]:
    columns: dict[str, tuple[str, ...]] = {}
    for name, headings in _table("columns", value, place).items():
        known = _known(name, "columns", place)
        columns[known] = _headings(name, headings, place, "columns")
    return columns


def _headings(name: str, value: object, place: _Place, section: str = "") -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) and section else value
    if not isinstance(listed, list) or not all(isinstance(heading, str) for heading in listed):
        wanted = '"Their Heading" or a list of headings' if section else "a list of headings"
        raise place.error(name, f"must be {wanted}", section)
    return tuple(str(heading) for heading in listed)


def _defaults(value: object, place: _Place) -> dict[str, str]:
    defaults: dict[str, str] = {}
    for name, given in _table("defaults", value, place).items():
        known = _known(name, "defaults", place)
        if known in place.kind.personal:
            raise place.error(
                name, "differs from person to person and takes no default", "defaults"
            )
        defaults[known] = _default_text(name, given, place)
    return defaults


def _default_text(name: str, value: object, place: _Place) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | date):
        raise place.error(name, 'must be a text, number or date, such as "web"', "defaults")
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def _date_order(value: object, place: _Place) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.casefold() not in DATE_ORDERS:
        raise place.error("date_order", f"must be one of {', '.join(DATE_ORDERS)}")
    return value.casefold()


def _sheet(value: object, place: _Place) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise place.error("sheet", "must be the name of a sheet in quotes")


def _merge_rows(value: object, place: _Place) -> bool:
    if isinstance(value, bool):
        return value
    raise place.error("merge_rows", "must be true or false")


def _heading(name: str, value: object, place: _Place) -> str:
    if isinstance(value, str):
        return value
    raise place.error(name, 'must be one heading: "Their Heading"')
