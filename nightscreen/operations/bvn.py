"""BVN consent in two calls: the customer is sent a one-time password, which confirms the request.

A customer gets one request, a second one only with `again`. Consent is checked as for the ecosystem
lookup, when the file is read and again before sending. A call whose answer was lost is never
repeated automatically.

The service charges for the second call. A password comes from a file, or is typed under a link. It
is held in memory only, until it is sent: no issue, quarantine or repr contains one. A wrong
password is never sent again. Links are signed with a key of the journal, and not stored. A link
ends with its request, after a time limit, or after too many wrong passwords.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nightscreen.client import wire
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import FailureReason
from nightscreen.journal import journal_of
from nightscreen.journal.schema import records
from nightscreen.operations.bvn_table import BvnLine, requests_of, write_bvns
from nightscreen.operations.consent_links import read_signed, signed
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    P,
    Person,
    RecordRun,
    ReportParts,
    T,
    quote,
    single_call,
)
from nightscreen.planning.eligibility import consent_column, consent_ends
from nightscreen.reading.columns import meanings
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.intake import Intake, known_text
from nightscreen.schemas.answers import BvnStarted
from nightscreen.schemas.bvn import (
    OPEN_STATES,
    UNDER_WAY,
    BvnRequest,
    BvnState,
    ConfirmBvns,
    Doubt,
    RequestBvns,
)
from nightscreen.schemas.checks import NoAnswer, Operation, SubjectKind
from nightscreen.schemas.clock import span_micros, system_clock, to_instant
from nightscreen.schemas.columns import NAME_FIELDS, OTPS, Flaw
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import Action, Problem, RefusedRow, SourceColumn
from nightscreen.schemas.stops import TEST_MODE
from nightscreen.values.issues import bare_digits, is_absent, is_all_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import BvnConsent, Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.person_run import CallEnd
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.requests import Request

# --- how a call changes a request ---

_MASKS = frozenset("*•xX#")
_SHOWN_FIRST, _SHOWN_LAST = 4, 3  # characters of a phone number: `+234` and the last three digits
_AFTER_START = {
    FailureReason.UNREACHABLE.value: BvnState.UNREACHABLE,
    FailureReason.WRONG_CONTACT.value: BvnState.WRONG_CONTACT,
}
_AFTER_FINISH = {
    FailureReason.OTP_WRONG.value: BvnState.WRONG_OTP,
    FailureReason.OTP_EXPIRED.value: BvnState.EXPIRED,
    FailureReason.OTP_UNASKED.value: BvnState.EXPIRED,
}
"""A request's state by the reason why its call was refused."""


def after_start(request: BvnRequest, end: CallEnd | None) -> BvnRequest | None:
    """Return a request in the state `requested` after its first call; None if nothing was sent."""
    if end is None:
        return None
    contact = end.contact
    if end.body:  # it has the contact to which the password was sent
        answer = parse_answer(Operation.BVN_START, end.body)
        contact = answer.masked_contact if isinstance(answer, BvnStarted) else None
    ended: dict[str, Any] = {"masked_contact": masked(contact)}
    if end.is_answered:
        cost_micro = request.cost_micro + (end.cost_micro or 0)
        ended |= {"state": BvnState.AWAITING_OTP, "cost_micro": cost_micro}
    elif end.is_lost:
        ended = {"doubt": Doubt.START, "trouble": end.trouble}
    elif state := _AFTER_START.get(end.trouble or ""):
        ended |= {"state": state, "trouble": end.trouble, "settled_at": end.settled_at}
    else:
        return None
    return request.model_copy(update=ended)


