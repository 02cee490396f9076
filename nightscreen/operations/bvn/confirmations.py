"""Confirming BVN consent: send the service one-time passwords from a file or typed under a link.

The service charges for this call. A password is held in memory only, until it is sent: no issue,
quarantine or repr contains one. A wrong password, or one whose answer was lost, is never sent again
automatically. Links are signed with a key of the journal, and not stored. A link ends with its
request, after a time limit, or after too many wrong passwords.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nightscreen.client import wire
from nightscreen.journal import journal_of
from nightscreen.operations.bvn.states import (
    BvnRun,
    lines_of,
    recover_requests,
    requests_of,
    write_bvns,
)
from nightscreen.operations.consents.links import read_signed, signed
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Recorded,
    ReportParts,
    single_call,
)
from nightscreen.reading.columns import fold
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.schemas.bvn import BvnRequest, BvnState, ConfirmBvns, Doubt
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import span_micros, system_clock
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import RefusedRow, SourceColumn
from nightscreen.values.issues import bare_digits, is_absent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import BvnConsent, Settings
    from nightscreen.journal import Journal
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.clock import Clock

OTP_HEADINGS = frozenset(
    {"otp", "otpcode", "otps", "onetimepassword", "onetimepasscode", "onetimepin", "passcode"}
)
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
_ENDED = {
    BvnState.CONFIRMED: "already_confirmed",
    BvnState.EXPIRED: "request_expired",
    BvnState.UNREACHABLE: "request_unreachable",
    BvnState.WRONG_CONTACT: "request_wrong_contact",
    BvnState.ABANDONED: "request_abandoned",
}
_DIGITS = re.compile(r"[0-9]+")


@dataclass(slots=True)
class OtpFile:
    """The contents of a file of passwords: rows that can be sent, and refused rows."""

    digits: int  # length of a password
    # line and password by customer_id
    supplied: dict[str, tuple[int, str]] = field(default_factory=dict, repr=False)
    refused: list[RefusedRow] = field(default_factory=list)

    def refuse(self, line: int, customer_id: str, column: str, code: str) -> None:
        """Refuse a row."""
        hint = HINTS.get(code, BROKEN).format(digits=self.digits)
        self.refused.append(RefusedRow(line, column, code, hint, (customer_id,)))

    def shown(self, customer_id: str) -> str:
        """Return an unverified customer_id for the quarantine, empty if it could be a password."""
        return "" if tidy_otp(customer_id, self.digits) else customer_id


@dataclass(slots=True, kw_only=True)
class SuppliedOtp(Recorded):
    """One customer's password, held in memory only and deleted once it was sent."""

    record: BvnRequest
    otp: str = field(repr=False)
    tries: int  # wrong passwords of the request when this one was accepted


class BvnConfirmations(BvnRun[ConfirmBvns, SuppliedOtp]):
    """A run that sends the service the passwords of a file."""

    flow, name = "confirm_bvns", "confirm-bvns"
    operation = Operation.BVN_FINISH

    _batches: set[str]  # the batch names of the customers' requests

    @classmethod
    def identify(cls, parameters: ConfirmBvns, settings: Settings) -> tuple[str, str]:
        """Return the batch name of the customers' requests, if it is one, and the file's digest.

        The digest is keyed: from a plain one the few digits of a password could be guessed. The
        file's own name is the batch name if the requests have several.
        """
        path, file = Path(parameters.input), read_passwords(parameters, settings)
        with journal_of(settings) as journal:
            names = journal.pseudonyms
            customers = [names.customers_anywhere([each]) for each in file.supplied]
            asked = {each.batch for each in requests_of(journal).newest(customers).values()}
            digest = names.subject("file of passwords", file_digest(path)).hex()
        return asked.pop() if len(asked) == 1 else batch_name(path), f"keyed:{digest}"

    def load_people(self) -> list[SuppliedOtp]:
        """Read the passwords into memory and check each customer's request; write quarantine."""
        file = read_passwords(self.parameters, self.run.settings)
        self.rows_read = len(file.supplied) + len(file.refused)
        self._batches = set()
        people = list(self._matched(file))
        file.supplied.clear()
        self.rows_refused = len(file.refused)
        refused = sorted(file.refused, key=lambda row: row.line)
        with self.run.folder.findings(QUARANTINED) as write:
            write(refused, [each.problem for each in refused])
        return people

    def _matched(self, file: OtpFile) -> Iterator[SuppliedOtp]:
        """Yield each password with its customer's request; refuse those that may not be sent."""
        run, name = self.run, self.run.journal.pseudonyms.customers_anywhere
        customers = {each: name([each]) for each in file.supplied}
        known = self.newest(customers.values())
        wrong = [each for each in known.values() if each.state is BvnState.WRONG_OTP]
        runs = map(run.journal.runs.find, {each.finish_run_id or "" for each in wrong})
        tried = {each.run_id for each in runs if each and each.input_digest == run.input_digest}
        for customer_id, (line, otp) in file.supplied.items():
            request = known.get(customers[customer_id])
            if request is None:
                file.refuse(line, file.shown(customer_id), "customer_id", "no_request")
                continue
            self._batches.add(request.batch)
            if request.finish_run_id == run.run_id and request.finishing is None:
                continue  # an earlier session of the run has sent it
            code = refusal(request, run.settings.bvn_consent, run.clock())
            if not code and request.state is BvnState.WRONG_OTP and request.finish_run_id in tried:
                code = "already_tried"
            if code:
                file.refuse(line, customer_id, "customer_id", code)
            else:
                yield supplied_otp(request, otp)

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
        finish = wire.bvn_finish(person.record.held.bvn, person.otp)
        return self.consented(caller, person.record, finish)

    def discard_secrets(self) -> None:
        """Delete every password from memory."""
        for each in self.people:
            each.otp = ""

    def write(self) -> ReportParts:
        """Write the table of all customers of the requests' batch names.

        It also shows those who supplied no password.
        """
        states = write_bvns(self.run, lines_of(self.run.journal, self._batches))
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
    if request.state in _ENDED:
        return _ENDED[request.state]
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
    return bare if len(bare) == digits and _DIGITS.fullmatch(bare) else None


