"""Asking: the funded lookups of a run, round by round, between an opening and a closing call.

Each round funds the next lookups in rank with the money there is; what settles below its
reservation funds the next round. The calls themselves are made by `lookups`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from client.api import Client
from client.limiter import AdaptiveCap
from client.manners import Trouble
from client.wire import lookup_request
from schemas.checks import BALANCE_ON_EVERY_ANSWER, Check, IdentityKind, Lookup, Operation
from schemas.errors import ServiceAddressError
from schemas.plan import Standing
from steps.callbook import CallBook
from steps.control import ADDRESS, StopReason
from steps.lookups import Job, Pace, Window
from steps.price import fund

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx
    from numpy.typing import NDArray

    from client.classify import Reading
    from schemas.settings import MaxInFlight, TimeoutsS
    from steps.line import Line

_BVN = "bvn"


@dataclass(slots=True)
class Asking:
    """What is open while a run asks."""

    line: Line
    client: Client
    book: CallBook
    windows: dict[Check, Window] = field(default_factory=dict)
    round: int = 0
    waiting: int = -1
    closing: int | None = None

    async def close(self) -> None:
        """Let everything in flight settle, then close connections and the journal's thread."""
        for window in self.windows.values():
            await window.drain()
        await self.book.drain()
        await self.client.aclose()
        self.book.close()


def _by_operation(group: MaxInFlight | TimeoutsS) -> dict[str, float]:
    known = {*(operation.value for operation in Operation), _BVN}
    return {name: value for name, value in group if name in known}


def open_asking(line: Line, *, transport: httpx.AsyncBaseTransport | None = None) -> Asking:
    """Open the client, the call book and a window for each check."""
    settings = line.settings
    in_flight = {name: int(value) for name, value in _by_operation(settings.max_in_flight).items()}
    wanted = {check.value for check in line.wanted.checks}
    client = Client(
        settings.base_url,
        settings.api_key.get_secret_value(),
        timeouts_s=_by_operation(settings.timeout_s),
        max_in_flight={name: cap if name in wanted else 1 for name, cap in in_flight.items()},
        transport=transport,
    )
    book = CallBook(
        line.journal.calls,
        run_id=line.run_id,
        purpose=line.wanted.purpose.value,
        caps=line.caps,
        since=line.freshness.at,
    )
    asking = Asking(line, client, book)
    pace = Pace(settings.attempts, random.Random())  # noqa: S311 - jitter, not a secret

    async def send(lookup: Lookup) -> Reading:
        return await client.send(lookup_request(lookup))

    for check in line.wanted.checks:
        asking.windows[check] = Window(
            check,
            send=send,
            book=book,
            cap=AdaptiveCap(getattr(settings.max_in_flight, check.value)),
            control=line.control,
            pace=pace,
            clock=line.clock,
        )
    return asking


def make_jobs(table: pa.Table, worst: Sequence[int]) -> list[Job]:
    """Return one job for each lookup of a table in the shape of `schemas.plan.NEEDED`."""
    return [
        Job(
            lookup=Lookup(
                Check(row["check"]), IdentityKind(row["kind"]), row["identity"], row["image_url"]
            ),
            subject=row["subject"],
            worst_micro=int(cost),
            consent_reference=row["consent_reference"],
        )
        for row, cost in zip(table.to_pylist(), worst, strict=True)
    ]


async def ask_indexes(asking: Asking, table: pa.Table, indexes: NDArray[np.int64]) -> None:
    """Ask lookups of one check and note what became of each."""
    line = asking.line
    if not len(indexes):
        return
    jobs = make_jobs(table, line.worst[indexes].tolist())
    done = await asking.windows[jobs[0].lookup.check].ask(jobs)
    for index, job in zip(indexes, done, strict=True):
        line.standing[index] = job.standing.value


async def open_books(asking: Asking) -> None:
    """Ask one lookup alone, so that the opening balance is exact and the service is known.

    Raises:
        ServiceAddressError: the address answers, but not as the service does.
    """
    line = asking.line
    needed = line.workspace.get("needed")
    for candidates in _openers(line):
        if line.control.stop is not None or not len(candidates):
            break
        one = candidates[:1]
        await ask_indexes(asking, needed.take(one), one)
        if line.standing[one[0]] in {Standing.PAID, Standing.FREE}:
            break
        if line.control.answered == 0 and _never_reached(line):
            line.control.stop_run(StopReason.OUTAGE)
    if line.control.stop == ADDRESS and line.control.answered == 0:
        raise ServiceAddressError(
            f"{line.settings.base_url} answers, but not as the service does (an unknown 404 or a "
            "redirect): correct NIGHTSCREEN_BASE_URL; nothing was spent"
        )