def after_finish(request: BvnRequest, end: CallEnd | None) -> BvnRequest:
    """Return a request after its second call.

    Another password may be sent if this one was wrong, which is counted, or was not sent. A call
    whose answer was lost may have used the password up and been charged.
    """
    ended: dict[str, Any] = {"finishing": None}
    if end is not None:
        state = _AFTER_FINISH.get(end.trouble or "")
        ended["trouble"] = end.trouble
        if end.is_answered or end.is_lost or state:
            ended |= {"finish_run_id": request.finishing, "doubt": None}
        if end.is_answered:
            ended |= {"state": BvnState.CONFIRMED, "settled_at": end.settled_at}
            ended["cost_micro"] = request.cost_micro + (end.cost_micro or 0)
        elif end.is_lost:
            ended |= {"doubt": Doubt.FINISH, "attempts": request.attempts + 1}
        elif state:
            ended |= {"state": state, "settled_at": end.settled_at}
            ended["attempts"] = request.attempts + 1
    return request.model_copy(update=ended)


def masked(contact: str | None) -> str | None:
    """Return a contact as the service masked it; if the service did not, mask it here."""
    if contact is None or _MASKS & set(contact):
        return contact
    name, at, host = contact.partition("@")
    if at:
        return f"{name[:1]}***@{host}"
    return f"{contact[:_SHOWN_FIRST]}***{contact[-_SHOWN_LAST:]}"


def recover_requests(journal: Journal, settings: BvnConsent, run_id: str = "") -> None:
    """Recover calls whose process died, and abandon requests that have waited too long.

    Args:
        journal: where the requests are.
        settings: how long a request may wait.
        run_id: a run that is being resumed or closed: none of its calls is under way.
    """
    BvnRun.recover_dead_calls(journal, run_id)
    requests, now = requests_of(journal), journal.clock()
    waiting = records.c.state.in_([*OPEN_STATES, UNDER_WAY])
    asked_before = records.c.created_at < now - span_micros(settings.abandon_after)
    for each in requests.select(waiting, asked_before):
        if each.finishing is None:
            abandoned = {"state": BvnState.ABANDONED, "settled_at": now}
            requests.replace(each.model_copy(update=abandoned), each, now)


class BvnRun(RecordRun[P, T]):
    """A run of either stage: requests or confirmations."""

    kind = SubjectKind.BVN
    model, under_way = BvnRequest, UNDER_WAY

    @staticmethod
    def made_by(record: BvnRequest) -> tuple[str, Operation]:
        """Return the id of the run that makes the first or the second call, and which it is."""
        if record.finishing:
            return record.finishing, Operation.BVN_FINISH
        return record.run_id, Operation.BVN_START

    @staticmethod
    def after(_journal: Journal, end: CallEnd | None, record: BvnRequest) -> BvnRequest | None:
        """Return a request after its first or its second call."""
        return after_finish(record, end) if record.finishing else after_start(record, end)

    def recover(self) -> None:
        """Recover dead calls, those of this run included, and abandon old requests."""
        run = self.run
        recover_requests(run.journal, run.settings.bvn_consent, run.run_id)

    def consented(self, caller: Caller, request: BvnRequest, sent: Request) -> LookupTask:
        """Return a call about a request's BVN, under the customer's consent."""
        return caller.task(
            sent,
            kind=self.kind,
            subject=request.subject,
            consent_reference=request.consent_reference,
            consent_ends_at=request.consent_ends_at,
        )


# --- the first call ---

REPEATED = (
    "bvn_repeated",
    "Another row with this BVN is asked, and a second password would undo the first. Whose is it?",
)
SUPERSEDED = (
    "bvn_asked_elsewhere",
    "Another customer's request for this BVN is open, and a second password would undo it.",
)


