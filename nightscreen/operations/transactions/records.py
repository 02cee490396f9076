"""Pulled records: read from JSON without changing a number, typed, compared and stored.

The known fields are in `data/transaction_fields.toml` and similar files, where a lender can correct
a name. No part of a record is lost: unknown and unreadable fields are stored in `extra`.

The journal stores every version of every record, sealed, and the outcome of each pull. One database
transaction compares a list with the stored records and saves it, so that a crash leaves all of it
or nothing. The service has no cursor: every pull gets the whole list, or as much of it as the
service sends. A list that lacks suspiciously many records removes none until another pull confirms
it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import insert, literal, select, union_all, update

from nightscreen.journal.database import blocks
from nightscreen.journal.records import Records
from nightscreen.journal.schema import TRANSACTION, records, transaction_records
from nightscreen.schemas.answers import read_instant, read_number
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.consented import (
    KEPT,
    Answered,
    Difference,
    Known,
    Pulled,
    PulledKind,
    PullOutcome,
    RawRecords,
    TransactionChange,
    find_records,
)
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.shipped import DATA, read_model

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from decimal import Decimal
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Row

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal

MONEY: Final = pa.decimal128(38, 6)  # in naira, or in the record's `currency`
_MONEY_DIGITS, _MONEY_PLACES = 32, 6
NOT_A_RECORD, TOO_DEEP, REPEATED_ID = "not_a_record", "too_deep", "repeated_id"
HINTS: Final = {
    NOT_A_RECORD: "the service listed something that is not a record; it is stored sealed",
    TOO_DEEP: "the record is nested too deeply",
    REPEATED_ID: "another record of the list has the same id and other content",
    "money_unreadable": "the field holds no decimal number that six places can keep",
    "instant_unreadable": "the field holds no date and time that exists",
    "text_unreadable": "the field holds no text",
    "words_unreadable": "the field holds no list of texts",
}
"""The meaning of each code in a pull's quarantine."""
DRIFT: Final = ("new", "missing", "unreadable", "shape")
OTHER_NAME: Final = "(another name)"  # replaces a field's name that may be personal data
_NAME = re.compile(r"(?!(.*\d){5})[A-Za-z0-9_.-]{1,64}")  # fewer digits than any identifier has
_MOST_NAMES = 100
_DEEP = '{"nested": "beyond reason"}'
BEFORE: Final = (
    pa.field("customer_id", pa.string(), nullable=False),
    pa.field("record_key", pa.string(), nullable=False),
    pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    pa.field("seen_at", INSTANT, nullable=False),
)
"""Columns that nightscreen adds before the typed ones."""
EXTRA: Final = pa.field("extra", pa.string())


# --- JSON with numbers as text ---


class NumberText(str):
    """A JSON number as the service wrote it, such as `1.10` or `1E5`."""

    __slots__ = ()


def read_list(body: bytes, *, only_lists: bool = True) -> RawRecords | None:
    """Return the records of a list and where in the body they were; None if there is no list.

    Args:
        body: the answer's body.
        only_lists: a single record, such as a profile, does not count as a list.
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
    """Return a value as JSON text in ASCII, with numbers as the service wrote them.

    Args:
        value: a record from `read_list`, or a part of one.
        ordered: sort the fields of objects, so that equal content is equal text.

    Raises:
        RecursionError: it is nested too deeply.
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
    """Parse a text that `json_text` wrote."""
    return json.loads(text, parse_float=NumberText, parse_int=NumberText)


# --- fields and columns ---


class FieldKind(StrEnum):
    """The type of a field's column."""

    TEXT = "text"
    MONEY = "money"
    INSTANT = "instant"
    WORDS = "words"


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


class Drift(Counter[tuple[str, str]]):
    """How the service's records differ from the known fields: counts by kind of `DRIFT` and name.

    A field was `new`, `missing` or `unreadable`; `shape` counts where lists were in the answers.
    """

    def document(self) -> dict[str, dict[str, int]]:
        """Return the counts for the journal and the report; they contain no personal data."""
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in DRIFT}
        for (kind, name), number in self.items():
            counts[kind][name if _NAME.fullmatch(name) else OTHER_NAME] += number
        return {kind: dict(sorted(safe.most_common(_MOST_NAMES))) for kind, safe in counts.items()}

    def add(self, document: Mapping[str, Mapping[str, int]]) -> None:
        """Add the counts of a `document`."""
        for kind, names in document.items():
            self.update({(kind, name): number for name, number in names.items()})