def _never_reached(line: Line) -> bool:
    """Tell whether no call could even be sent: nothing listens at the address."""
    return bool(line.control.troubles) and all(
        trouble == Trouble.NOT_SENT.value for _, trouble in line.control.troubles
    )


def _openers(line: Line) -> list[NDArray[np.int64]]:
    """Return funded lookups that can open the books, by check, those with a sure balance first."""
    money = money_left(line)
    funded = fund(line.order, line.worst, money)
    by_check = {
        check: funded[line.checks_of[funded] == check.value] for check in line.wanted.checks
    }
    sure = [by_check[check] for check in BALANCE_ON_EVERY_ANSWER if check in by_check]
    rest = [found for check, found in by_check.items() if check not in BALANCE_ON_EVERY_ANSWER]
    return [found for found in (*sure, *rest) if len(found)]


def money_left(line: Line) -> int | None:
    """Return micro-naira still free under every cap, or None where there is no cap."""
    money, caps = line.journal.money, line.caps
    rooms = [
        cap - spent().bound_micro
        for cap, spent in (
            (caps.run_micro, partial(money.of_run, line.run_id)),
            (caps.day_micro, money.today),
            (caps.month_micro, money.this_month),
        )
        if cap is not None
    ]
    return max(0, min(rooms)) if rooms else None


def next_round(asking: Asking) -> dict[Check, list[str]]:
    """Fund the next lookups in rank and lay them out as shards in the workspace.

    Returns:
        Names of the shards of each check; empty where nothing more is needed or can be funded.
    """
    line = asking.line
    if line.control.stop is not None:
        return {}
    waiting = line.order[line.standing[line.order] == Standing.WAITING.value]
    stopped = {check.value for check in line.control.stopped_checks}
    open_ = np.array([check not in stopped for check in line.checks_of[waiting]], dtype=bool)
    waiting = waiting[open_]
    money = money_left(line)
    if asking.closing is not None:
        waiting = waiting[waiting != asking.closing]
        money = None if money is None else max(0, money - int(line.worst[asking.closing]))
    for check, highest in line.control.highest_micro.items():
        mine = line.checks_of == check.value
        line.worst[mine] = np.maximum(line.worst[mine], highest)
    funded = fund(waiting, line.worst, money)
    if asking.closing is None:
        asking.closing = _closer(line, funded)
        funded = funded[funded != asking.closing]
    stuck = len(waiting) == asking.waiting
    asking.waiting = len(waiting)
    if stuck or not len(funded):
        if len(waiting):
            line.control.stop_run(StopReason.BUDGET)
        return {}
    asking.round += 1
    return _lay_out(asking, funded)


def _closer(line: Line, funded: NDArray[np.int64]) -> int | None:
    """Choose the last funded lookup that is sure to bear a balance, to close the books with."""
    sure = [check.value for check in BALANCE_ON_EVERY_ANSWER]
    bearing = funded[np.isin(line.checks_of[funded].astype(str), sure)]
    return int(bearing[-1]) if len(bearing) else None


def _lay_out(asking: Asking, funded: NDArray[np.int64]) -> dict[Check, list[str]]:
    line = asking.line
    needed = line.workspace.get("needed")
    shards: dict[Check, list[str]] = {}
    for check in line.wanted.checks:
        mine = funded[line.checks_of[funded] == check.value]
        names: list[str] = []
        for start in range(0, len(mine), line.settings.shard_rows):
            indexes = mine[start : start + line.settings.shard_rows]
            name = f"lookups-{check.value}-{asking.round:03d}-{len(names):05d}"
            line.workspace.put(name, _indexed(needed, indexes))
            names.append(name)
        if names:
            shards[check] = names
    return shards


def _indexed(needed: pa.Table, indexes: NDArray[np.int64]) -> pa.Table:
    return needed.take(pa.array(indexes)).append_column("index", pa.array(indexes))


async def ask_shard(asking: Asking, name: str) -> Mapping[str, int]:
    """Ask one shard's lookups; return how many came to which end."""
    table = asking.line.workspace.get(name)
    indexes = table["index"].to_numpy()
    await ask_indexes(asking, table.drop_columns(["index"]), indexes)
    ends, counts = np.unique(asking.line.standing[indexes], return_counts=True)
    return {
        Standing(int(end)).name.lower(): int(number)
        for end, number in zip(ends, counts, strict=True)
    }


async def close_books(asking: Asking) -> None:
    """Ask the lookup that was held back, once all else has settled, for an exact closing."""
    line = asking.line
    if asking.closing is None or line.control.stop is not None:
        return
    for window in asking.windows.values():
        await window.drain()
    needed = line.workspace.get("needed")
    one = np.array([asking.closing], dtype=np.int64)
    await ask_indexes(asking, needed.take(one), one)
