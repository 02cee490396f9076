"""Confirming BVN consent: sending on the passwords that customers supplied, and learning from them.

The charge falls here. A wrong password is never tried again, one whose answer was lost never sent
again, by machine. Reading the file is `otps`, the portal's way in `links`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.calling.caller import ASKED_AGAIN
from nightscreen.client import wire
from nightscreen.files.outputs import PROBLEMS, QUARANTINE
from nightscreen.files.quarantine import ProblemsWriter, QuarantineWriter
from nightscreen.journal import journal_of
from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.journal.customers import Customers
from nightscreen.operations.bvn.consent import (
    Transitions,
    bring_up_to_date,
    call_of,
    finished,
    status_of,
)
from nightscreen.operations.bvn.opening import batch_asked, keyed_digest, remembered
from nightscreen.operations.bvn.otps import QUARANTINED, OtpFile, Supplied, read_otps, tidy_otp
from nightscreen.operations.bvn.requesting import quote
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.runs.run import open_api_run, require_service
from nightscreen.schemas.bvn import BvnRequest, BvnState, ConfirmBvns, Doubt
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.rows import Action, Problem, RefusedRow

if TYPE_CHECKING:
    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import BvnConsent, Settings
    from nightscreen.schemas.clock import Clock

FLOW = "confirm_bvns"

UNKNOWN = ("customer_unknown", "No such customer was ever asked or screened; nothing was sent.")
NO_REQUEST = (
    "no_request",
    "The customer was not asked for BVN consent: nightscreen bvn request; nothing was sent.",
)
CONSENT_ENDED = (
    "consent_ended",
    "The customer's consent has expired or was withdrawn since; nothing was sent.",
)
ALREADY_TRIED = (
    "already_tried",
    "This very file was tried before; the customer must supply another password.",
)
ATTEMPTS_USED_UP = (
    "attempts_used_up",
    "Too many wrong passwords; ask the customer again on purpose: bvn request --again.",
)
IN_DOUBT = (
    "finish_in_doubt",
    "A password was sent and its answer lost: it may be used up and charged. Ask the customer "  # noqa: ISC004 - one sentence too long for a line
    "again on purpose: bvn request --again.",
)
UNDER_WAY = ("under_way", "Another process is sending this customer's password right now.")
_ENDED = {
    BvnState.CONFIRMED: ("already_confirmed", "The BVN is confirmed already; nothing was sent."),
    BvnState.EXPIRED: (
        "request_expired",
        "The password came too late; ask the customer again on purpose: bvn request --again.",
    ),
    BvnState.UNREACHABLE: (
        "request_unreachable",
        "The customer could not be reached, so no password is valid; nothing was sent.",
    ),
    BvnState.WRONG_CONTACT: (
        "request_wrong_contact",
        "The contact is not the registered one, so no password was sent; correct it, ask again.",
    ),
    BvnState.ABANDONED: (
        "request_abandoned",
        "The request waited too long; ask the customer again on purpose: bvn request --again.",
    ),
}


@dataclass(slots=True)
class Given:
    """One customer's password on its way, held in memory alone; gone once it was sent."""

    line: int
    request: BvnRequest
    otp: str = field(repr=False)
    task: LookupTask | None = None


@dataclass(slots=True)
class Confirming:
    """The state that the stations of one run share.

    Attributes:
        batches: batch names of the requests that the file is about.
        earlier: requests of the file that an earlier session of the run has dealt with.
    """

    parameters: ConfirmBvns
    input: Path
    file: OtpFile = field(default_factory=OtpFile)
    given: list[Given] = field(default_factory=list)
    earlier: list[BvnRequest] = field(default_factory=list)
    batches: set[str] = field(default_factory=set)
    moved: Transitions = field(default_factory=Transitions)

    def forget(self) -> None:
        """Delete every password from memory."""
        self.file.supplied.clear()
        for given in self.given:
            given.otp = ""