@dataclass(frozen=True, slots=True)
class TypedRecord:
    """One record's typed columns, or the problem; `occurred_at` is in microseconds."""

    values: dict[str, Any] = field(repr=False)
    occurred_at: int | None = None
    problem: str | None = None
    column: str = ""


class RecordFields:
    """Reads records of one kind by its table of fields; `schema` is the typed output's."""

    def __init__(self, table: _Table, kind: PulledKind) -> None:
        self._kind = kind
        self._fields = table.field
        self._id_column, self._time = table.id, table.time
        self._id_names = next((each.names for each in table.field if each.column == table.id), ())
        self._known = {name for each in table.field for name in each.names}
        self._objects = {name.partition(".")[0] for name in self._known if "." in name}
        typed = [pa.field(each.column, _KINDS[each.kind][0]) for each in table.field]
        self.schema = pa.schema([*BEFORE, *typed, EXTRA])

    def typed(self, raw: bytes, columns: Container[str] | None = None) -> dict[str, Any]:
        """Return a stored record's typed columns, all or some; a missing field has no entry."""
        return self.view(parse_text(raw), columns=columns).values

    def view(
        self,
        record: object,
        drift: Drift | None = None,
        columns: Container[str] | None = None,
    ) -> TypedRecord:
        """Return the typed view of a record; add its differences from the known to `drift`."""
        drift = drift if drift is not None else Drift()
        if not isinstance(record, dict):
            return TypedRecord({}, problem=NOT_A_RECORD)
        remaining = _flat(record, self._objects)
        values: dict[str, Any] = {}
        problem, column = None, ""
        for each in self._fields:
            if columns is not None and each.column not in columns:
                continue
            name = next((name for name in each.names if name in remaining), None)
            if name is None:
                drift["missing", each.names[0]] += 1
                continue
            raw = remaining[name]
            value = _KINDS[each.kind][1](raw)
            if value is None and raw is not None:
                drift["unreadable", name] += 1
                if each.essential and problem is None:
                    problem, column = f"{each.kind}_unreadable", each.column
                continue
            values[each.column] = value
            del remaining[name]
        if columns is None:
            drift.update(("new", name) for name in remaining if name not in self._known)
            values[EXTRA.name] = json_text(remaining) if remaining else None
        occurred = values.get(self._time)
        occurred_at = None if occurred is None else to_micros(occurred)
        return TypedRecord(values, occurred_at, problem, column)

    def read(
        self, records: Sequence[object], pseudonyms: Pseudonyms, customer: bytes, drift: Drift
    ) -> tuple[list[Answered], int]:
        """Return each record of a list once, ready to be stored, and the number of repetitions.

        Records are identified by their id, or by their content if they have none. Equal ids of two
        customers or two kinds are two records.
        """
        kind, owner = self._kind, customer.hex()
        contents: Counter[bytes] = Counter()
        by_id: Counter[str] = Counter()
        answered: dict[bytes, Answered] = {}
        for place, record in enumerate(records):
            try:
                raw, ordered = json_text(record), json_text(record, ordered=True)
                view = self.view(record, drift)
                flat = _flat(record, self._objects) if isinstance(record, dict) else {}
                raw_id = next((flat[name] for name in self._id_names if name in flat), None)
                id_ = str(raw_id) if isinstance(raw_id, str) and raw_id else None
            except RecursionError:
                raw = ordered = _DEEP
                view, id_ = TypedRecord({}, problem=TOO_DEEP), None
            content = pseudonyms.subject(f"{kind} content", f"{owner}\x1f{ordered}")
            contents[content] += 1
            problem, column = view.problem, view.column
            if id_ is None:
                identity = f"{owner}\x1f{ordered}\x1f{contents[content]}"
                key = pseudonyms.subject(f"{kind} without id", identity)
            elif contents[content] > 1:
                continue
            elif by_id[id_]:
                key = pseudonyms.subject(f"{kind} again", f"{owner}\x1f{id_}\x1f{ordered}")
                problem, column = REPEATED_ID, self._id_column
            else:
                key = pseudonyms.subject(kind.value, f"{owner}\x1f{id_}")
            by_id[id_ or ""] += 1
            at = view.occurred_at
            answered[key] = Answered(key, content, raw.encode(), at, place, problem, column)
        return list(answered.values()), len(records) - len(answered)


