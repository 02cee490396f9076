"""Requesting BVN consent: which customers of a file are sent a one-time password.

A customer gets one request, a second one only with `again`. Consent is checked as for the ecosystem
lookup, when the file is read and again before sending.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.client import wire
from nightscreen.operations.bvn.confirmations import link_for
from nightscreen.operations.bvn.states import BvnRecord, BvnRun, write_bvns
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Recorded,
    ReportParts,
    quote,
)
from nightscreen.planning.eligibility import consent_column, consent_ends
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.intake import Intake
from nightscreen.schemas.bvn import OPEN_STATES, BvnRequest, BvnState, HeldCustomer, RequestBvns
from nightscreen.schemas.checks import NoAnswer, Operation
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import NAME_FIELDS, Flaw
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import Action, Problem
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.config.settings import Settings
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.rows import RefusedRow

REPEATED = (
    "bvn_repeated",
    "Another row with this BVN is asked, and a second password would undo the first. Whose is it?",
)
SUPERSEDED = (
    "bvn_asked_elsewhere",
    "Another customer's request for this BVN is open, and a second password would undo it.",
)
_REFUSED = NoAnswer.REFUSED.value


@dataclass(slots=True, kw_only=True)
class Requested(Recorded):
    """One row of the file; its state is a `NoAnswer`, or empty if it has a request."""

    line: int
    customer_id: str
    consent_reference: str | None
    consent_ends_at: int
    # the request's data; None if no request can be made for the row
    held: HeldCustomer | None = field(repr=False)


def open_customers(parameters: RequestBvns) -> TableSource:
    """Open the file of customers.

    Raises:
        InputError: no file was named, or it cannot be read.
    """
    if not parameters.input:
        raise InputError("no input file was given; name a CSV, XLSX or Parquet file of customers")
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    return open_source(Path(parameters.input), mapping=mapping)


class BvnRequests(BvnRun[RequestBvns, Requested]):
    """A run that makes the service send each customer a one-time password."""

    flow, name = "request_bvns", "request-bvns"
    operation = Operation.BVN_START

    @classmethod
    def identify(cls, parameters: RequestBvns, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - as of every kind
        """Return the batch name and the digest of the file."""
        path = open_customers(parameters).path
        return parameters.batch or batch_name(path), file_digest(path)

    def load_people(self) -> list[Requested]:
        """Read the customers; write quarantine; check eligibility and consent of each row."""
        run, source = self.run, open_customers(self.parameters)
        orders = DateOrders(source, run.journal.runs.date_order(run.batch))
        intake = Intake(source.header, orders=orders)
        people: list[Requested] = []
        refused: list[RefusedRow] = []
        problems: list[Problem] = []
        for batch in source.batches():
            result = intake.take(batch)
            refused += result.refused
            problems += result.problems
            people += self._people(result.rows)
        self.rows_read, self.rows_refused = len(people) + len(refused), len(refused)
        problems += self._choose(people)
        with run.folder.findings(source.header.columns) as write:
            write(refused, sorted(problems, key=lambda problem: problem.line))
        return people

    def _people(self, rows: pa.RecordBatch) -> Iterator[Requested]:
        if not rows.num_rows:
            return
        now, pseudonyms = self.run.clock(), self.run.journal.pseudonyms
        lawful = consent_column(rows, at=to_instant(now)).to_pylist()
        ends = consent_ends(rows).tolist()
        for index, row in enumerate(rows.to_pylist()):
            state, held = _judge(row, self.parameters.contact, lawful=lawful[index])
            yield Requested(
                line=row["line"],
                customer_id=row["customer_id"],
                customer=pseudonyms.customers_anywhere([row["customer_id"]]),
                subject=b"" if held is None else pseudonyms.subject(self.kind.value, held.bvn),
                consent_reference=row["consent_reference"],
                consent_ends_at=ends[index] if lawful[index] else now,
                held=held,
                state=state,
            )

    def _choose(self, people: list[Requested]) -> Iterator[Problem]:
        """Leave pending only people without a request, and those who need a second one.

        A second request is made with `again`, or if the first was refused for its contact and the
        file now has another. A row's consent, ended or renewed, also updates its earlier request.
        Yields the problems of rows whose BVN another row or customer is being asked for.
        """
        again = self.parameters.again
        known = self.newest({each.customer for each in people})
        for each in people:
            earlier = known.get(each.customer)
            if earlier is None or each.held is None or earlier.subject != each.subject:
                continue
            consent = {
                name: getattr(each, name) for name in ("consent_reference", "consent_ends_at")
            }
            if (renewed := earlier.model_copy(update=consent)) != earlier:
                self.records.put([renewed], self.run.clock())
            is_ours = earlier.run_id == self.run.run_id or earlier.finishing
            was_wrong = earlier.state is BvnState.WRONG_CONTACT
            corrected = was_wrong and each.held.contact != earlier.held.contact
            if each.state == PENDING and (is_ours or not (again or corrected)):
                each.state = ""
        pending = [each for each in people if each.state == PENDING]
        requests = self.records.of_subjects({each.subject for each in pending})
        open_elsewhere = {
            each.subject: each.customer for each in requests if each.state in OPEN_STATES
        }
        first_in_file: dict[bytes, bytes] = {}
        for each in pending:
            problem = None
            if first_in_file.setdefault(each.subject, each.customer) != each.customer:
                problem = REPEATED
            elif not again and open_elsewhere.get(each.subject, each.customer) != each.customer:
                problem = SUPERSEDED
            if problem is not None:
                each.state = NoAnswer.INELIGIBLE.value
                yield Problem(each.line, "bvn", *problem, Action.INVALID)

    def apply_record(self, person: Requested, record: BvnRequest | None) -> None:
        """Set the newest request for the row's BVN; a request of this run is not repeated."""
        if record is not None and record.subject != person.subject:
            record = None
        person.record = record
        if person.state == PENDING and record is not None and record.run_id == self.run.run_id:
            person.state = ""

    def intent(self, person: Requested) -> BvnRequest:
        """Return a new request."""
        assert person.held is not None  # noqa: S101 - a row that cannot be asked is not pending
        return BvnRequest(
            customer=person.customer,
            subject=person.subject,
            batch=self.run.batch,
            run_id=self.run.run_id,
            consent_reference=person.consent_reference,
            consent_ends_at=person.consent_ends_at,
            state=BvnState.REQUESTED,
            at=self.run.clock(),
            held=person.held,
        )

    def call(self, caller: Caller, person: Requested) -> LookupTask:
        """Return the call that makes the service send a password."""
        held = person.record.held
        return self.consented(caller, person.record, wire.bvn_start(held.bvn, held.contact))

    def write(self) -> ReportParts:
        """Write the table of requests."""
        states = write_bvns(self.run, list(map(self._line, self.people)))
        waiting = states.get(BvnState.AWAITING_OTP, 0) + states.get(BvnState.REQUESTED, 0)
        return ReportParts(states, {"states": states}, {"to_come": self._to_come(waiting)})

    def _line(self, row: Requested) -> BvnRecord:
        why, request = row.state or PENDING, row.record
        if why == PENDING and request is not None:
            why = ""
        elif why in {PENDING, FAILED} and self.run.stops.ending()[0] == TEST_MODE:
            why = NoAnswer.TEST_MODE.value
        link = None if request is None else link_for(self.run.journal, self.run.settings, request)
        return BvnRecord(row.customer_id, self.run.batch, why, request, link)

    def quoted_more(self) -> dict[str, Any]:
        """Return the expected cost of the confirmations, which is where the service charges."""
        return {"to_come": self._to_come(len(self.due()))}

    def _to_come(self, calls: int) -> dict[str, str | None]:
        return quote(self.run, Operation.BVN_FINISH, self.kind, calls).in_naira()


def _judge(row: dict[str, Any], contact: str, *, lawful: bool) -> tuple[str, HeldCustomer | None]:
    """Return a row's state, `PENDING` or the first reason against a request, and its data."""
    usable = {
        "phone": None if row["flaws"] & Flaw.PHONE else row["phone"],
        "email": None if row["flaws"] & Flaw.EMAIL else row["email"],
    }
    first, second = (contact, "email" if contact == "phone" else "phone")
    chosen = usable[first] or usable[second]
    if not row["bvn"] or not (row["phone"] or row["email"]):
        return NoAnswer.INELIGIBLE.value, None
    if row["flaws"] & Flaw.BVN or not chosen:
        return NoAnswer.INVALID.value, None
    held = HeldCustomer(
        customer_id=row["customer_id"],
        bvn=row["bvn"],
        contact=chosen,
        phone=usable["phone"],
        date_of_birth=row["date_of_birth"],
        **{name: row[name] for name in NAME_FIELDS},
    )
    return PENDING if lawful else _REFUSED, held