@dataclass(slots=True, kw_only=True)
class Requested(Person):
    """One row of the file; its state is a `NoAnswer`, or empty if it has a request."""

    line: int
    customer_id: str
    draft: BvnRequest | None  # the request to make; None if none can be made for the row


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
    """Have the service send a one-time password to every customer of a file not asked before."""

    flow, name = "request_bvns", "request-bvns"
    form = RequestBvns
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
        run, now, names = self.run, self.run.clock(), self.run.journal.pseudonyms
        lawful = consent_column(rows, at=to_instant(now)).to_pylist()
        spans = zip(rows.to_pylist(), lawful, consent_ends(rows).tolist(), strict=True)
        for row, is_lawful, ends_at in spans:
            state, held = _judge(row, self.parameters.contact, lawful=is_lawful)
            person = Requested(
                line=row["line"],
                customer_id=row["customer_id"],
                customer=names.customers_anywhere([row["customer_id"]]),
                subject=b"" if held is None else names.subject(self.kind.value, held["bvn"]),
                draft=None,
                state=state,
            )
            if held is not None:
                person.draft = BvnRequest(
                    customer=person.customer,
                    subject=person.subject,
                    batch=run.batch,
                    run_id=run.run_id,
                    consent_reference=row["consent_reference"],
                    consent_ends_at=ends_at if is_lawful else now,
                    state=BvnState.REQUESTED,
                    at=now,
                    **held,
                )
            yield person

    def _choose(self, people: list[Requested]) -> Iterator[Problem]:
        """Leave pending only people without a request, and those who need a second one.

        A second request is made with `again`, or if the first was refused for its contact and the
        file now has another. A row's consent, ended or renewed, also updates its earlier request.
        Yields the problems of rows whose BVN another row or customer is being asked for.
        """
        again = self.parameters.again
        known = self.newest({each.customer for each in people})
        for each in people:
            draft, earlier = each.draft, known.get(each.customer)
            if draft is None or earlier is None or earlier.subject != each.subject:
                continue
            names = ("consent_reference", "consent_ends_at")
            renewed = earlier.model_copy(update={name: getattr(draft, name) for name in names})
            if renewed != earlier:
                self.records.put([renewed], self.run.clock())
            is_ours = earlier.run_id == self.run.run_id or earlier.finishing
            was_wrong = earlier.state is BvnState.WRONG_CONTACT
            corrected = was_wrong and draft.contact != earlier.contact
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

    def intent(self, person: Requested) -> BvnRequest | None:
        """Return the request, dated now."""
        return person.draft and person.draft.model_copy(update={"at": self.run.clock()})

    def call(self, caller: Caller, person: Requested) -> LookupTask:
        """Return the call that makes the service send a password."""
        request = person.record
        return self.consented(caller, request, wire.bvn_start(request.bvn, request.contact))

    def write(self) -> ReportParts:
        """Write the table of requests."""
        states = write_bvns(self.run, list(map(self._line, self.people)))
        waiting = states.get(BvnState.AWAITING_OTP, 0) + states.get(BvnState.REQUESTED, 0)
        return ReportParts(states, {"states": states}, {"to_come": self._to_come(waiting)})

    def _line(self, row: Requested) -> BvnLine:
        why, request = row.state or PENDING, row.record
        if why == PENDING and request is not None:
            why = ""
        elif why in {PENDING, FAILED} and self.run.stops.ending()[0] == TEST_MODE:
            why = NoAnswer.TEST_MODE.value
        link = None if request is None else link_for(self.run.journal, self.run.settings, request)
        return BvnLine(row.customer_id, self.run.batch, request, why, link)

    def quoted_more(self) -> dict[str, Any]:
        """Return the expected cost of the confirmations, which is where the service charges."""
        return {"to_come": self._to_come(len(self.due()))}

    def _to_come(self, calls: int) -> dict[str, str | None]:
        return quote(self.run, Operation.BVN_FINISH, self.kind, calls).in_naira()


def _judge(row: dict[str, Any], contact: str, *, lawful: bool) -> tuple[str, dict[str, Any] | None]:
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
    held = {name: row[name] for name in ("customer_id", "bvn", "date_of_birth", *NAME_FIELDS)}
    held |= {"contact": chosen, "phone": usable["phone"]}
    return PENDING if lawful else NoAnswer.REFUSED.value, held


# --- the second call ---