def open_confirm(
    parameters: ConfirmBvns, settings: Settings, *, clock: Clock = system_clock
) -> tuple[Run, Confirming]:
    """Open a run that sends passwords on; nothing is sent.

    Raises:
        UsageError: settings, parameters or input are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=False)
    parameters = remembered(parameters, settings, FLOW, clock=clock)
    given = Path(parameters.input)
    digest, batch = "", batch_name(given)
    if parameters.input:
        mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
        file = read_otps(given, settings.bvn_consent.otp_digits, mapping=mapping)
        with journal_of(settings, clock=clock) as journal:
            digest = keyed_digest(journal, given)
            batch = batch_asked(journal, [row.customer_id for row in file.supplied]) or batch
    run = open_api_run(
        parameters,
        settings,
        flow=FLOW,
        batch=batch,
        operation=Operation.BVN_FINISH,
        input_digest=digest,
        clock=clock,
    )
    return run, Confirming(parameters, given)


def read_input(run: Run, confirming: Confirming) -> None:
    """Read the passwords into memory and judge each customer's request; write quarantine."""
    given = confirming.parameters
    mapping = read_mapping(Path(given.mapping)) if given.mapping else None
    digits = run.settings.bvn_consent.otp_digits
    confirming.moved = bring_up_to_date(run.journal, run.settings.bvn_consent, run_id=run.run_id)
    confirming.file = read_otps(confirming.input, digits, mapping=mapping)
    _match(run, confirming)
    file = confirming.file
    file.supplied.clear()
    with QuarantineWriter(run.folder.path / QUARANTINE, QUARANTINED) as quarantine:
        quarantine.write(sorted(file.refused, key=lambda rejected: rejected.line))
    with ProblemsWriter(run.folder.path / PROBLEMS) as problems:
        problems.write(sorted(file.problems, key=lambda problem: problem.line))
    run.folder.rows |= {QUARANTINE: len(file.refused), PROBLEMS: len(file.problems)}


def _match(run: Run, confirming: Confirming) -> None:
    """Find each customer's request; refuse a password that may not be sent."""
    file, digits = confirming.file, run.settings.bvn_consent.otp_digits
    name = run.journal.pseudonyms.customers_anywhere
    customers = {row.customer_id: name([row.customer_id]) for row in file.supplied}
    known = BvnConsents.of(run.journal).current(list(customers.values()))
    tried = Tried(run)
    for row in file.supplied:
        request = known.get(customers[row.customer_id])
        if request is None:
            _refuse_unknown(run, file, row, digits)
            continue
        confirming.batches.add(request.batch)
        if tried.in_this_run(request):
            confirming.earlier.append(request)
            continue
        finding = refusal(request, run.settings.bvn_consent, run.clock())
        if finding is None and tried.by_this_file(request):
            finding = ALREADY_TRIED
        if finding is None:
            confirming.given.append(Given(row.line, request, row.otp))
        else:
            _refuse(file, row.line, row.customer_id, finding)


def _refuse_unknown(run: Run, file: OtpFile, supplied: Supplied, digits: int) -> None:
    """Refuse a customer without a request; an id that could be a password is not shown."""
    customers = Customers.of(run.journal)
    pseudonyms = [
        run.journal.pseudonyms.customer(batch, supplied.customer_id)
        for batch in customers.batches()
    ]
    if customers.known(pseudonyms):
        _refuse(file, supplied.line, supplied.customer_id, NO_REQUEST)
    else:
        shown = "" if tidy_otp(supplied.customer_id, digits) else supplied.customer_id
        _refuse(file, supplied.line, shown, UNKNOWN)


def _refuse(file: OtpFile, line: int, customer_id: str, finding: tuple[str, str]) -> None:
    code, hint = finding
    file.refused.append(RefusedRow(line, "customer_id", code, hint, (customer_id,)))
    file.problems.append(Problem(line, "customer_id", code, hint, Action.REFUSED))


def refusal(request: BvnRequest, settings: BvnConsent, now: int) -> tuple[str, str] | None:
    """Return why a password for a request may not be sent on, as code and hint; None if it may.

    Args:
        request: the customer's newest request.
        settings: how many wrong passwords are allowed.
        now: the present instant, microseconds.
    """
    if request.state in _ENDED:
        return _ENDED[request.state]
    if request.doubt is Doubt.FINISH:
        return IN_DOUBT
    if request.finishing or (request.state is BvnState.REQUESTED and request.doubt is None):
        return UNDER_WAY
    if request.attempts >= settings.otp_attempts:
        return ATTEMPTS_USED_UP
    return CONSENT_ENDED if now >= request.consent_ends_at else None


