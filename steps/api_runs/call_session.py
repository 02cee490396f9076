"""Errands: what runs beside screening have open, and how their calls are made.

A pull, a BVN consent, an offer: each call belongs to one customer, is written into the journal
before it is sent, counts under every cap and is retried by the one table, as a lookup is. What is
asked and what an answer means is decided by each line of its own (`pulling`, `bvn_consent`, ...).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.client.api import Client
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.limits import FAMILIES
from nightscreen.client.network import Network
from nightscreen.client.response_rules import load_response_rules
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.errors import InputError, ServiceAddressError
from nightscreen.schemas.parameters import new_run_id
from nightscreen.schemas.plan import LookupStatus
from nightscreen.schemas.quote import Quote
from nightscreen.schemas.stops import REFUSALS
from nightscreen.steps.calling.jobs import ApiCall, LookupTask
from nightscreen.steps.calling.journal_writer import JournalWriter
from nightscreen.steps.calling.window import RetryBudget, Window
from nightscreen.steps.control import ADDRESS, COMPLETED, StopReason
from nightscreen.steps.policy.declarations import read_declarations
from nightscreen.steps.screening_run import (
    caps_of,
    deadline_instant,
    known_prices,
    open_control,
    require_service,
)
from nightscreen.storage.clock import LAGOS, system_clock, to_instant
from nightscreen.storage.journal import journal_of
from nightscreen.storage.outputs import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.client.classify import CallOutcome
    from nightscreen.client.transport import Transport
    from nightscreen.client.wire import Request
    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.calls import Caps
    from nightscreen.schemas.checks import Operation, SubjectKind
    from nightscreen.schemas.declarations import Declarations
    from nightscreen.schemas.settings import Settings
    from nightscreen.steps.control import Control
    from nightscreen.storage.clock import Clock
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.journal.runs import RunRecord

_NOT_ACTED_ON = frozenset({CallState.NOT_SENT.value, CallState.NOT_CHARGED.value})
ASKED_AGAIN = frozenset({LookupStatus.WAITING, LookupStatus.FAILED})
"""Ends of a call that surely did nothing: a run that goes on after an outage makes it again."""
NEVER = 2**62
"""A place in the journal no answer comes after: who repeats an errand does so on purpose."""


@dataclass(slots=True)
class ApiRun:
    """One run beside screening, under way.

    Attributes:
        flow: name of its flow, such as `pull_transactions`.
        batch: what its nights are compared by.
        operation: what its calls are counted under; those of one family share a window.
        worst_micro: the most a call may cost, by operation, micro-naira.
        is_new: it was begun now, not resumed.
        declared: what the lender declares, for the account of the calls.
    """

    run_id: str
    flow: str
    batch: str
    operation: Operation
    parameters: ApiRunParameters
    settings: Settings
    journal: Journal
    folder: RunFolder
    control: Control
    caps: Caps
    clock: Clock
    started_at: int
    worst_micro: dict[str, int]
    is_new: bool
    declared: Declarations
    input_digest: str = ""
    quote: Quote = field(default_factory=Quote)

    @property
    def rows_read(self) -> int | None:
        """Return nothing: these flows count customers and offers, each in its own way."""
        return None

    @property
    def only_quotes(self) -> bool:
        """Return whether the run ends with its quote, and leaves nothing."""
        return bool(getattr(self.parameters, "quote_only", False))

    def withdraw(self) -> None:
        """Leave nothing of a new run that came to nothing: no call of it can have been acted on."""
        calls = (row for rows in self.journal.runs.calls(self.run_id) for row in rows)
        if self.is_new and all(row.state in _NOT_ACTED_ON for row in calls):
            self.journal.runs.withdraw(self.run_id)
            shutil.rmtree(self.folder.path, ignore_errors=True)

    def close(self) -> None:
        """Give back the journal."""
        self.journal.close()


def refuse_wrong_address(run: ApiRun) -> None:
    """Refuse the address of a new run that nothing of the service was found at.

    Raises:
        ServiceAddressError: the address answers, but not as the service does.
    """
    if run.is_new and run.control.stop == ADDRESS and run.control.answered == 0:
        raise ServiceAddressError(f"{REFUSALS['address']} ({run.settings.base_url})")


def open_errand_run(
    parameters: ApiRunParameters,
    settings: Settings,
    *,
    flow: str,
    batch: str,
    operation: Operation,
    input_digest: str = "",
    clock: Clock = system_clock,
) -> ApiRun:
    """Open journal and folder and write the run down; nothing is sent.

    Raises:
        UsageError: settings or parameters are wrong, in one line that says what to do.
        JournalError: the journal cannot be used.
    """
    require_service(settings, quote_only=False)
    journal = journal_of(settings, clock=clock)
    journal.be_patient(settings.outage_give_up)
    try:
        earlier = _earlier(journal, parameters, flow, input_digest)
        return _begin(
            journal,
            parameters,
            settings,
            flow=flow,
            batch=batch,
            operation=operation,
            input_digest=input_digest,
            earlier=earlier,
        )
    except BaseException:
        journal.close()
        raise


def _earlier(
    journal: Journal, parameters: ApiRunParameters, flow: str, input_digest: str
) -> RunRecord | None:
    """Return the run that is resumed, if one is."""
    if not parameters.run:
        return None
    earlier = journal.runs.find(parameters.run)
    if earlier is None or earlier.flow != flow:
        raise InputError(
            f"there is no run {parameters.run} of {flow} in this journal; "
            "see the runs there are with: nightscreen runs list"
        )
    if journal.runs.held_elsewhere(parameters.run):
        raise InputError(
            f"run {parameters.run} is still under way in another process; wait for it or stop it"
        )
    if input_digest and earlier.input_digest != input_digest:
        raise InputError(
            f"the input is not that of run {parameters.run}: its content differs; give the file "
            "it was begun with, or start a new run"
        )
    return earlier


def _begin(
    journal: Journal,
    parameters: ApiRunParameters,
    settings: Settings,
    *,
    flow: str,
    batch: str,
    operation: Operation,
    input_digest: str,
    earlier: RunRecord | None,
) -> ApiRun:
    declared = read_declarations(settings)
    now = journal.clock()
    deadline_instant(parameters.deadline, now)  # a mistake in it leaves nothing behind
    run_id = new_run_id(to_instant(now).astimezone(LAGOS), secrets.token_hex(3))
    output = Path(parameters.output)
    if earlier is not None:
        run_id, output = earlier.run_id, Path(earlier.folder).parent
    folder = RunFolder.make(output, run_id)
    journal.calls.recover()
    caps = caps_of(parameters, settings)
    run = journal.runs.begin(
        run_id,
        flow=flow,
        batch=batch,
        purpose=flow,
        input_digest=input_digest,
        folder=str(folder.path.absolute()),
        cap_micro=caps.run_micro,
        parameters=parameters.model_dump(exclude={"run"}),
    )
    folder.begin()
    control = open_control(
        parameters, settings, journal, run_id=run_id, caps=caps, checks=(operation,)
    )
    return ApiRun(
        run_id=run_id,
        flow=flow,
        batch=batch,
        operation=operation,
        parameters=parameters,
        settings=settings,
        journal=journal,
        folder=folder,
        control=control,
        caps=caps,
        clock=journal.clock,
        started_at=run.started_at,
        worst_micro=known_prices(journal, settings)[1],
        is_new=earlier is None,
        declared=declared,
        input_digest=input_digest,
    )


@dataclass(slots=True)
class CallSession:
    """What is open while a run makes its calls: the client, and one window for the family.

    Attributes:
        short: a call was left that nothing but a cap kept from being made.
    """

    run: ApiRun
    client: Client
    book: JournalWriter
    window: Window
    short: bool = False

    def job(
        self,
        request: Request,
        *,
        kind: SubjectKind,
        subject: bytes,
        keeps_body: bool = True,
        consent_reference: str | None = None,
        consent_ends_at: int | None = None,
    ) -> LookupTask:
        """Return a call to be made.

        Args:
            request: what is sent.
            kind: what the subject is the pseudonym of.
            subject: pseudonym of the person or thing it is about; two calls of one operation about
                the same subject are never in flight at once, in whatever process.
            keeps_body: the journal keeps the answer, sealed.
            consent_reference: the consent that authorises it, as the journal shows it.
            consent_ends_at: instant from which it does not any more, microseconds.
        """
        return LookupTask(
            lookup=ApiCall(request.operation, kind, request, keeps_body=keeps_body),
            subject=subject,
            worst_micro=self.run.worst_micro[request.operation.value],
            consent_reference=consent_reference,
            consent_ends_at=consent_ends_at,
        )

    async def make(self, jobs: Iterable[LookupTask]) -> list[LookupTask]:
        """Make calls and wait for their ends; each has its standing, and a reading where one came.

        Jobs left `WAITING` were not reached, or met a stop: `run.control.stop` says which.

        Raises:
            NightscreenError: the journal could not be written.
        """
        made = await self.window.ask(jobs)
        left = any(job.standing is LookupStatus.WAITING for job in made)
        self.short |= left and self.run.control.ending()[0] == COMPLETED
        return made

    async def one(self, job: LookupTask) -> LookupTask:
        """Make one call and wait for its end."""
        return (await self.make([job]))[0]

    def waits_for(self, reason: str) -> bool:
        """Take note of what is waited for outside the window; False where the run has stopped."""
        run, at = self.run, asyncio.get_running_loop().time()
        now = run.clock()
        run.control.silence.goes_on(run.operation.value, reason, at=at, now=now)
        return run.control.may_send(run.operation, now, at)

    async def close(self) -> None:
        """Let what is in flight settle, then close connections and the journal's thread."""
        if self.window.open:
            self.run.control.stop_run(StopReason.CANCELLED)
        await self.window.drain()
        await self.book.drain()
        self.run.control.conclude()
        if self.short and self.run.control.ending()[0] == COMPLETED:
            self.run.control.stop_run(StopReason.BUDGET)
        await self.client.aclose()
        self.book.close()