QUARANTINED = (SourceColumn("customer_id", "customer_id", "customer_id"),)
"""The quarantine of a file of passwords shows no other column: it might hold a password."""
BROKEN = "The row could not be split into the columns of the file; nothing was sent."
_ASK_AGAIN = "ask the customer again on purpose: bvn request --again."
HINTS = {
    "customer_id_missing": "The row has no customer_id; nothing was sent.",
    "otp_missing": "The row has no one-time password; nothing was sent. Leave customers out who "
    "supplied none.",
    "otp_malformed": "A one-time password has {digits} digits; nothing was sent. A spreadsheet may "
    "have taken leading zeros off: format the column as text. If the service's have another "
    "length, set NIGHTSCREEN_BVN_CONSENT__OTP_DIGITS.",
    "customer_id_repeated": "The customer is in the file more than once: which password is meant? "
    "Nothing was sent.",
    "no_request": "The customer was not asked for BVN consent: nightscreen bvn request; nothing "
    "was sent.",
    "consent_ended": "The customer's consent has expired or was withdrawn since; nothing was sent.",
    "already_tried": "This very file was tried before; the customer must supply another password.",
    "attempts_used_up": f"Too many wrong passwords; {_ASK_AGAIN}",
    "finish_in_doubt": "A password was sent and its answer lost: it may be used up and charged; "
    f"{_ASK_AGAIN}",
    "under_way": "Another process is sending this customer's password right now.",
    "already_confirmed": "The BVN is confirmed already; nothing was sent.",
    "request_expired": f"The password came too late; {_ASK_AGAIN}",
    "request_unreachable": "The customer could not be reached, so no password is valid; nothing "
    "was sent.",
    "request_wrong_contact": "The contact is not the registered one, so no password was sent; "
    "correct it, ask again.",
    "request_abandoned": f"The request waited too long; {_ASK_AGAIN}",
}
"""Why no password was sent for a row, and what to do, by code."""
_UNVERIFIED = {"no_request", "otp_malformed"}  # the columns may be swapped


@dataclass(frozen=True, slots=True)
class OtpRow:
    """A row of a file of passwords."""

    line: int
    customer_id: str
    otp: str | None = field(default=None, repr=False)
    code: str = ""  # why its password may not be sent
    column: str = "customer_id"  # the column at fault


@dataclass(slots=True, kw_only=True)
class SuppliedOtp(Person):
    """One customer's password, held in memory only and deleted once it was sent."""

    record: BvnRequest
    otp: str = field(repr=False)
    tries: int  # wrong passwords of the request when this one was accepted


