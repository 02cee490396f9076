"""Records of area A: JSON with every number to the letter, and the typed columns made of it.

The fields stand in `data/transaction_fields.toml` and the like, where a lender can correct a name.
Nothing that a record holds is lost: what is not known, or cannot be read, stands in `extra`. What
changed since the last pull is `store`'s business.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightscreen.client.validation_errors import first_mistake, place_in, read_toml
from nightscreen.schemas.answers import read_instant, read_number
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.consented import RawRecords, find_records
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.pulls import Answered, PulledKind
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal
    from pathlib import Path

    from nightscreen.files.sealing import Pseudonyms

MONEY: Final = pa.decimal128(38, 6)  # naira, or whatever `currency` says
_MONEY_DIGITS, _MONEY_PLACES = 32, 6
NOT_A_RECORD, TOO_DEEP, REPEATED_ID = "not_a_record", "too_deep", "repeated_id"
HINTS: Final = {
    NOT_A_RECORD: "the service listed something that is no record; it is kept sealed",
    TOO_DEEP: "the record is nested beyond reason",
    REPEATED_ID: "another record of the list has the same id and other content",
    "money_unreadable": "the field holds no decimal number that six places can keep",
    "instant_unreadable": "the field holds no date and time that exists",
    "text_unreadable": "the field holds no text",
    "words_unreadable": "the field holds no list of texts",
}
"""What each code of a pull's quarantine means."""
OTHER_NAME: Final = "(another name)"  # stands for a field's name that may be a value
_NAME = re.compile(r"(?!(.*\d){5})[A-Za-z0-9_.-]{1,64}")  # fewer digits than any identifier has
_MOST_NAMES = 100
_DEEP = '{"nested": "beyond reason"}'
BEFORE: Final = (
    pa.field("customer_id", pa.string(), nullable=False),
    pa.field("record_key", pa.string(), nullable=False),
    pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    pa.field("seen_at", INSTANT, nullable=False),
)
"""Columns that we add: whose it is, what it is the same under, whether it is new, since when."""
EXTRA: Final = pa.field("extra", pa.string())


# --- JSON to the letter ---


class NumberText(str):
    """A JSON number as it was written, such as `1.10` or `1E5`."""

    __slots__ = ()


def read_list(body: bytes, *, only_lists: bool = True) -> RawRecords | None:
    """Return the records of a list and where they lay; None where the body holds no list.

    Where only lists are wanted, one record alone, as of a profile, is no answer.
    """
    try:
        document = json.loads(
            body, parse_float=NumberText, parse_int=NumberText, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list):
        return RawRecords(tuple(document), "bare_list")
    return find_records(document, only_lists=only_lists) if isinstance(document, dict) else None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def json_text(value: object, *, ordered: bool = False) -> str:
    """Return a value as JSON text in ASCII, numbers as they were written.

    Args:
        value: what `read_list` gave.
        ordered: bring the fields of objects into order, so that equal content is equal text.

    Raises:
        RecursionError: it is nested beyond reason.
    """
    match value:
        case NumberText():
            return str(value)
        case dict():
            fields = sorted(value.items()) if ordered else value.items()
            inside = (
                f"{json.dumps(key)}:{json_text(each, ordered=ordered)}" for key, each in fields
            )
            return "{" + ",".join(inside) + "}"
        case list():
            return "[" + ",".join(json_text(each, ordered=ordered) for each in value) + "]"
        case _:
            return json.dumps(value)


def parse_text(text: bytes) -> object:
    """Return what `json_text` wrote."""
    return json.loads(text, parse_float=NumberText, parse_int=NumberText)


# --- fields and columns ---


class FieldKind(StrEnum):
    """What a field becomes."""

    TEXT = "text"
    MONEY = "money"
    INSTANT = "instant"
    WORDS = "words"


