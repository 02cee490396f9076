"""The typed view of a transaction, an account or a profile: known fields and what they become.

The fields stand in `data/transaction_fields.toml` and the like, where a lender can correct a name.
Nothing that a record holds is lost: what is not known, or cannot be read, stands in `extra`. What
changed since the last pull is `comparison`'s business.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightscreen.operations.transactions.json_decode import NumberText, json_text
from nightscreen.schemas.answers import read_number
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.pulls import PulledKind
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from decimal import Decimal
    from pathlib import Path

MONEY = pa.decimal128(38, 6)
"""Naira, or whatever `currency` says."""
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
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
OTHER_NAME = "(another name)"
"""Stands for a field's name that may be a value."""
_MOST_NAMES = 100


class Kind(StrEnum):
    """What a field becomes."""

    TEXT = "text"
    MONEY = "money"
    INSTANT = "instant"
    WORDS = "words"


_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.MONEY: MONEY,
    Kind.INSTANT: INSTANT,
    Kind.WORDS: pa.list_(pa.string()),
}


class KnownField(BaseModel):
    """One line of a table; the head of `data/transaction_fields.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    column: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    kind: Kind
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    essential: bool = False


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = "transaction_id"
    time: str = "transaction_date"
    field: tuple[KnownField, ...]


BEFORE: Final = (
    pa.field("customer_id", pa.string(), nullable=False),
    pa.field("record_key", pa.string(), nullable=False),
    pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    pa.field("seen_at", INSTANT, nullable=False),
)
"""Columns that we add: whose it is, what it is the same under, whether it is new, since when."""
EXTRA: Final = pa.field("extra", pa.string())


@dataclass(slots=True)
class Drift:
    """How records differ from what is known: how often a field was new, absent or unreadable."""

    new: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, dict[str, int]]:
        """Return it as the journal and the report have it: names and counts."""
        return {
            "new": _named(self.new),
            "missing": _named(self.missing),
            "unreadable": _named(self.unreadable),
        }

    def add(self, document: Mapping[str, Mapping[str, int]]) -> None:
        """Add what `document` gave."""
        self.new.update(document.get("new", {}))
        self.missing.update(document.get("missing", {}))
        self.unreadable.update(document.get("unreadable", {}))


def _named(counts: Counter[str]) -> dict[str, int]:
    """Return counts under names that can be no value of anybody's."""
    safe: Counter[str] = Counter()
    for name, number in counts.items():
        digits = sum(each.isdigit() for each in name)
        known = _NAME.fullmatch(name) and digits < 5  # noqa: PLR2004 - fewer than any identifier has
        safe[name if known else OTHER_NAME] += number
    return dict(sorted(safe.most_common(_MOST_NAMES)))


@dataclass(frozen=True, slots=True)
class View:
    """One record's typed fields, or why it has none."""

    values: dict[str, Any] = field(repr=False)
    occurred_at: int | None = None
    problem: str | None = None
    column: str = ""


class RecordFields:
    """Reads records by one table of fields.

    Attributes:
        schema: of the typed output.
        id_column: the column by which a record is the same in every pull.
    """

    def __init__(self, table: _Table) -> None:
        self._fields = fields = table.field
        self.id_column = table.id
        self._known = {name for each in fields for name in each.names}
        self._objects = {name.partition(".")[0] for name in self._known if "." in name}
        self.schema = pa.schema(
            [*BEFORE, *(pa.field(each.column, _TYPES[each.kind]) for each in fields), EXTRA]
        )
        self._id = next((each for each in fields if each.column == table.id), None)
        self._time = table.time

    def id_of(self, record: object) -> str | None:
        """Return the id a record has, as text; None where it has none."""
        if not isinstance(record, dict) or self._id is None:
            return None
        _, value = _first(_flat(record, self._objects), self._id.names)
        return str(value) if isinstance(value, str) and value else None

    def values(self, record: object, columns: Container[str]) -> dict[str, Any]:
        """Return some of a record's typed columns, None where one is absent or unreadable."""
        flat = _flat(record, self._objects) if isinstance(record, dict) else {}
        wanted = (each for each in self._fields if each.column in columns)
        return {each.column: _READ[each.kind](_first(flat, each.names)[1]) for each in wanted}

    def view(self, record: object, drift: Drift | None = None) -> View:
        """Return the typed view of a record; how it differs from the known is added to `drift`."""
        drift = drift if drift is not None else Drift()
        if not isinstance(record, dict):
            return View({}, problem=NOT_A_RECORD)
        flat = _flat(record, self._objects)
        values: dict[str, Any] = {}
        left = dict(flat)
        problem, column = None, ""
        for each in self._fields:
            name, given = _first(flat, each.names)
            if name is None:
                drift.missing[each.names[0]] += 1
                continue
            value = _READ[each.kind](given)
            if value is None and given is not None:
                drift.unreadable[name] += 1
                if each.essential and problem is None:
                    problem, column = f"{each.kind}_unreadable", each.column
                continue
            values[each.column] = value
            del left[name]
        drift.new.update(name for name in left if name not in self._known)
        values[EXTRA.name] = json_text(left) if left else None
        when = values.get(self._time)
        return View(values, None if when is None else to_micros(when), problem, column)


def load_fields(
    kind: PulledKind = PulledKind.TRANSACTION, path: Path | None = None
) -> RecordFields:
    """Return the fields of a kind of record, from `data/`, or those of a file.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or has a mistake.
    """
    path = path or DATA / f"{kind}_fields.toml"
    try:
        table = _Table.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} is no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{path.name}: {place}: {first['msg']}") from None
    columns = [each.name for each in (*BEFORE, EXTRA)] + [each.column for each in table.field]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise SettingsError(f"{path.name}: the column {twice} stands there twice")
    return RecordFields(table)


def _flat(record: dict[str, Any], objects: set[str]) -> dict[str, Any]:
    """Lay the known objects of a record flat; other objects stay whole."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name in objects and isinstance(value, dict):
            flat.update({f"{name}.{inner}": each for inner, each in value.items()})
        else:
            flat[name] = value
    return flat


def _first(flat: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str | None, Any]:
    for name in names:
        if name in flat:
            return name, flat[name]
    return None, None


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
    if not isinstance(value, str) or isinstance(value, NumberText):
        return None
    try:
        instant = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if instant.tzinfo is UTC:
        return instant
    try:
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        return None


def _words(value: object) -> list[str] | None:
    """Return a list of texts; one text alone is a list of it."""
    given = value if isinstance(value, list) else [value]
    texts = [_whole(str(each)) for each in given if isinstance(each, str)]
    return texts if len(texts) == len(given) else None


_READ: Final = {
    Kind.TEXT: _text,
    Kind.MONEY: _money,
    Kind.INSTANT: _instant,
    Kind.WORDS: _words,
}