class BvnConfirmations(BvnRun[ConfirmBvns, SuppliedOtp]):
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""

    flow, name = "confirm_bvns", "confirm-bvns"
    form = ConfirmBvns
    operation = Operation.BVN_FINISH

    _batches: set[str]  # the batch names of the customers' requests

    @classmethod
    def identify(cls, parameters: ConfirmBvns, settings: Settings) -> tuple[str, str]:
        """Return the batch name of the customers' requests, if it is one, and the file's digest.

        The digest is keyed: from a plain one the few digits of a password could be guessed. The
        file's own name is the batch name if the requests have several.
        """
        path, rows = Path(parameters.input), read_passwords(parameters, settings)
        with journal_of(settings) as journal:
            names = journal.pseudonyms
            customers = [names.customers_anywhere([row.customer_id]) for row in rows if row.otp]
            asked = {each.batch for each in requests_of(journal).newest(customers).values()}
            digest = names.subject("file of passwords", file_digest(path)).hex()
        return asked.pop() if len(asked) == 1 else batch_name(path), f"keyed:{digest}"

    def load_people(self) -> list[SuppliedOtp]:
        """Read the passwords into memory and check each customer's request; write quarantine."""
        run, rows = self.run, read_passwords(self.parameters, self.run.settings)
        name = run.journal.pseudonyms.customers_anywhere
        customers = {row.customer_id: name([row.customer_id]) for row in rows if row.otp}
        known = self.newest(customers.values())
        self._batches = {each.batch for each in known.values()}
        wrong = [each for each in known.values() if each.state is BvnState.WRONG_OTP]
        runs = map(run.journal.runs.find, {each.finish_run_id or "" for each in wrong})
        tried = {each.run_id for each in runs if each and each.input_digest == run.input_digest}
        people: list[SuppliedOtp] = []
        refused: list[RefusedRow] = []
        for row in rows:
            request, code = known.get(customers.get(row.customer_id, b"")), row.code
            if row.otp and request is None:
                code = "no_request"
            elif row.otp and request is not None:
                if request.finish_run_id == run.run_id and request.finishing is None:
                    continue  # an earlier session of the run has sent it
                code = refusal(request, run.settings.bvn_consent, run.clock())
                is_wrong = request.state is BvnState.WRONG_OTP
                if not code and is_wrong and request.finish_run_id in tried:
                    code = "already_tried"
                if not code:
                    people.append(supplied_otp(request, row.otp))
            if code:
                refused.append(self._refused(row, code))
        self.rows_read, self.rows_refused = len(rows), len(refused)
        with run.folder.findings(QUARANTINED) as write:
            write(refused, [each.problem for each in refused])
        return people

    def _refused(self, row: OtpRow, code: str) -> RefusedRow:
        """Return a refused row; an unverified customer_id that could be a password is not shown."""
        digits = self.run.settings.bvn_consent.otp_digits
        is_shown = code not in _UNVERIFIED or not tidy_otp(row.customer_id, digits)
        hint = HINTS.get(code, BROKEN).format(digits=digits)
        return RefusedRow(row.line, row.column, code, hint, (row.customer_id if is_shown else "",))

    def apply_record(self, person: SuppliedOtp, record: BvnRequest | None) -> None:
        """Update the request; no password is sent if it was erased or replaced by a new one."""
        is_same = record is not None and record.key == person.record.key
        if record is not None and is_same:
            person.record = record
        is_done = person.record.finish_run_id == self.run.run_id
        if person.state == PENDING and (is_done or not is_same):
            person.state = ""
        if person.state not in {PENDING, FAILED}:  # a failed call surely did not send it
            person.otp = ""

    def intent(self, person: SuppliedOtp) -> BvnRequest | None:
        """Mark the request as being confirmed, if it has not changed and may still be."""
        request = person.record
        code = refusal(request, self.run.settings.bvn_consent, self.run.clock())
        if code or request.attempts != person.tries:
            person.otp = ""
            return None
        return request.model_copy(update={"finishing": self.run.run_id})

    def call(self, caller: Caller, person: SuppliedOtp) -> LookupTask:
        """Return the call that sends the password; the password is not stored."""
        finish = wire.bvn_finish(person.record.bvn, person.otp)
        return self.consented(caller, person.record, finish)

    def discard_secrets(self) -> None:
        """Delete every password from memory."""
        for each in self.people:
            each.otp = ""

    def write(self) -> ReportParts:
        """Write the table of all customers of the requests' batch names.

        It also shows those who supplied no password.
        """
        asked = requests_of(self.run.journal).select(records.c.batch.in_(sorted(self._batches)))
        newest = {each.customer: each for each in asked}.values()
        lines = [BvnLine(each.customer_id, each.batch, each) for each in newest]
        states = write_bvns(self.run, lines)
        return ReportParts(states, {"states": states})


def supplied_otp(request: BvnRequest, otp: str) -> SuppliedOtp:
    """Return a password to send for a request."""
    return SuppliedOtp(
        subject=request.subject,
        customer=request.customer,
        record=request,
        otp=otp,
        tries=request.attempts,
    )


