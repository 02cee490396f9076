"""Asking for BVN consent: which customers of a file are sent a one-time password.

A customer is asked once; again only on purpose. Consent is judged as for the ecosystem lookup, when
the file is read and again before sending.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.client import wire
from nightscreen.files.outputs import QUARANTINE
from nightscreen.files.quarantine import QuarantineWriter
from nightscreen.operations.bvn.links import link_for
from nightscreen.operations.bvn.states import BvnRun, after_call, newest
from nightscreen.operations.bvn.table import BvnRecord, write_bvns
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Account,
    Person,
    keep,
    quote,
    quote_text,
    write_problems,
)
from nightscreen.planning.consent import consent_column, consent_ends
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.intake import Intake
from nightscreen.schemas.bvn import OPEN_STATES, BvnRequest, BvnState, HeldCustomer, RequestBvns
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import NoAnswer, Operation
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import Action, Problem
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.reading.open_file import TableSource

REPEATED = (
    "bvn_repeated",
    "Another row with this BVN is asked, and a second password would undo the first. Whose is it?",
)
SUPERSEDED = (
    "bvn_asked_elsewhere",
    "Another customer's request for this BVN is open, and a second password would undo it.",
)
_NAMES = ("first_name", "middle_name", "last_name", "full_name")
_REFUSED = NoAnswer.REFUSED.value
_WORDS = {
    LookupStatus.WAITING: PENDING,
    LookupStatus.FAILED: FAILED,
    LookupStatus.LAPSED: _REFUSED,
}
"""Of whoever has no request after a call."""


@dataclass(slots=True, kw_only=True)
class Requested(Person):
    """One row of the file; its word is a `NoAnswer`, or empty where it has a request."""

    line: int
    customer_id: str
    customer: bytes
    consent_reference: str | None
    consent_ends_at: int
    # what the request would hold; None if no request can be made for the row
    held: HeldCustomer | None = field(repr=False)
    request: BvnRequest | None = None  # the request that counts for the row


def open_customers(parameters: RequestBvns) -> TableSource:
    """Open the file of customers.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    if not parameters.input:
        raise InputError("no input file was given; name a CSV, XLSX or Parquet file of customers")
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    return open_source(Path(parameters.input), mapping=mapping)