def open_desk(run: ApiRun, *, transport: Transport | None = None) -> CallSession:
    """Open the client and the window of a run's family of operations."""
    settings = run.settings
    run.control.proved_before = run.journal.runs.has_answers(run.run_id)
    family = next(word for word, each in FAMILIES.items() if run.operation in each)
    cap = int(getattr(settings.max_in_flight, family))
    client = Client(
        settings.base_url,
        settings.api_key.get_secret_value(),
        timeouts_s=settings.timeout_s.model_dump(),
        max_in_flight={
            name: cap if name == family else 1 for name in settings.max_in_flight.model_dump()
        },
        key_with_token=settings.aggregator_sends_key,
        manners=load_response_rules(settings.own_table("manners")),
        network=Network.of(settings),
        transport=transport,
    )
    book = JournalWriter(
        run.journal.calls, run_id=run.run_id, purpose=run.flow, caps=run.caps, since=NEVER
    )

    async def send(errand: ApiCall) -> CallOutcome:
        return await client.send(errand.request)

    window = Window(
        run.operation,
        send=send,
        book=book,
        cap=AdaptiveCap(cap, paused_until=run.control.paused_until.get(run.operation, 0.0)),
        control=run.control,
        pace=RetryBudget(settings.attempts, random.Random()),  # noqa: S311 - jitter, not a secret
        clock=run.clock,
    )
    return CallSession(run, client, book, window)