def refusal(request: BvnRequest, settings: BvnConsent, now: int) -> str:
    """Return the code of why a request's password may not be sent; empty if it may."""
    if request.state is BvnState.CONFIRMED:
        return "already_confirmed"
    if request.state not in OPEN_STATES:
        return f"request_{request.state}"
    if request.doubt is Doubt.FINISH:
        return "finish_in_doubt"
    if request.finishing or (request.state is BvnState.REQUESTED and request.doubt is None):
        return "under_way"
    if request.attempts >= settings.otp_attempts:
        return "attempts_used_up"
    return "consent_ended" if now >= request.consent_ends_at else ""


# --- the file ---


def tidy_otp(text: str, digits: int) -> str | None:
    """Return a password without blanks, dashes and spreadsheet marks; None if malformed."""
    bare = bare_digits(text)
    return bare if len(bare) == digits and is_all_digits(bare) else None


def read_passwords(parameters: ConfirmBvns, settings: Settings) -> list[OtpRow]:
    """Read the columns `customer_id` and `otp` of a file of passwords; others are ignored.

    Raises:
        InputError: no file was named, or it cannot be read or lacks a column.
    """
    if not parameters.input:
        raise InputError(
            "no input file was given; name a CSV, XLSX or Parquet file with customer_id,otp"
        )
    source = open_source(Path(parameters.input), kind=OTPS)
    columns_of_otps = sum("otp" in meanings(each.heading, OTPS) for each in source.header.columns)
    if columns_of_otps != 1:
        trouble = "more than one column of passwords" if columns_of_otps else "no column otp"
        raise InputError(f"{source.path}: {trouble}; the file needs customer_id,otp")
    given: list[tuple[int, str | None, str | None]] = []
    rows: list[OtpRow] = []
    for batch in source.batches():
        columns = known_text(batch.columns, source.header, OTPS.columns)
        given += zip(
            batch.lines, *(columns[name].to_pylist() for name in OTPS.columns), strict=True
        )
        rows += [OtpRow(each.line, "", None, each.code, each.column) for each in batch.broken]
    number = Counter(customer_id for _, customer_id, _ in given)
    for line, customer_id, text in given:
        otp = tidy_otp(text or "", settings.bvn_consent.otp_digits)
        if customer_id is None or number[customer_id] > 1:
            code = "customer_id_repeated" if customer_id else "customer_id_missing"
            rows.append(OtpRow(line, customer_id or "", None, code))
        elif otp is None:
            is_missing = not text or is_absent(bare_digits(text))
            code = "otp_missing" if is_missing else "otp_malformed"
            rows.append(OtpRow(line, customer_id, None, code, "otp"))
        else:
            rows.append(OtpRow(line, customer_id, otp))
    return sorted(rows, key=lambda row: row.line)


# --- links where customers type their passwords themselves ---

PATH = "/otp/"  # the page's path on the portal; the token follows
_LINK = "bvn request"  # the purpose for which a link's token is signed


class OtpLinkState(StrEnum):
    """The state of a link, or the result of a password typed under it."""

    OPEN = "open"  # the customer may type a password
    CONFIRMED = "confirmed"
    WRONG_OTP = "wrong_otp"
    MALFORMED = "malformed"  # it cannot be a password; nothing was sent, the attempt is not counted
    EXPIRED = "expired"  # the password or the request is too old, or the service has no request
    CLOSED = "closed"  # there is no such link, it has been used, or too many passwords were wrong
    BUSY = "busy"  # a password is being sent right now
    IN_DOUBT = "in_doubt"  # the password was sent and its answer lost: it is not sent again
    UNAVAILABLE = "unavailable"
    """Nothing was sent: the service is unavailable or a cap of the lender is reached; try later."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """What a page may show about a link; it does not identify the customer."""

    state: OtpLinkState
    # where the service sent the password; None if that must not be shown
    masked_contact: str | None = None
    attempts_left: int = 0  # passwords that may still be tried


_STATE_OF_REFUSAL = {
    "already_confirmed": OtpLinkState.CONFIRMED,
    "request_expired": OtpLinkState.EXPIRED,
    "request_abandoned": OtpLinkState.EXPIRED,
    "finish_in_doubt": OtpLinkState.IN_DOUBT,
    "under_way": OtpLinkState.BUSY,
}
"""The link's state by the code of `refusal`; `CLOSED` for any other code."""


