"""Asking for BVN consent: which customers of a file are sent a one-time password, and asking them.

A customer is asked once; again only on purpose. Consent is judged as for the ecosystem lookup, when
the file is read and again before sending. `consent` has the results of calls, `table` writes the
table.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.calling.caller import ASKED_AGAIN
from nightscreen.calling.run import known_prices
from nightscreen.client import wire
from nightscreen.files.outputs import PROBLEMS, QUARANTINE
from nightscreen.files.quarantine import ProblemsWriter, QuarantineWriter
from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.operations.bvn.consent import (
    Transitions,
    bring_up_to_date,
    call_of,
    masked_contact_of,
    started,
    status_of,
)
from nightscreen.operations.bvn.opening import remembered
from nightscreen.planning.consent import consent_column, consent_ends
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.runs.intake import Intake
from nightscreen.runs.run import open_api_run
from nightscreen.schemas.bvn import BvnRequest, BvnState, Doubt, HeldCustomer
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import NoAnswer, Operation, SubjectKind
from nightscreen.schemas.clock import system_clock, to_instant
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.quote import CheckQuote, Quote
from nightscreen.schemas.rows import Action, Problem

if TYPE_CHECKING:
    import pyarrow as pa

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.bvn import RequestBvns
    from nightscreen.schemas.clock import Clock

FLOW = "request_bvns"
_NAMES = ("first_name", "middle_name", "last_name", "full_name")

REPEATED = (
    "bvn_repeated",
    "Another row with this BVN is asked, and a second password would undo the first. Whose is it?",
)
SUPERSEDED = (
    "bvn_asked_elsewhere",
    "Another customer's request for this BVN is open, and a second password would undo it.",
)


@dataclass(slots=True)
class Case:
    """One row of the file on its way.

    Attributes:
        held: what the request would hold; None if no request can be made for the row.
        why: why no request is made (`ineligible`, `invalid`, `refused`, `failed`, `pending`); empty
            where it has a request.
        request: the request that counts for the row.
        task: the call made for it in this session.
    """

    line: int
    customer_id: str
    customer: bytes = b""
    subject: bytes = b""
    consent_reference: str | None = None
    consent_ends_at: int = 0
    held: HeldCustomer | None = field(default=None, repr=False)
    why: str = ""
    request: BvnRequest | None = None
    task: LookupTask | None = None


@dataclass(slots=True)
class BvnRequests:
    """What the stations of one run share."""

    parameters: RequestBvns
    input: Path
    cases: list[Case] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    rows_read: int = 0
    rows_quarantined: int = 0
    moved: Transitions = field(default_factory=Transitions)

    @property
    def asked(self) -> list[Case]:
        """Return the rows that are asked in this session."""
        return [case for case in self.cases if case.task is not None]


def open_request(
    parameters: RequestBvns, settings: Settings, *, clock: Clock = system_clock
) -> tuple[Run, BvnRequests]:
    """Open a run that asks customers; nothing is sent.

    Raises:
        UsageError: settings, parameters or input are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    parameters = remembered(parameters, settings, FLOW, clock=clock)
    given = Path(parameters.input)
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    if parameters.input:
        open_source(given, mapping=mapping)
    run = open_api_run(
        parameters,
        settings,
        flow=FLOW,
        batch=parameters.batch or batch_name(given),
        operation=Operation.BVN_START,
        input_digest=file_digest(given) if parameters.input else "",
        clock=clock,
    )
    return run, BvnRequests(parameters, given)


def read_input(run: Run, asking: BvnRequests) -> None:
    """Read the customers; write quarantine; judge eligibility and consent of each row."""
    given = asking.parameters
    mapping = read_mapping(Path(given.mapping)) if given.mapping else None
    source = open_source(asking.input, mapping=mapping)
    intake = Intake(
        source.header, orders=DateOrders(source, run.journal.runs.date_order(run.batch))
    )
    quarantine = QuarantineWriter(run.folder.path / QUARANTINE, source.header.columns)
    with quarantine:
        for batch in source.batches():
            result = intake.take(batch)
            quarantine.write(result.refused)
            asking.problems += result.problems
            asking.rows_read += result.read
            asking.rows_quarantined += len(result.refused)
            asking.cases += _cases(run, result.rows, given.contact)
    run.folder.rows[QUARANTINE] = asking.rows_quarantined