class Tried:
    """Knows which requests this run, or the same file, has handled before."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._digests: dict[str, str] = {}

    def in_this_run(self, request: BvnRequest) -> bool:
        """Return whether an earlier session of the run made the call and knows its end."""
        return request.finish_run_id == self._run.run_id and request.finishing is None

    def by_this_file(self, request: BvnRequest) -> bool:
        """Return whether the last password of a request came from a file with the same content."""
        run_id = request.finish_run_id
        if run_id is None or request.state is not BvnState.WRONG_OTP:
            return False
        if run_id not in self._digests:
            earlier = self._run.journal.runs.find(run_id)
            self._digests[run_id] = "" if earlier is None else earlier.input_digest
        return self._digests[run_id] == self._run.input_digest


def price(run: Run, confirming: Confirming) -> int:
    """Quote the passwords to send; return their number."""
    wanted = len(confirming.given)
    run.quote = quote(run, Operation.BVN_FINISH, wanted)
    run.progress[Operation.BVN_FINISH].wanted = wanted
    run.spent_before_micro = run.journal.money.of_run(run.run_id).spent_micro
    return wanted


async def send(session: Caller, confirming: Confirming) -> int:
    """Send every password on, once; return how many customers are confirmed now.

    One that was not sent, or surely did not arrive, is kept in memory for another session.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for given in confirming.given:
                if given.otp:
                    group.create_task(_send_one(session, confirming, given))
    except BaseException:
        confirming.forget()
        raise
    return sum(given.request.state is BvnState.CONFIRMED for given in confirming.given)


async def _send_one(session: Caller, confirming: Confirming, given: Given) -> None:
    before = given.request.state.value
    given.task, given.request = await supply(session, given.request, given.otp)
    if given.task is None or given.task.status not in ASKED_AGAIN:
        given.otp = ""
    confirming.moved.note(before, given.request)


def send_again(run: Run, confirming: Confirming) -> None:
    """Let passwords that were not sent, or surely did not arrive, be sent after all."""
    tasks = [given.task for given in confirming.given if given.otp and given.task is not None]
    run.progress[Operation.BVN_FINISH].take_back(task.status for task in tasks)


async def supply(
    session: Caller, request: BvnRequest, otp: str
) -> tuple[LookupTask | None, BvnRequest]:
    """Send one password on and write down what came of it; it is not kept anywhere.

    Returns:
        The call, and the request after it; no call where another process was quicker.
    """
    consents = BvnConsents.of(session.run.journal)
    if not await asyncio.to_thread(consents.claim, request, session.run.run_id):
        return None, request
    task = session.task(
        wire.bvn_finish(request.held.bvn, otp),
        kind=SubjectKind.BVN,
        subject=request.subject,
        consent_reference=request.consent_reference,
        consent_ends_at=request.consent_ends_at,
    )
    task = await session.one(task)
    return task, await asyncio.to_thread(_learn, session.run, consents, request, task)


def _learn(run: Run, consents: BvnConsents, request: BvnRequest, task: LookupTask) -> BvnRequest:
    claimed = consents.find(request.request_id)
    if claimed is None:  # erased meanwhile
        return request
    after = finished(claimed, call_of(task, run.clock()))
    consents.put(after)
    return after


def look_again(run: Run, confirming: Confirming) -> None:
    """Read the requests again, of which some may have been settled after a cancellation."""
    consents = BvnConsents.of(run.journal)
    for given in confirming.given:
        given.request = consents.find(given.request.request_id) or given.request


def statuses(run: Run, confirming: Confirming) -> list[LookupStatus]:
    """Return how the run's calls ended, those of its earlier sessions included."""
    found = [status_of(request, Doubt.FINISH) for request in confirming.earlier]
    for given in confirming.given:
        if given.task is not None:
            found.append(given.task.status)
        elif given.request.finish_run_id == run.run_id:
            found.append(status_of(given.request, Doubt.FINISH))
        else:
            found.append(LookupStatus.WAITING)
    return found