_TYPES = {
    FieldKind.TEXT: pa.string(),
    FieldKind.MONEY: MONEY,
    FieldKind.INSTANT: INSTANT,
    FieldKind.WORDS: pa.list_(pa.string()),
}


class KnownField(BaseModel):
    """One line of a table; the head of `data/transaction_fields.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    column: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    kind: FieldKind
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    essential: bool = False


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = "transaction_id"
    time: str = "transaction_date"
    field: tuple[KnownField, ...]


@dataclass(slots=True)
class Drift:
    """How records differ from what is known: how often a field was new, absent or unreadable.

    `shape` counts where in the answers the lists were.
    """

    new: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    shape: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, dict[str, int]]:
        """Return it as the journal and the report have it: counts by names, nobody's values."""
        found = {}
        for word in self.__slots__:
            safe: Counter[str] = Counter()
            for name, number in getattr(self, word).items():
                safe[name if _NAME.fullmatch(name) else OTHER_NAME] += number
            found[word] = dict(sorted(safe.most_common(_MOST_NAMES)))
        return found

    def add(self, document: Mapping[str, Mapping[str, int]]) -> None:
        """Add what `document` gave."""
        for word in self.__slots__:
            getattr(self, word).update(document.get(word, {}))


@dataclass(frozen=True, slots=True)
class View:
    """One record's typed columns, or why it has none; `occurred_at` in microseconds."""

    values: dict[str, Any] = field(repr=False)
    occurred_at: int | None = None
    problem: str | None = None
    column: str = ""


class RecordFields:
    """Reads records of one kind by its table of fields; `schema` is that of the typed output."""

    def __init__(self, table: _Table, kind: PulledKind) -> None:
        self._kind = kind
        self._fields = table.field
        self._id_column, self._time = table.id, table.time
        self._id_names = next((each.names for each in table.field if each.column == table.id), ())
        self._known = {name for each in table.field for name in each.names}
        self._objects = {name.partition(".")[0] for name in self._known if "." in name}
        typed = [pa.field(each.column, _TYPES[each.kind]) for each in table.field]
        self.schema = pa.schema([*BEFORE, *typed, EXTRA])

    def typed(self, raw: bytes, columns: Container[str] | None = None) -> dict[str, Any]:
        """Return a stored record's typed columns, all or some; absent where it has none."""
        return self.view(parse_text(raw), columns=columns).values

    def view(
        self,
        record: object,
        drift: Drift | None = None,
        columns: Container[str] | None = None,
    ) -> View:
        """Return the typed view of a record; how it differs from the known is added to `drift`."""
        drift = drift if drift is not None else Drift()
        if not isinstance(record, dict):
            return View({}, problem=NOT_A_RECORD)
        left = _flat(record, self._objects)
        values: dict[str, Any] = {}
        problem, column = None, ""
        for each in self._fields:
            if columns is not None and each.column not in columns:
                continue
            name = next((name for name in each.names if name in left), None)
            if name is None:
                drift.missing[each.names[0]] += 1
                continue
            given = left[name]
            value = _READ[each.kind](given)
            if value is None and given is not None:
                drift.unreadable[name] += 1
                if each.essential and problem is None:
                    problem, column = f"{each.kind}_unreadable", each.column
                continue
            values[each.column] = value
            del left[name]
        if columns is None:
            drift.new.update(name for name in left if name not in self._known)
            values[EXTRA.name] = json_text(left) if left else None
        when = values.get(self._time)
        return View(values, None if when is None else to_micros(when), problem, column)

    def read(
        self, records: Sequence[object], pseudonyms: Pseudonyms, customer: bytes, drift: Drift
    ) -> tuple[list[Answered], int]:
        """Return each record of a list once, ready to be kept, and how many stood there again.

        A record is the same under its id, or under its content where it has none. Equal ids of two
        customers or two kinds are two records.
        """
        kind, whose = self._kind, customer.hex()
        contents: Counter[bytes] = Counter()
        by_id: Counter[str] = Counter()
        found: dict[bytes, Answered] = {}
        for place, record in enumerate(records):
            try:
                raw, ordered = json_text(record), json_text(record, ordered=True)
                view, id_ = self.view(record, drift), self._id_of(record)
            except RecursionError:
                raw = ordered = _DEEP
                view, id_ = View({}, problem=TOO_DEEP), None
            content = pseudonyms.subject(f"{kind} content", f"{whose}\x1f{ordered}")
            contents[content] += 1
            problem, column = view.problem, view.column
            if id_ is None:
                same = f"{whose}\x1f{ordered}\x1f{contents[content]}"
                key = pseudonyms.subject(f"{kind} without id", same)
            elif contents[content] > 1:
                continue
            elif by_id[id_]:
                key = pseudonyms.subject(f"{kind} again", f"{whose}\x1f{id_}\x1f{ordered}")
                problem, column = REPEATED_ID, self._id_column
            else:
                key = pseudonyms.subject(kind.value, f"{whose}\x1f{id_}")
            by_id[id_ or ""] += 1
            at = view.occurred_at
            found[key] = Answered(key, content, raw.encode(), at, place, problem, column)
        return list(found.values()), len(records) - len(found)

    def _id_of(self, record: object) -> str | None:
        flat = _flat(record, self._objects) if isinstance(record, dict) else {}
        value = next((flat[name] for name in self._id_names if name in flat), None)
        return str(value) if isinstance(value, str) and value else None