def _cases(run: Run, rows: pa.RecordBatch, contact: str) -> list[Case]:
    if not rows.num_rows:
        return []
    lawful = consent_column(rows, at=to_instant(run.clock())).to_pylist()
    ends = consent_ends(rows).tolist()
    pseudonyms = run.journal.pseudonyms
    found = []
    for index, row in enumerate(rows.to_pylist()):
        case = Case(row["line"], row["customer_id"], consent_reference=row["consent_reference"])
        case.customer = pseudonyms.customers_anywhere([case.customer_id])
        case.consent_ends_at = ends[index] if lawful[index] else run.clock()
        case.why, case.held = _judge(row, contact, lawful=lawful[index])
        if case.held is not None:
            case.subject = pseudonyms.subject(SubjectKind.BVN.value, case.held.bvn)
        found.append(case)
    return found


def _judge(row: dict[str, Any], contact: str, *, lawful: bool) -> tuple[str, HeldCustomer | None]:
    """Return why a row cannot be asked, the first reason that applies, or what is held of it."""
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
    return "" if lawful else NoAnswer.REFUSED.value, held


def plan(run: Run, asking: BvnRequests) -> int:
    """Find the customers to ask, and quote the calls; return how many.

    A row whose consent has ended or been renewed passes that on to its earlier request.
    """
    asking.moved = bring_up_to_date(run.journal, run.settings.bvn_consent, run_id=run.run_id)
    consents = BvnConsents.of(run.journal)
    known = consents.current([case.customer for case in asking.cases])
    for case in asking.cases:
        earlier = known.get(case.customer)
        if earlier is not None and case.held is not None and earlier.subject == case.subject:
            case.request = _consent_passed_on(consents, earlier, case)
    _choose(run, asking, consents)
    wanted = sum(1 for case in asking.cases if _is_wanted(case))
    run.quote = quote(run, Operation.BVN_START, wanted)
    run.progress[Operation.BVN_START].wanted = wanted
    run.spent_before_micro = run.journal.money.of_run(run.run_id).spent_micro
    return wanted


def _consent_passed_on(consents: BvnConsents, earlier: BvnRequest, case: Case) -> BvnRequest:
    names = ("consent_reference", "consent_ends_at")
    fresh = earlier.model_copy(update={name: getattr(case, name) for name in names})
    if fresh != earlier:
        consents.put(fresh)
    return fresh


def _is_wanted(case: Case) -> bool:
    return case.held is not None and not case.why and case.request is None


def _choose(run: Run, asking: BvnRequests, consents: BvnConsents) -> None:
    """Leave a request to be made only where none was, or where another is wanted on purpose.

    One that was refused for its contact is made again where the file has another by now.
    """
    again = asking.parameters.again
    for case in asking.cases:
        if case.request is None or case.request.run_id == run.run_id or case.request.finishing:
            continue
        refused = case.request.state is BvnState.WRONG_CONTACT
        corrected = case.held is not None and case.held.contact != case.request.held.contact
        if again or (refused and corrected):
            case.request = None
    subjects = [case.subject for case in asking.cases if _is_wanted(case)]
    others = {request.subject: request.customer for request in consents.open_for(subjects)}
    taken: dict[bytes, bytes] = {}
    for case in asking.cases:
        if not _is_wanted(case):
            continue
        if taken.setdefault(case.subject, case.customer) != case.customer:
            _make_ineligible(asking, case, REPEATED)
        elif not again and others.get(case.subject, case.customer) != case.customer:
            _make_ineligible(asking, case, SUPERSEDED)


def _make_ineligible(asking: BvnRequests, case: Case, finding: tuple[str, str]) -> None:
    case.why = NoAnswer.INELIGIBLE.value
    asking.problems.append(Problem(case.line, "bvn", *finding, Action.INVALID))


def write_problems(run: Run, asking: BvnRequests) -> None:
    """Write every finding, in the order of the file."""
    with ProblemsWriter(run.folder.path / PROBLEMS) as problems:
        problems.write(sorted(asking.problems, key=lambda problem: problem.line))
    run.folder.rows[PROBLEMS] = len(asking.problems)