@cache
def load_fields(
    kind: PulledKind = PulledKind.TRANSACTION, path: Path | None = None
) -> RecordFields:
    """Read the fields of a kind of record, from `data/` or another file.

    Raises:
        SettingsError: the file cannot be read, is not TOML, or has a mistake.
    """
    path = path or DATA / f"{kind}_fields.toml"
    table = read_model(path, _Table)
    columns = [each.name for each in (*BEFORE, EXTRA)] + [each.column for each in table.field]
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise SettingsError(f"{path.name}: the column {repeated} is declared twice")
    return RecordFields(table, kind)


def _flat(record: dict[str, Any], objects: set[str]) -> dict[str, Any]:
    """Flatten the known objects of a record into `object.field`; other objects stay whole."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name in objects and isinstance(value, dict):
            flat.update({f"{name}.{inner}": each for inner, each in value.items()})
        else:
            flat[name] = value
    return flat


def _text(value: object) -> str | None:
    if isinstance(value, str):  # a number, too, as the service wrote it
        return _encodable(str(value))
    return json_text(value) if isinstance(value, bool) else None


def _encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _money(value: object) -> Decimal | None:
    """Return an exact amount; None if unreadable or with more than six decimal places."""
    number = read_number(value)
    if number is None:
        return None
    exponent = number.normalize().as_tuple().exponent
    exact = isinstance(exponent, int) and exponent >= -_MONEY_PLACES
    return number if exact and number.adjusted() < _MONEY_DIGITS else None


def _words(value: object) -> list[str] | None:
    """Return a list of texts; a single text becomes a list."""
    items = value if isinstance(value, list) else [value]
    texts = [_encodable(str(each)) for each in items if isinstance(each, str)]
    return texts if len(texts) == len(items) else None


_KINDS: Final = {
    FieldKind.TEXT: (pa.string(), _text),
    FieldKind.MONEY: (MONEY, _money),
    # an instant without a zone is UTC, as everywhere in the service
    FieldKind.INSTANT: (
        INSTANT,
        lambda it: None if isinstance(it, NumberText) else read_instant(it),
    ),
    FieldKind.WORDS: (pa.list_(pa.string()), _words),
}
"""The column type of each kind, and a function that reads a value, None if unreadable."""


# --- the journal ---

HELD_SHARE = 0.5
"""A list that lacks more than this share of the known records is suspicious; so is an empty one."""
HELD_TAIL = 5  # so is one that lacks this many of the oldest in a row: it may have been cut short
LONG_LIST = 100  # a list with so many records may be limited by the service
_BLOCK = 2000  # records written or read at once: bounds memory, since each has its body
_ADDED, _MODIFIED, _REMOVED = TransactionChange
_records = transaction_records.c


class Version(NamedTuple):
    """One decrypted version of a record; instants in microseconds."""

    customer: bytes
    key: bytes
    raw: bytes
    problem: str | None
    first_seen_at: int
    run_id: str
    change: TransactionChange
    ended_at: int | None
    ended_as: str | None
    kind: PulledKind


@dataclass(frozen=True, slots=True)
class AnsweredList:
    """One list of a customer from the service."""

    kind: PulledKind  # of the records
    records: Sequence[Answered]  # each record once
    summary: dict[str, Any]  # counts and issues of the answer


class PullStore:
    """Stores records in an open journal; `pulls` are the customers' pulls and their outcomes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.pulls = Records(journal, Pulled)

    # --- pulls ---

    def save_state(self, pulled: Pulled) -> None:
        """Save a customer's pull without records."""
        self.pulls.put([pulled], self._journal.clock())

    def last_stored(self, customer: bytes, kind: PulledKind) -> Pulled | None:
        """Return a customer's most recent pull whose list was stored."""
        with self._journal.database.reading() as connection:
            return self._last(connection, customer, kind)

    def _last(
        self, connection: Connection, customer: bytes, kind: PulledKind, but_of: str = ""
    ) -> Pulled | None:
        is_stored = records.c.state.in_([outcome.value for outcome in KEPT])
        pulls = self.pulls.read(
            connection, is_stored, records.c.customer == customer, records.c.run_id != but_of
        )
        of_kind = [each for each in pulls if each.pulled is kind]
        return max(of_kind, key=lambda each: each.answered_at or 0, default=None)

    # --- storing lists ---

    def save_lists(
        self, pulled: Pulled, lists: Iterable[AnsweredList], *, old_before: int
    ) -> Pulled:
        """Compare lists with the stored records and save the changes; return the customer's pull.

        The list of the pull's own kind decides the outcome. If another run has stored a later
        answer meanwhile, nothing is stored. Records from before `old_before`, microseconds, may be
        too old for the service to list.
        """
        kind, now = pulled.pulled, self._journal.clock()
        with self._journal.database.writing() as connection:
            last = self._last(connection, pulled.customer, kind, but_of=pulled.run_id)
            if last is not None and (last.answered_at or 0) > (pulled.answered_at or 0):
                superseded = pulled.model_copy(update={"state": PullOutcome.SUPERSEDED})
                self.pulls.update(connection, [superseded], now)
                return superseded
            confirms = last is not None and last.state is PullOutcome.SUSPICIOUS_SHORT
            summary = dict(pulled.summary)
            for each in lists:
                # Lists of accounts are short: a missing one does not mean that the list was cut.
                is_sure = confirms or (each.kind.is_state and bool(each.records))
                columns = (_records.record_id, _records.record_key, _records.content)
                is_current = _is_current(pulled.customer, each.kind)
                rows = connection.execute(select(*columns, _records.occurred_at).where(is_current))
                known = [Known(id_, bytes(key), bytes(text), at) for id_, key, text, at in rows]
                diff = compare(known, each.records, confirms=is_sure, old_before=old_before)
                self._write(connection, pulled, each.kind, diff)
                summary[each.kind.value] = {
                    **each.summary,
                    "added": len(diff.added),
                    "modified": len(diff.modified),
                    "removed": len(diff.removed),
                    "held": diff.held,
                    "out_of_reach": diff.out_of_reach,
                }
            held = summary[kind.value]["held"]
            outcome = PullOutcome.SUSPICIOUS_SHORT if held else PullOutcome.PULLED
            done = pulled.model_copy(update={"state": outcome, "summary": summary})
            self.pulls.update(connection, [done], now)
            return done

    def _write(
        self, connection: Connection, pulled: Pulled, kind: PulledKind, diff: Difference
    ) -> None:
        now = self._journal.clock()

        def row(answered: Answered, change: TransactionChange) -> dict[str, Any]:
            context = TRANSACTION.context(pulled.customer, answered.key)
            return {
                "customer": pulled.customer,
                "record_key": answered.key,
                "content": answered.content,
                "problem": answered.problem,
                "occurred_at": answered.occurred_at,
                "first_seen_at": now,
                "run_id": pulled.run_id,
                "told_as": change.value,
                "kind": kind.value,
                "sealed": self._journal.sealer.seal(answered.raw, context),
            }

        new = [row(answered, _ADDED) for answered in diff.added]
        new += [row(answered, _MODIFIED) for _, answered in diff.modified]
        ended = (
            (_MODIFIED, [known.record_id for known, _ in diff.modified]),
            (_REMOVED, [known.record_id for known in diff.removed]),
        )
        for change, ids in ended:
            values = {"ended_at": now, "ended_as": change.value, "ended_by": pulled.run_id}
            for block in blocks(ids):
                is_ended = _records.record_id.in_(block)
                connection.execute(update(transaction_records).where(is_ended).values(values))
        for start in range(0, len(new), _BLOCK):
            connection.execute(insert(transaction_records), new[start : start + _BLOCK])

    # --- reading records ---

    def versions_of_run(self, run_id: str, kind: PulledKind) -> Iterator[list[Version]]:
        """Yield the versions of a kind that a run stored, in blocks."""
        yield from self._versions((_records.run_id == run_id) & (_records.kind == kind.value))

    def of_customer(self, customer: bytes) -> Iterator[list[Version]]:
        """Yield all stored versions of a customer's records, in blocks."""
        yield from self._versions(_records.customer == customer)

    def current(
        self, customer: bytes, kind: PulledKind = PulledKind.TRANSACTION
    ) -> Iterator[list[Version]]:
        """Yield a customer's current records, in blocks, in the order in which they were stored."""
        yield from self._versions(_is_current(customer, kind))

    def _versions(self, condition: ColumnElement[bool]) -> Iterator[list[Version]]:
        def version(row: Row[Any]) -> Version:
            customer, key = bytes(row.customer), bytes(row.record_key)
            context = TRANSACTION.context(customer, key)
            return Version(
                customer=customer,
                key=key,
                raw=self._journal.sealer.open(bytes(row.sealed), context),
                problem=row.problem,
                first_seen_at=row.first_seen_at,
                run_id=row.run_id,
                change=TransactionChange(row.told_as),
                ended_at=row.ended_at,
                ended_as=row.ended_as,
                kind=PulledKind(row.kind),
            )

        query = select(transaction_records).where(condition)
        for rows in self._journal.database.in_blocks(query, _records.record_id, size=_BLOCK):
            yield list(map(version, rows))

    def changes(self, run_id: str) -> Iterator[Row[Any]]:
        """Yield the records that a run added or modified, then those it removed; none is opened.

        Each row has `customer`, `record_key`, `change`, `problem` and `at`, microseconds.
        """
        columns = (_records.customer, _records.record_key, _records.problem)
        stored = select(
            *columns, _records.told_as.label("change"), _records.first_seen_at.label("at")
        )
        removed = select(*columns, literal(_REMOVED.value), _records.ended_at)
        is_removed = (_records.ended_by == run_id) & (_records.ended_as == _REMOVED.value)
        both = union_all(stored.where(_records.run_id == run_id), removed.where(is_removed))
        with self._journal.database.reading() as connection:
            yield from connection.execute(both)


