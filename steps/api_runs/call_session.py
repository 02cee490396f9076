"""Errands: what runs beside screening have open, and how their calls are made.

A pull, a BVN consent, an offer: each call belongs to one customer, is written into the journal
before it is sent, counts under every cap and is retried by the one table, as a lookup is. What is
asked and what an answer means is decided by each line of its own (`pulling`, `bvn_consent`, ...).
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightscreen.client.api import Client
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.limits import FAMILIES
from nightscreen.client.network import Network
from nightscreen.schemas.plan import LookupStatus
from nightscreen.steps.calling.jobs import ApiCall, LookupTask
from nightscreen.steps.calling.journal_writer import JournalWriter
from nightscreen.steps.calling.window import RetryBudget, Window
from nightscreen.steps.control import COMPLETED, StopReason
from nightscreen.steps.run import Run, known_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.client.classify import CallOutcome
    from nightscreen.client.transport import Transport
    from nightscreen.client.wire import Request
    from nightscreen.schemas.checks import SubjectKind

ASKED_AGAIN = frozenset({LookupStatus.WAITING, LookupStatus.FAILED})
"""Ends of a call that surely did nothing: a run that goes on after an outage makes it again."""
NEVER = 2**62
"""A place in the journal no answer comes after: who repeats an errand does so on purpose."""


@dataclass(slots=True)
class CallSession:
    """What is open while a run makes its calls: the client, and one window for the family.

    Attributes:
        max_cost_micro: the most a call may cost, by operation.
        short: a call was left that nothing but a cap kept from being made.
    """

    run: Run
    client: Client
    book: JournalWriter
    window: Window
    max_cost_micro: Mapping[str, int]
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
            worst_micro=self.max_cost_micro[request.operation.value],
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
        now, operation = run.clock(), run.operations[0]
        run.control.silence.goes_on(operation.value, reason, at=at, now=now)
        return run.control.may_send(operation, now, at)

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


def open_desk(run: Run, *, transport: Transport | None = None) -> CallSession:
    """Open the client and the window of a run's family of operations."""
    settings = run.settings
    operation = run.operations[0]
    run.control.proved_before = run.journal.runs.has_answers(run.run_id)
    family = next(word for word, each in FAMILIES.items() if operation in each)
    cap = int(getattr(settings.max_in_flight, family))
    client = Client(
        settings.base_url,
        settings.api_key.get_secret_value(),
        timeouts_s=settings.timeout_s.model_dump(),
        max_in_flight={
            name: cap if name == family else 1 for name in settings.max_in_flight.model_dump()
        },
        key_with_token=settings.aggregator_sends_key,
        manners=run.response_rules,
        network=Network.of(settings),
        transport=transport,
    )
    book = JournalWriter(
        run.journal.calls, run_id=run.run_id, purpose=run.flow, caps=run.caps, since=NEVER
    )

    async def send(errand: ApiCall) -> CallOutcome:
        return await client.send(errand.request)

    window = Window(
        operation,
        send=send,
        book=book,
        cap=AdaptiveCap(cap, paused_until=run.control.paused_until.get(operation, 0.0)),
        control=run.control,
        pace=RetryBudget(settings.attempts, random.Random()),  # noqa: S311 - jitter, not a secret
        clock=run.clock,
    )
    max_cost_micro = known_prices(run.journal, settings)[1]
    return CallSession(run, client, book, window, max_cost_micro)