def quote(run: Run, operation: Operation, calls: int) -> Quote:
    """Return what a number of calls would cost: nothing at the least, each charged at the most."""
    if not calls:
        return Quote(cap_micro=run.caps.run_micro)
    latest, worst = known_prices(run.journal, run.settings)
    price = latest[operation.value]
    seconds = run.journal.runs.seconds_per_answer().get(operation.value, 5.0)
    line = CheckQuote(
        check=operation.value,
        kind=SubjectKind.BVN.value,
        calls=calls,
        likely_calls=calls,
        price_micro=price,
        hit_pct=100.0,
        low_micro=0,
        expected_micro=calls * price,
        high_micro=calls * worst[operation.value],
        expected_s=calls * seconds / run.settings.max_in_flight["bvn"],
    )
    return Quote((line,), cap_micro=run.caps.run_micro)


async def ask(session: Caller, asking: BvnRequests) -> int:
    """Send every wanted customer a password; return how many calls were made.

    A request is written down before its call, and its state as soon as the call has come back, so
    that a customer can supply the password while others are still being asked.
    """
    run = session.run
    consents = BvnConsents.of(run.journal)
    wanted = [case for case in asking.cases if _is_wanted(case)]
    for case in wanted:
        case.request = _new_request(run, case)
    await asyncio.to_thread(consents.add, [case.request for case in wanted if case.request])
    async with asyncio.TaskGroup() as group:
        for case in wanted:
            group.create_task(_ask_one(session, consents, asking, case))
    return len(wanted)


def ask_again(run: Run, asking: BvnRequests) -> None:
    """Let customers whose call failed or was not made wait to be asked; one in doubt never is."""
    taken_back = []
    for case in asking.asked:
        if case.request is None and case.task is not None and case.task.status in ASKED_AGAIN:
            taken_back.append(case.task.status)
            case.why, case.task = "", None
    run.progress[Operation.BVN_START].take_back(taken_back)


def _new_request(run: Run, case: Case) -> BvnRequest:
    if case.held is None:
        raise ValueError("a row that cannot be asked has no request")
    return BvnRequest(
        customer=case.customer,
        subject=case.subject,
        batch=run.batch,
        run_id=run.run_id,
        consent_reference=case.consent_reference,
        consent_ends_at=case.consent_ends_at,
        state=BvnState.REQUESTED,
        at=run.clock(),
        held=case.held,
    )


async def _ask_one(session: Caller, consents: BvnConsents, asking: BvnRequests, case: Case) -> None:
    request = case.request
    if request is None or case.held is None:
        return
    task = session.task(
        wire.bvn_start(case.held.bvn, case.held.contact),
        kind=SubjectKind.BVN,
        subject=case.subject,
        consent_reference=case.consent_reference,
        consent_ends_at=case.consent_ends_at,
    )
    case.task = await session.one(task)
    await asyncio.to_thread(_learn, session.run, consents, asking, case, request)


def _learn(
    run: Run, consents: BvnConsents, asking: BvnRequests, case: Case, request: BvnRequest
) -> None:
    """Write down what came of a call; a request for which nothing was sent is forgotten."""
    task = case.task
    if task is None:
        return
    call = call_of(task, run.clock())
    contact = None
    if task.reading is not None:
        body = task.reading.body
        contact = masked_contact_of(body) if body else task.reading.contact
    case.request = started(request, call, contact)
    if case.request is not None:
        consents.put(case.request)
        asking.moved.note("", case.request)
        return
    consents.drop(request)
    case.why = {
        LookupStatus.FAILED: NoAnswer.FAILED.value,
        LookupStatus.LAPSED: NoAnswer.REFUSED.value,
    }.get(task.status, NoAnswer.PENDING.value)


def statuses(run: Run, asking: BvnRequests) -> list[LookupStatus]:
    """Return how the run's calls ended, those of its earlier sessions included."""
    found = [case.task.status for case in asking.asked if case.task is not None]
    for case in asking.cases:
        if case.task is None and case.request is not None and case.request.run_id == run.run_id:
            found.append(status_of(case.request, Doubt.START))
        elif case.task is None and _is_wanted(case):
            found.append(LookupStatus.WAITING)
    return found
