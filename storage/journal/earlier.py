"""Stores of earlier versions that are kinds of records now: how their rows become records.

A row is opened as the version that wrote it sealed it, and sealed anew as a record. The old table
goes with the step. Which version a step leads to is in `migrations`.
"""

from __future__ import annotations

import json
import secrets
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import MetaData, Table, insert, inspect, select

from nightscreen.schemas.bvn import BvnRequest, HeldCustomer
from nightscreen.schemas.contests import Review
from nightscreen.schemas.errors import JournalDamagedError, JournalError
from nightscreen.schemas.offers import HeldOffer, LoanNews, LoanSnapshot, Offer
from nightscreen.schemas.records import RecordKind
from nightscreen.storage.journal.records import make_records, record_row, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from nightscreen.schemas.records import JournalRecord
    from nightscreen.storage.sealing import Sealer

_BLOCK = 500


class Store(NamedTuple):
    """A table of an earlier version.

    Attributes:
        name: the table's.
        bound_to: what its sealed column is bound to, before the customer.
        kind: of the records that its rows become.
        at: its column with the instant at which a row was made.
        record: makes the record of a row and of what was sealed in it.
    """

    name: str
    bound_to: bytes
    kind: RecordKind
    at: str
    record: Callable[[Mapping[str, Any], Any], JournalRecord]

    def move(self, connection: Connection, sealer: Sealer | None) -> None:
        """Make records of all rows and drop the table; nothing is done where there is none."""
        make_records(connection)
        if not inspect(connection).has_table(self.name):
            return
        table = Table(self.name, MetaData(), autoload_with=connection)
        query = select(table).order_by(*table.primary_key.columns)
        result = connection.execute(query, execution_options={"yield_per": _BLOCK})
        for rows in result.mappings().partitions():
            if sealer is None:
                raise JournalError("the journal's data key is needed to bring it up")
            connection.execute(insert(records), [self._moved(dict(row), sealer) for row in rows])
        table.drop(connection)

    def _moved(self, row: dict[str, Any], sealer: Sealer) -> dict[str, Any]:
        sealed = bytes(row.pop("sealed"))
        try:
            held = json.loads(sealer.open(sealed, self.bound_to + bytes(row["customer"])))
        except JournalDamagedError:
            return self._unopened(row, sealed)
        record = self.record(row, held)
        return record_row(record, sealer, record.at)

    def _unopened(self, row: Mapping[str, Any], sealed: bytes) -> dict[str, Any]:
        """Return a damaged row as a record that does not open, either.

        `journal verify` names it, and an erasure of its customer removes it.
        """
        at = row[self.at]
        return {
            "kind": self.kind.value,
            "key": f"damaged-{self.name}-{at}-{secrets.token_hex(4)}",
            "customer": bytes(row["customer"]),
            "subject": None,
            "batch": row.get("batch", ""),
            "run_id": row.get("run_id", ""),
            "state": "",
            "created_at": at,
            "updated_at": at,
            "sealed": sealed,
        }


def _review(row: Mapping[str, Any], held: list[str]) -> Review:
    reviewer, note = held
    names = ("customer", "batch", "run_id", "listed", "decision", "reviewed_at", "until")
    return Review(
        key=str(row["review_id"]),
        at=row["imported_at"],
        reviewer=reviewer,
        note=note,
        evidence=bytes(row["evidence"]),
        **{name: row[name] for name in names},
    )


REVIEWS = Store("reviews", b"review\x1f", RecordKind.REVIEW, "imported_at", _review)


def _offer(row: Mapping[str, Any], held: dict[str, Any]) -> Offer:
    known = {name: value for name, value in row.items() if name in Offer.model_fields}
    return Offer(
        **known,
        subject=bytes(row["offer_id"]),
        at=row["started_at"],
        held=HeldOffer(**{**held, "seen": _snapshot(held["seen"])}),
    )


def _news(row: Mapping[str, Any], held: list[dict[str, Any]]) -> LoanNews:
    now, before = held
    return LoanNews(
        subject=bytes(row["offer_id"]),
        customer=bytes(row["customer"]),
        run_id=row["run_id"],
        at=row["seen_at"],
        now=LoanSnapshot(**now),
        before=_snapshot(before),
        before_at=row["before_at"],
    )


def _snapshot(seen: dict[str, Any] | None) -> LoanSnapshot | None:
    return None if seen is None else LoanSnapshot(**seen)


LOAN_OFFERS = Store("loan_offers", b"loan offer\x1f", RecordKind.OFFER, "started_at", _offer)
LOAN_HISTORY = Store("loan_history", b"loan news\x1f", RecordKind.LOAN_NEWS, "seen_at", _news)


def _bvn_request(row: Mapping[str, Any], held: dict[str, Any]) -> BvnRequest:
    born = held.pop("date_of_birth")
    known = {name: value for name, value in row.items() if name in BvnRequest.model_fields}
    return BvnRequest(
        **known,
        key=bytes(row["request_id"]).hex(),
        at=row["requested_at"],
        held=HeldCustomer(**held, date_of_birth=born and date.fromisoformat(born)),
    )


BVN_REQUESTS = Store(
    "bvn_requests", b"bvn request\x1f", RecordKind.BVN_REQUEST, "requested_at", _bvn_request
)