def _otp_column(source: TableSource) -> int:
    headings = [fold(column.heading) for column in source.header.columns]
    indices = [index for index, heading in enumerate(headings) if heading in OTP_HEADINGS]
    if len(indices) != 1:
        trouble = "no column otp" if not indices else "more than one column of passwords"
        raise InputError(f"{source.path}: {trouble}; the file needs customer_id,otp")
    return indices[0]


def read_passwords(parameters: ConfirmBvns, settings: Settings) -> OtpFile:
    """Read the columns `customer_id` and `otp` of a file of passwords; others are ignored.

    Raises:
        InputError: no file was named, or it cannot be read or lacks a column.
    """
    if not parameters.input:
        raise InputError(
            "no input file was given; name a CSV, XLSX or Parquet file with customer_id,otp"
        )
    source = open_source(Path(parameters.input))
    file = OtpFile(settings.bvn_consent.otp_digits)
    otp_at = _otp_column(source)
    id_at = [column.known for column in source.header.columns].index("customer_id")
    rows: list[tuple[int, str, str]] = []
    for batch in source.batches():
        cells = (batch.columns.column(index).to_pylist() for index in (id_at, otp_at))
        for line, customer_id, otp in zip(batch.lines, *cells, strict=True):
            rows.append((line, (customer_id or "").strip(), (otp or "").strip()))
        for broken in batch.broken:
            file.refuse(broken.line, "", broken.column, broken.code)
    number = Counter(customer_id for _, customer_id, _ in rows)
    for line, customer_id, text in rows:
        otp = tidy_otp(text, file.digits)
        if not customer_id:
            file.refuse(line, "", "customer_id", "customer_id_missing")
        elif number[customer_id] > 1:
            file.refuse(line, customer_id, "customer_id", "customer_id_repeated")
        elif otp is not None:
            file.supplied[customer_id] = line, otp
        elif not text or is_absent(bare_digits(text)):
            file.refuse(line, customer_id, "otp", "otp_missing")
        else:  # columns may be swapped
            file.refuse(line, file.shown(customer_id), "otp", "otp_malformed")
    return file


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


def token_for(journal: Journal, request: BvnRequest) -> str:
    """Return the token of a request's link."""
    return signed(journal, _LINK, request.key)


def link_for(journal: Journal, settings: Settings, request: BvnRequest) -> str:
    """Return a request's link: an address on the portal, or its path if no host is configured."""
    parts = urlsplit(settings.portal_url or settings.redirect_uri)
    host = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return f"{host}{PATH}{token_for(journal, request)}"


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
    contact = request.held.masked_contact
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
        return LinkView(OtpLinkState.BUSY, request.held.masked_contact)
    if supplied.state in {PENDING, FAILED}:
        return LinkView(OtpLinkState.UNAVAILABLE, request.held.masked_contact)
    return view(supplied.record, settings, clock())