def _is_current(customer: bytes, kind: PulledKind) -> ColumnElement[bool]:
    """Return the condition for a customer's current records of a kind."""
    own = (_records.customer == customer) & (_records.kind == kind.value)
    return own & _records.ended_at.is_(None)


# --- comparing ---


def compare(
    known: Iterable[Known], answered: Sequence[Answered], *, confirms: bool, old_before: int
) -> Difference:
    """Return how a list differs from the known records.

    If it `confirms` the pull before, which held removals back, missing records are removed. Records
    from before `old_before`, microseconds, may be too old for the service to list.
    """
    current = {each.key: each for each in answered}
    previous = {each.key: each for each in known}
    missing = [each for key, each in previous.items() if key not in current]
    times = [each.occurred_at for each in answered if each.occurred_at is not None]
    oldest = min(times, default=None)
    reach = None  # a long list may be a window: it proves nothing about records older than both
    if oldest is not None and len(answered) >= LONG_LIST:
        reach = min(oldest, old_before)
    within_reach = [each for each in missing if not _is_before(each, reach)]
    out_of_reach = len(missing) - len(within_reach)
    tail = sum(_is_before(each, oldest) for each in within_reach)
    most = HELD_SHARE * (len(previous) - out_of_reach)
    is_suspicious = not answered or len(within_reach) > most or tail >= HELD_TAIL
    held = len(within_reach) if is_suspicious and not confirms else 0
    return Difference(
        added=tuple(each for key, each in current.items() if key not in previous),
        modified=tuple(
            (previous[key], each)
            for key, each in current.items()
            if key in previous and previous[key].content != each.content
        ),
        removed=() if held else tuple(within_reach),
        held=held,
        out_of_reach=out_of_reach,
    )


def _is_before(known: Known, instant: int | None) -> bool:
    return instant is not None and known.occurred_at is not None and known.occurred_at < instant
