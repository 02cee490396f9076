"""A caller: makes the calls of a run of any flow.

It has one client, one writer of the journal, and one lane for each check or operation. Each call is
saved in the journal before it is sent, counts under every cap and is retried by one table. Each
flow decides what is asked and what an answer means. The lookups of a screening run are claimed from
its table, by the run's own process and by its workers. A run with a deadline waits during an
outage, a low wallet or a used-up quota, by one rule for every flow.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from nightscreen.calling.lane import Lane
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.run import known_prices
from nightscreen.calling.stops import TRANSIENT_STOPS
from nightscreen.calling.writer import Writer
from nightscreen.client.api import Client
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.network import Network
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import family_of
from nightscreen.schemas.clock import MICROS, next_day
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.stops import COMPLETED, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.calling.lane import LookupTable
    from nightscreen.calling.run import Run
    from nightscreen.client.transport import Transport
    from nightscreen.schemas.checks import SubjectKind
    from nightscreen.schemas.requests import Request


NEVER = 2**62  # a journal position after any answer: API calls are repeated on purpose


@dataclass(kw_only=True)
class Caller:
    """The open resources of a run that makes calls."""

    run: Run
    transport: InitVar[Transport | None] = None  # replaces sockets
    client: Client = field(init=False)
    writer: Writer = field(init=False)
    max_cost_micro: Mapping[str, int] = field(init=False)  # the most a call may cost, by operation
    # one for each check, or one for the run's family of operations
    lanes: dict[str, Lane] = field(init=False)
    short: bool = False  # a call was not made only because of a cap
    # whether closing it judges unconfirmed refusals; not if more is asked later or elsewhere
    concludes: ClassVar[bool] = True

    def __post_init__(self, transport: Transport | None) -> None:
        self._open(transport)

    def _open(
        self,
        transport: Transport | None,
        *,
        since: int = NEVER,
        table: LookupTable | None = None,
    ) -> None:
        """Open the client, the writer of the journal, and a lane for each check or operation.

        Args:
            transport: replaces sockets.
            since: journal position after which an answer is not asked for again.
            table: the lookups of a screening run; None for API calls.
        """
        run = self.run
        settings, stops, journal = run.settings, run.stops, run.journal
        family = {operation: family_of(operation) for operation in run.operations}
        in_flight = settings.max_in_flight
        self.client = Client(
            settings.base_url,
            settings.api_key.get_secret_value(),
            timeouts_s=settings.timeout_s,
            connections=sum(in_flight[name] for name in set(family.values())),
            key_with_token=settings.aggregator_sends_key,
            rules=run.response_rules,
            network=Network.of(settings),
            transport=transport,
        )
        self.writer = Writer(
            journal.calls, run_id=run.run_id, purpose=run.purpose, caps=run.caps, since=since
        )
        self.max_cost_micro = known_prices(journal, settings)[1]
        if run.caps.in_flight:
            journal.askers.join(run.run_id, {name: in_flight[name] for name in family.values()})
        stops.proved_before = stops.proved_before or journal.runs.has_answers(run.run_id)
        jitter = random.Random()  # noqa: S311 - jitter, not a secret
        self.lanes = {}
        for operation in run.operations:
            paused_until = stops.paused_until.get(operation, 0.0)
            self.lanes[operation] = Lane(
                check=operation,
                send=self.client.begin,
                writer=self.writer,
                cap=AdaptiveCap(in_flight[family[operation]], paused_until=paused_until),
                stops=stops,
                wallet=run.wallet,
                attempts=settings.attempts,
                random=jitter,
                clock=run.clock,
                worst_micro=self.max_cost_micro[operation],
                table=table,
                lanes=self.lanes,
            )

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
        """Return the task of an API call.

        Args:
            request: the request to send.
            kind: the kind of the subject.
            subject: pseudonym of the person or thing it is about; two calls of one operation about
                the same subject are never in flight at once, in whatever process.
            keeps_body: whether the journal stores the answer, sealed.
            consent_reference: the consent that authorises it, for the journal.
            consent_ends_at: the instant that consent ends, microseconds.
        """
        return LookupTask(
            check=request.operation,
            request=lambda: request,
            kind=kind.value,
            subject=subject,
            worst_micro=self.max_cost_micro[request.operation],
            asked=request.asked,
            keeps_body=keeps_body,
            consent_reference=consent_reference,
            consent_ends_at=consent_ends_at,
        )

    async def make_call(self, task: LookupTask) -> LookupTask:
        """Make one API call and wait for its end; return it with status and result.

        Status `WAITING` means that it was not made, or was stopped: see `run.stops.reason`.

        Raises:
            NightscreenError: the journal could not be written.
        """
        (lane,) = self.lanes.values()
        made = await lane.make(task)
        not_made = made.status is LookupStatus.WAITING
        self.short |= not_made and self.run.stops.ending()[0] == COMPLETED
        return made

    def record_wait(self, reason: str) -> bool:
        """Record a reason to wait outside the lanes; return False if the run has stopped."""
        run, at = self.run, asyncio.get_running_loop().time()
        now, (operation,) = run.clock(), run.operations
        run.stops.silence.record_wait(operation, reason, at=at, now=now)
        return run.stops.may_send(operation, now, at)

    async def drain(self) -> None:
        """Wait until nothing is in flight and every outcome is committed."""
        for lane in self.lanes.values():
            await lane.drain()
        await self.writer.drain()

    async def close(self) -> None:
        """Let calls in flight settle, then close connections and the journal's thread.

        If calls are still under way, because their caller failed, no new ones are sent.
        """
        stops = self.run.stops
        if any(lane.open for lane in self.lanes.values()):
            stops.stop(StopReason.CANCELLED)
        await self.drain()
        for check, since in stops.unread_outages():
            mark = self.run.journal.answers.mark_outage
            await asyncio.to_thread(mark, self.run.run_id, check, since)
        if self.concludes:
            stops.conclude()
        if self.short and stops.ending()[0] == COMPLETED:
            stops.stop(StopReason.BUDGET)
        await self.client.aclose()
        if self.writer.caps.in_flight:
            askers, run_id = self.run.journal.askers, self.run.run_id
            with suppress(JournalError):  # other processes remove those that are gone
                await asyncio.to_thread(askers.leave, run_id, forget=self.concludes)
        self.writer.close()


# --- waiting for stops that may pass ---


LOOK_S = 1.0  # how soon a waiting run notices that it was cancelled


def seconds_to_resume(run: Run) -> float | None:
    """Return how long to wait before a stopped run tries again; None if it has ended.

    It waits only for stops that may pass by themselves (`TRANSIENT_STOPS`), and only if a deadline
    is set and leaves time.
    """
    stops, now = run.stops, run.clock()
    waits = [
        (next_day(now) - now) / MICROS
        if TRANSIENT_STOPS[reason].at_noon
        else run.settings.resume_every.total_seconds()
        for reason in stops.transient_stops()
    ]
    if stops.deadline_at is None or not waits:
        return None
    return min(waits) if min(waits) < (stops.deadline_at - now) / MICROS else None


async def wait_and_resume(run: Run, reopen: Callable[[], object]) -> bool:
    """Wait if a run's stop may pass before its deadline; return True if the run resumes.

    The stop stays if no deadline is set, if the next try would be after it, or if the run is
    cancelled meanwhile. The caller then opens a new session, which begins with fresh attempts.

    Args:
        run: the run, without calls in flight.
        reopen: queues lost and failed calls to be asked again, and returns False if none may be
            asked, so that the stop stays. It is not called after a used-up quota alone, since
            nothing was lost.
    """
    wait_s, stops = seconds_to_resume(run), run.stops
    if wait_s is None:
        return False
    loop = asyncio.get_running_loop()
    again_at, stop = loop.time() + wait_s, stops.reason
    stops.resting_since = run.clock()
    stops.resting_until = stops.resting_since + int(wait_s * MICROS)
    while (left_s := again_at - loop.time()) > 0:
        await asyncio.sleep(min(LOOK_S, left_s))
        if stops.reason != stop:
            stops.resting_since = None
            return False
    lost = any(not TRANSIENT_STOPS[reason].at_noon for reason in stops.transient_stops())
    if lost and reopen() is False:
        stops.resting_since = None
        return False
    stops.go_on()
    run.wallet.forget()
    return True