class BvnRequests(BvnRun[RequestBvns, Requested]):
    """A run that has the service send customers a one-time password."""

    flow, name = "request_bvns", "request-bvns"
    operation = Operation.BVN_START

    def __init__(self, run: Run, parameters: RequestBvns) -> None:
        super().__init__(run, parameters)
        self._problems: list[Problem] = []

    @classmethod
    def identify(cls, parameters: RequestBvns, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - as of every kind
        """Return the batch name and the digest of the file."""
        path = open_customers(parameters).path
        return parameters.batch or batch_name(path), file_digest(path)

    def find(self) -> list[Requested]:
        """Read the customers; write quarantine; judge eligibility and consent of each row."""
        run, source = self.run, open_customers(self.parameters)
        orders = DateOrders(source, run.journal.runs.date_order(run.batch))
        intake = Intake(source.header, orders=orders)
        found: list[Requested] = []
        with QuarantineWriter(run.folder.path / QUARANTINE, source.header.columns) as quarantine:
            for batch in source.batches():
                result = intake.take(batch)
                quarantine.write(result.refused)
                self._problems += result.problems
                self.rows_read += result.read
                self.rows_refused += len(result.refused)
                found += self._taken(result.rows)
        run.folder.rows[QUARANTINE] = self.rows_refused
        self._choose(found)
        return found

    def _taken(self, rows: pa.RecordBatch) -> Iterator[Requested]:
        if not rows.num_rows:
            return
        now, pseudonyms = self.run.clock(), self.run.journal.pseudonyms
        lawful = consent_column(rows, at=to_instant(now)).to_pylist()
        ends = consent_ends(rows).tolist()
        for index, row in enumerate(rows.to_pylist()):
            word, held = _judge(row, self.parameters.contact, lawful=lawful[index])
            bvn = None if held is None else held.bvn
            yield Requested(
                line=row["line"],
                customer_id=row["customer_id"],
                customer=pseudonyms.customers_anywhere([row["customer_id"]]),
                subject=b"" if bvn is None else pseudonyms.subject(self.kind.value, bvn),
                consent_reference=row["consent_reference"],
                consent_ends_at=ends[index] if lawful[index] else now,
                held=held,
                word=word,
            )

    def _choose(self, found: list[Requested]) -> None:
        """Leave a request to be made only where none was, or where another is wanted on purpose.

        A row whose consent has ended or been renewed passes that on to its earlier request. One
        that was refused for its contact is made again where the file has another by now.
        """
        again = self.parameters.again
        known = newest(self.run.journal, {each.customer for each in found})
        for each in found:
            earlier = known.get(each.customer)
            if earlier is None or each.held is None or earlier.subject != each.subject:
                continue
            each.request = self._consent_passed_on(earlier, each)
            is_ours = earlier.run_id == self.run.run_id or earlier.finishing
            corrected = (
                earlier.state is BvnState.WRONG_CONTACT
                and each.held.contact != earlier.held.contact
            )
            if not is_ours and (again or corrected):
                each.request = None
        wanted = [each for each in found if each.word == PENDING and each.request is None]
        subjects = self.requests.of_subjects({each.subject for each in wanted})
        others = {each.subject: each.customer for each in subjects if each.state in OPEN_STATES}
        taken: dict[bytes, bytes] = {}
        for each in wanted:
            finding = None
            if taken.setdefault(each.subject, each.customer) != each.customer:
                finding = REPEATED
            elif not again and others.get(each.subject, each.customer) != each.customer:
                finding = SUPERSEDED
            if finding is not None:
                each.word = NoAnswer.INELIGIBLE.value
                self._problems.append(Problem(each.line, "bvn", *finding, Action.INVALID))
        for each in found:
            if each.word == PENDING and each.request is not None:
                each.word = ""

    def _consent_passed_on(self, earlier: BvnRequest, row: Requested) -> BvnRequest:
        names = ("consent_reference", "consent_ends_at")
        fresh = earlier.model_copy(update={name: getattr(row, name) for name in names})
        if fresh != earlier:
            self.requests.put([fresh], self.run.clock())
        return fresh

    def begin(self, person: Requested) -> bool:
        """Write a new request down."""
        if person.held is None:
            raise ValueError("a row that cannot be asked has no request")
        person.request = BvnRequest(
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
        self.requests.add([person.request])
        return True

    def call(self, caller: Caller, person: Requested) -> LookupTask:
        """Return the call that has a password sent."""
        assert person.held is not None  # noqa: S101 - begun in the lines above
        return caller.task(
            wire.bvn_start(person.held.bvn, person.held.contact),
            kind=self.kind,
            subject=person.subject,
            consent_reference=person.consent_reference,
            consent_ends_at=person.consent_ends_at,
        )

    def learn(self, person: Requested, end: CallEnd | None) -> None:
        """Write down what came of a call; a request for which nothing was sent is forgotten."""
        assert person.request is not None  # noqa: S101 - begun in the lines above
        person.request = keep(self.requests, person.request, end, after_call, self.run.clock())
        if person.request is not None:
            self.moved.append((person.request, ""))
            person.word = ""
        elif person.task is not None:
            person.word = _WORDS.get(person.task.status, "")

    def look_again(self) -> None:
        """Read again the requests that may have been settled after a cancellation."""
        known = newest(self.run.journal, {each.customer for each in self.people})
        for each in self.people:
            request = known.get(each.customer)
            if request is not None and request.subject != each.subject:
                request = None
            if each.word == PENDING and request is not None:
                if request.run_id != self.run.run_id:
                    continue  # another is to be made
                each.word = ""
            each.request = request

    def write(self) -> Account:
        """Write the table of requests, the findings, and what moved."""
        write_problems(self.run.folder, self._problems)
        known = newest(self.run.journal, {each.customer for each in self.people})
        lines = [self._line(each, known.get(each.customer)) for each in self.people]
        states, changes = write_bvns(self.run, lines, self.moved)
        waiting = states.get(BvnState.AWAITING_OTP, 0) + states.get(BvnState.REQUESTED, 0)
        more = {"states": states, "changes": changes}
        return Account({self.operation: states}, more, {"to_come": self._to_come(waiting)})

    def _line(self, row: Requested, request: BvnRequest | None) -> BvnRecord:
        if request is not None and request.subject != row.subject:
            request = None
        word = row.word or PENDING
        if word == PENDING and request is not None:
            word = ""
        elif word in {PENDING, FAILED} and self.run.stops.ending()[0] == TEST_MODE:
            word = NoAnswer.TEST_MODE.value
        link = None if request is None else link_for(self.run.journal, self.run.settings, request)
        return BvnRecord(row.customer_id, self.run.batch, word, request, link)

    def quoted_more(self) -> dict[str, Any]:
        """Return what confirming would cost after it: the charge falls there."""
        return {"to_come": self._to_come(len(self.due()))}

    def _to_come(self, calls: int) -> dict[str, str | None]:
        return quote_text(quote(self.run, Operation.BVN_FINISH, self.kind, calls))


def _judge(row: dict[str, Any], contact: str, *, lawful: bool) -> tuple[str, HeldCustomer | None]:
    """Return why a row cannot be asked, the first reason that applies, and what is held of it."""
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
        **{name: row[name] for name in _NAMES},
    )
    return PENDING if lawful else _REFUSED, held