def link_for(journal: Journal, settings: Settings, request: BvnRequest) -> str:
    """Return a request's link: an address on the portal, or its path if no host is configured."""
    parts = urlsplit(settings.portal_url or settings.redirect_uri)
    host = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return f"{host}{PATH}{signed(journal, _LINK, request.key)}"


def resolve_link(journal: Journal, settings: Settings, token: str) -> LinkView:
    """Return the current state of a link; nothing is sent."""
    return _resolve(journal, settings, token)[1]


def _resolve(
    journal: Journal, settings: Settings, token: str
) -> tuple[BvnRequest | None, LinkView]:
    """Return a link's request, too; None if the token is invalid or the request is not current."""
    key, requests = read_signed(journal, _LINK, token), requests_of(journal)
    request = None if key is None else requests.find(key)
    newest = {} if request is None else requests.newest([request.customer])
    if request is None or key not in {each.key for each in newest.values()}:
        return None, LinkView(OtpLinkState.CLOSED)
    return request, view(request, settings, journal.clock())


def view(request: BvnRequest, settings: Settings, now: int) -> LinkView:
    """Return the state of a request's link at an instant in microseconds."""
    limits = settings.bvn_consent
    contact = request.masked_contact
    left = max(0, limits.otp_attempts - request.attempts)
    state = OtpLinkState.WRONG_OTP if request.state is BvnState.WRONG_OTP else OtpLinkState.OPEN
    if code := refusal(request, limits, now):
        state = _STATE_OF_REFUSAL.get(code, OtpLinkState.CLOSED)
    if request.is_open and now - request.at >= span_micros(limits.abandon_after):
        state = OtpLinkState.EXPIRED
    is_shown = state in {OtpLinkState.OPEN, OtpLinkState.WRONG_OTP, OtpLinkState.BUSY}
    return LinkView(state, contact, left) if is_shown else LinkView(state)


async def accept_otp(
    settings: Settings,
    token: str,
    otp: str,
    *,
    clock: Clock = system_clock,
    transport: Transport | None = None,
) -> LinkView:
    """Send a password that a customer typed under their link, and return the link's new state.

    The password is not stored. The call is saved in the journal before it is sent and counts
    against every cap. Of two passwords sent at a time under one link, one is used.

    Raises:
        UsageError: the settings are wrong.
        JournalError: the journal cannot be used; nothing was sent, or what was sent is in doubt.
    """

    def resolve_first() -> tuple[BvnRequest | None, LinkView]:
        # before a run is opened, so that an invalid link costs nothing
        with journal_of(settings, clock=clock) as journal:
            recover_requests(journal, settings.bvn_consent)
            return _resolve(journal, settings, token)

    request, before = await asyncio.to_thread(resolve_first)
    if request is None or before.state not in {OtpLinkState.OPEN, OtpLinkState.WRONG_OTP}:
        return before
    digits = tidy_otp(otp, settings.bvn_consent.otp_digits)
    if digits is None:
        return LinkView(OtpLinkState.MALFORMED, before.masked_contact, before.attempts_left)
    operation = Operation.BVN_FINISH
    async with single_call(settings, operation, clock=clock, transport=transport) as caller:
        confirmations = BvnConfirmations(caller.run, ConfirmBvns())
        supplied = supplied_otp(request, digits)
        await confirmations.ask_person(caller, supplied)
    if supplied.task is None:
        return LinkView(OtpLinkState.BUSY, request.masked_contact)
    if supplied.state in {PENDING, FAILED}:
        return LinkView(OtpLinkState.UNAVAILABLE, request.masked_contact)
    return view(supplied.record, settings, clock())
