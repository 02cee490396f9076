"""A call session: what is open while a run of any flow makes its calls.

One client, one writer of the journal, one window for each check or family of operations. Each call
is written into the journal before it is sent, counts under every cap and is retried by the one
table. What is asked and what an answer means is each flow's own; which lookups of a screening run
are paid for is decided in `funding_rounds`.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nightscreen.calling.control import COMPLETED, UNREADABLE_AFTER, StopReason
from nightscreen.calling.journal_writer import JournalWriter
from nightscreen.calling.lookup_task import ApiCall, LookupTask
from nightscreen.calling.window import RetryBudget, Window
from nightscreen.client.api import Client
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.network import Network
from nightscreen.client.wire import lookup_request
from nightscreen.journal.unreadable import mark_outage
from nightscreen.runs.run import known_prices
from nightscreen.schemas.checks import family_of
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nightscreen.calling.funding import Funding
    from nightscreen.calling.lookup_task import Question
    from nightscreen.client.classify import CallOutcome
    from nightscreen.client.transport import Transport
    from nightscreen.planning.short_circuit import Spares
    from nightscreen.runs.run import Run
    from nightscreen.schemas.checks import SubjectKind
    from nightscreen.schemas.requests import Request

ASKED_AGAIN = frozenset({LookupStatus.WAITING, LookupStatus.FAILED})
"""Ends of a call that surely did nothing: a run that goes on after an outage makes it again."""
NEVER = 2**62
"""A place in the journal no answer comes after: an API call is repeated on purpose."""


@dataclass(slots=True)
class CallSession:
    """What is open while a run makes its calls.

    Attributes:
        windows: one for each check, or one for the run's family of operations.
        max_cost_micro: the most a call may cost, by operation.
        short: a call was left that nothing but a cap kept from being made.
        concludes: its end decides about refusals that nothing could confirm; a process that asks
            only a part of a run cannot.
    """

    run: Run
    client: Client
    writer: JournalWriter
    max_cost_micro: Mapping[str, int]
    windows: dict[str, Window] = field(default_factory=dict)
    short: bool = False
    concludes: bool = True

    def task(
        self,
        request: Request,
        *,
        kind: SubjectKind,
        subject: bytes,
        keeps_body: bool = True,
        consent_reference: str | None = None,
        consent_ends_at: int | None = None,
    ) -> LookupTask:
        """Return an API call to be made.

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
            worst_micro=self.max_cost_micro[request.operation],
            consent_reference=consent_reference,
            consent_ends_at=consent_ends_at,
        )

    async def make(self, tasks: Iterable[LookupTask]) -> list[LookupTask]:
        """Make API calls and wait for their ends; each has its status, and what came where it did.

        Those left `WAITING` were not reached, or met a stop: `run.control.stop` says which.

        Raises:
            NightscreenError: the journal could not be written.
        """
        (window,) = self.windows.values()
        made = await window.ask(tasks)
        left = any(task.status is LookupStatus.WAITING for task in made)
        self.short |= left and self.run.control.ending()[0] == COMPLETED
        return made

    async def one(self, task: LookupTask) -> LookupTask:
        """Make one API call and wait for its end."""
        return (await self.make([task]))[0]

    def waits_for(self, reason: str) -> bool:
        """Take note of what is waited for outside the window; False where the run has stopped."""
        run, at = self.run, asyncio.get_running_loop().time()
        now, (operation,) = run.clock(), run.operations
        run.control.silence.goes_on(operation, reason, at=at, now=now)
        return run.control.may_send(operation, now, at)

    async def close(self) -> None:
        """Let what is in flight settle, then close connections and the journal's thread.

        Where calls are still under way, since whoever asked for them failed, nothing new is sent.
        """
        control = self.run.control
        if any(window.open for window in self.windows.values()):
            control.stop_run(StopReason.CANCELLED)
        for window in self.windows.values():
            await window.drain()
        await self.writer.drain()
        for check, since in control.unread_outages():
            await asyncio.to_thread(mark_outage, self.run.journal, self.run.run_id, check, since)
        if self.concludes:
            control.conclude()
        if self.short and control.ending()[0] == COMPLETED:
            control.stop_run(StopReason.BUDGET)
        await self.client.aclose()
        self.writer.close()


def open_call_session(
    run: Run,
    *,
    transport: Transport | None = None,
    since: int = NEVER,
    note: Callable[[LookupTask], None] | None = None,
    sparing: Spares | None = None,
    funding: Funding | None = None,
) -> CallSession:
    """Open the client, the writer of the journal, and a window for each check or operation.

    Args:
        run: the run.
        transport: carries calls in place of sockets.
        since: place in the journal after which an answer is not asked for again.
        note: called with each call that came to an end, whoever waits for it.
        sparing: which lookups wait for others, and which are not needed any more.
        funding: which lookups there is money for; None where the journal alone decides.
    """
    settings, control = run.settings, run.control
    family = {operation: family_of(operation) for operation in run.operations}
    in_flight = settings.max_in_flight
    client = Client(
        settings.base_url,
        settings.api_key.get_secret_value(),
        timeouts_s=settings.timeout_s,
        connections=sum(in_flight[name] for name in set(family.values())),
        key_with_token=settings.aggregator_sends_key,
        manners=run.response_rules,
        network=Network.of(settings),
        transport=transport,
    )
    writer = JournalWriter(
        run.journal.calls, run_id=run.run_id, purpose=run.purpose, caps=run.caps, since=since
    )
    session = CallSession(run, client, writer, known_prices(run.journal, settings)[1])
    control.proved_before = control.proved_before or run.journal.runs.has_answers(run.run_id)
    pace = RetryBudget(settings.attempts, random.Random())  # noqa: S311 - jitter, not a secret

    async def send(question: Question) -> CallOutcome:
        if isinstance(question, ApiCall):
            return await client.begin(question.request)
        return await client.begin(lookup_request(question))

    for operation in run.operations:
        paused_until = control.paused_until.get(operation, 0.0)
        session.windows[operation] = Window(
            operation,
            send=send,
            writer=writer,
            cap=AdaptiveCap(in_flight[family[operation]], paused_until=paused_until),
            control=control,
            pace=pace,
            clock=run.clock,
            note=note,
            sparing=sparing,
            funding=funding,
            unreadable_run=partial(run.journal.answers.unreadable_run, operation, UNREADABLE_AFTER)
            if run.caps.in_flight
            else None,
        )
    return session
