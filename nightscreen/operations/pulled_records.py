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
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import insert, literal, select, union_all, update

from nightscreen.journal.database import blocks
from nightscreen.journal.records import Records
from nightscreen.journal.schema import TRANSACTION, records, transaction_records
from nightscreen.schemas.answers import read_instant, read_number
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.consented import (
    KEPT,
    Pulled,
    PulledKind,
    PullOutcome,
    RawRecords,
    TransactionChange,
    find_records,
)
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


class KnownField(BaseModel):
    """One line of a table; the head of `data/transaction_fields.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    column: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    kind: Literal["text", "money", "instant", "words"]
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    essential: bool = False


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


class TypedRecord(NamedTuple):
    """One record's typed columns, or the problem and the column at fault."""

    values: dict[str, Any]
    problem: str | None = None
    column: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One record of a list, ready to be stored."""

    key: bytes  # pseudonym of its id, or of its content if it has none
    content: bytes  # keyed hash of its content
    raw: bytes = field(repr=False)  # the record as JSON text, numbers unchanged
    occurred_at: int | None = None  # microseconds; None if it cannot be read
    place: int = 0  # its index in the list, from 0
    problem: str | None = None  # code for why it cannot be read; None if it can
    column: str = ""  # the field at fault


class RecordFields(BaseModel):
    """The table of fields of one kind of record: reads records by it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str = "transaction_id"
    time: str = "transaction_date"
    field: tuple[KnownField, ...]

    @field_validator("field")
    @classmethod
    def _distinct(cls, fields: tuple[KnownField, ...]) -> tuple[KnownField, ...]:
        columns = [each.name for each in (*BEFORE, EXTRA)] + [each.column for each in fields]
        for name, number in Counter(columns).items():
            if number > 1:
                raise ValueError(f"the column {name} is declared twice")
        return fields

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the typed output."""
        typed = [pa.field(each.column, _KINDS[each.kind][0]) for each in self.field]
        return pa.schema([*BEFORE, *typed, EXTRA])

    @cached_property
    def _names(self) -> set[str]:
        return {name for each in self.field for name in each.names}

    @cached_property
    def _objects(self) -> set[str]:
        return {name.partition(".")[0] for name in self._names if "." in name}

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
            return TypedRecord({}, NOT_A_RECORD)
        remaining = _flat(record, self._objects)
        values: dict[str, Any] = {}
        problem, column = None, ""
        for each in self.field:
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
            drift.update(("new", name) for name in remaining if name not in self._names)
            values[EXTRA.name] = json_text(remaining) if remaining else None
        return TypedRecord(values, problem, column)

    def read(
        self,
        kind: PulledKind,
        records: Sequence[object],
        pseudonyms: Pseudonyms,
        customer: bytes,
        drift: Drift,
    ) -> tuple[list[Answered], int]:
        """Return each record of a list once, ready to be stored, and the number of repetitions.

        Records are identified by their id, or by their content if they have none. Equal ids of two
        customers or two kinds are two records.
        """
        contents, ids = Counter[bytes](), set[str]()
        answered: dict[bytes, Answered] = {}

        def pseudonym(what: str, *parts: object) -> bytes:
            return pseudonyms.subject(what, "\x1f".join(map(str, (customer.hex(), *parts))))

        for place, record in enumerate(records):
            try:
                raw, ordered = json_text(record), json_text(record, ordered=True)
                values, problem, column = self.view(record, drift)
            except RecursionError:
                raw = ordered = _DEEP
                values, problem, column = TypedRecord({}, TOO_DEEP)
            id_, occurred = values.get(self.id), values.get(self.time)
            content = pseudonym(f"{kind} content", ordered)
            contents[content] += 1
            if not id_:
                key = pseudonym(f"{kind} without id", ordered, contents[content])
            elif contents[content] > 1:
                continue
            elif id_ in ids:
                key = pseudonym(f"{kind} again", id_, ordered)
                problem, column = REPEATED_ID, self.id
            else:
                key = pseudonym(kind.value, id_)
                ids.add(id_)
            at = None if occurred is None else to_micros(occurred)
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
    return read_model(path or DATA / f"{kind}_fields.toml", RecordFields)


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
    "text": (pa.string(), _text),
    "money": (MONEY, _money),
    # an instant without a zone is UTC, as everywhere in the service
    "instant": (INSTANT, lambda it: None if isinstance(it, NumberText) else read_instant(it)),
    "words": (pa.list_(pa.string()), _words),
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
Version: TypeAlias = "tuple[Row[Any], bytes]"
"""A stored version of a record: its row of `transaction_records`, and the record as JSON text."""
_KNOWN = (_records.record_id, _records.record_key, _records.content, _records.occurred_at)


class Known(NamedTuple):
    """One record as stored by an earlier pull."""

    record_id: int
    key: bytes
    content: bytes
    occurred_at: int | None


class Difference(NamedTuple):
    """The differences between a list and the last one of the same customer."""

    added: list[Answered]  # not known before
    modified: list[tuple[Known, Answered]]  # known, with different content
    removed: list[Known]  # no longer in a list that can be trusted
    held: int  # removals that wait for another pull, because too many records are missing
    out_of_reach: int  # known records older than the period that the service lists


class AnsweredList(NamedTuple):
    """One list of a customer from the service."""

    kind: PulledKind  # of the records
    records: Sequence[Answered]  # each record once
    summary: dict[str, Any]  # counts and issues of the answer


class PullStore:
    """Stores records in an open journal; `pulls` are the customers' pulls and their outcomes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.pulls = Records(journal, Pulled)

    def last_stored(
        self, connection: Connection, customer: bytes, kind: PulledKind, but_of: str = ""
    ) -> Pulled | None:
        """Return a customer's most recent pull whose list was stored, but none of a run."""
        is_stored = records.c.state.in_([outcome.value for outcome in KEPT])
        others = (records.c.customer == customer) & (records.c.run_id != but_of)
        pulls = self.pulls.read(connection, is_stored, others)
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
        customer, kind, summary = pulled.customer, pulled.pulled, dict(pulled.summary)
        with self._journal.database.writing() as connection:
            last = self.last_stored(connection, customer, kind, pulled.run_id)
            outcome = PullOutcome.SUPERSEDED
            if last is None or (last.answered_at or 0) <= (pulled.answered_at or 0):
                confirms = last is not None and last.state is PullOutcome.SUSPICIOUS_SHORT
                for each in lists:
                    # Lists of accounts are short: a missing one does not mean that it was cut.
                    is_sure = confirms or (each.kind.is_state and bool(each.records))
                    stored = select(*_KNOWN).where(_is_current(customer, each.kind))
                    known = [Known(*row) for row in connection.execute(stored)]
                    diff = compare(known, each.records, confirms=is_sure, old_before=old_before)
                    self._write(connection, pulled, each.kind, diff)
                    numbers = {each.value: len(getattr(diff, each)) for each in TransactionChange}
                    held = {"held": diff.held, "out_of_reach": diff.out_of_reach}
                    summary[each.kind.value] = {**each.summary, **numbers, **held}
                is_short = summary[kind.value]["held"]
                outcome = PullOutcome.SUSPICIOUS_SHORT if is_short else PullOutcome.PULLED
            done = pulled.model_copy(update={"state": outcome, "summary": summary})
            self.pulls.update(connection, [done], self._journal.clock())
        return done

    def _write(
        self, connection: Connection, pulled: Pulled, kind: PulledKind, diff: Difference
    ) -> None:
        now, seal = self._journal.clock(), self._journal.sealer.seal
        changed = [(each, _ADDED) for each in diff.added]
        changed += [(each, _MODIFIED) for _, each in diff.modified]
        rows = [
            {
                "customer": pulled.customer,
                "record_key": each.key,
                "content": each.content,
                "problem": each.problem,
                "occurred_at": each.occurred_at,
                "first_seen_at": now,
                "run_id": pulled.run_id,
                "told_as": change.value,
                "kind": kind.value,
                "sealed": seal(each.raw, TRANSACTION.context(pulled.customer, each.key)),
            }
            for each, change in changed
        ]
        ended = ((_MODIFIED, [known for known, _ in diff.modified]), (_REMOVED, diff.removed))
        for change, gone in ended:
            values = {"ended_at": now, "ended_as": change.value, "ended_by": pulled.run_id}
            for block in blocks([known.record_id for known in gone]):
                is_ended = _records.record_id.in_(block)
                connection.execute(update(transaction_records).where(is_ended).values(values))
        for start in range(0, len(rows), _BLOCK):
            connection.execute(insert(transaction_records), rows[start : start + _BLOCK])

    # --- reading records ---

    def versions_of_run(self, run_id: str, kind: PulledKind) -> Iterator[Version]:
        """Yield the versions of a kind that a run stored."""
        return self._versions((_records.run_id == run_id) & (_records.kind == kind.value))

    def of_customer(self, customer: bytes) -> Iterator[Version]:
        """Yield all stored versions of a customer's records."""
        return self._versions(_records.customer == customer)

    def current(self, customer: bytes, kind: PulledKind) -> Iterator[Version]:
        """Yield a customer's current records in the order in which they were stored."""
        return self._versions(_is_current(customer, kind))

    def _versions(self, condition: ColumnElement[bool]) -> Iterator[Version]:
        query = select(transaction_records).where(condition)
        for rows in self._journal.database.in_blocks(query, _records.record_id, size=_BLOCK):
            for row in rows:
                context = TRANSACTION.context(row.customer, row.record_key)
                yield row, self._journal.sealer.open(row.sealed, context)

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
        added=[each for key, each in current.items() if key not in previous],
        modified=[
            (previous[key], each)
            for key, each in current.items()
            if key in previous and previous[key].content != each.content
        ],
        removed=[] if held else within_reach,
        held=held,
        out_of_reach=out_of_reach,
    )


def _is_before(known: Known, instant: int | None) -> bool:
    return instant is not None and known.occurred_at is not None and known.occurred_at < instant