@cache
def load_fields(
    kind: PulledKind = PulledKind.TRANSACTION, path: Path | None = None
) -> RecordFields:
    """Return the fields of a kind of record, from `data/`, or those of a file.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or has a mistake.
    """
    path = path or DATA / f"{kind}_fields.toml"
    text, content = read_toml(path)
    try:
        table = _Table.model_validate(content)
    except ValidationError as error:
        place = place_in(path, text, error.errors()[0]["loc"])
        raise SettingsError(f"{place}: {first_mistake(error)}") from None
    columns = [each.name for each in (*BEFORE, EXTRA)] + [each.column for each in table.field]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise SettingsError(f"{path.name}: the column {twice} stands there twice")
    return RecordFields(table, kind)


def _flat(record: dict[str, Any], objects: set[str]) -> dict[str, Any]:
    """Lay the known objects of a record flat; other objects stay whole."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name in objects and isinstance(value, dict):
            flat.update({f"{name}.{inner}": each for inner, each in value.items()})
        else:
            flat[name] = value
    return flat


def _text(value: object) -> str | None:
    """Return text as it is, a number as it was written, true and false as JSON has them."""
    if isinstance(value, str):
        return _whole(str(value))
    return json_text(value) if isinstance(value, bool) else None


def _whole(text: str) -> str:
    """Return text that can be written as UTF-8: half a character pair becomes a mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _money(value: object) -> Decimal | None:
    """Return an exact amount; None where there is none that six places can keep."""
    number = read_number(value)
    if number is None:
        return None
    exponent = number.normalize().as_tuple().exponent
    exact = isinstance(exponent, int) and exponent >= -_MONEY_PLACES
    return number if exact and number.adjusted() < _MONEY_DIGITS else None


def _instant(value: object) -> datetime | None:
    """Return an instant of ISO 8601 text; without a zone it is UTC, as all of the service are."""
    return None if isinstance(value, NumberText) else read_instant(value)


def _words(value: object) -> list[str] | None:
    """Return a list of texts; one text alone is a list of it."""
    given = value if isinstance(value, list) else [value]
    texts = [_whole(str(each)) for each in given if isinstance(each, str)]
    return texts if len(texts) == len(given) else None


_READ: Final = {
    FieldKind.TEXT: _text,
    FieldKind.MONEY: _money,
    FieldKind.INSTANT: _instant,
    FieldKind.WORDS: _words,
}
