"""Server time of each page of the desk over runs of many rows.

`python -m benchmarks.desk_pages [ROWS ...]`; by default 100,000 rows. Two nights are answered
straight into the journal, and `--runs` earlier ones (3,000) written into it whose files are gone;
then each page is asked for in this process, without a socket. *First* is a desk that has just begun
and prepared itself, which is the first line; *usual* is the median of nine more requests, each of
another customer where the page has one, and *CPU* the same in CPU time, which other programs on the
machine disturb less. Milliseconds are of this machine; the aim is under 150 for each page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
from sqlalchemy import insert

from benchmarks.measured import run_words
from benchmarks.warm import night
from nightscreen.config.settings import read_settings
from nightscreen.desk.accounts import Role
from nightscreen.desk.app import application
from nightscreen.desk.run_rows import Filter, RunRowsCache
from nightscreen.desk.seat import Seat
from nightscreen.journal import open_journal
from nightscreen.journal.engine import writing
from nightscreen.journal.schema import runs, spend
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.clock import spending_day, to_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.schemas.approvals import Approval

ORIGIN: Final = "http://127.0.0.1:8090"
ROUNDS: Final = 10
PAGES: Final = (
    ("tonight", "/"),
    ("runs", "/runs"),
    ("one run", "/runs/{run}"),
    ("decisions of all batches", "/decisions"),
    ("a run's list", "/runs/{run}/decisions?decision=decline&decision=review&decision=undecided"),
    ("list, second page", "/runs/{run}/decisions?page=1"),
    ("list, one reason", "/runs/{run}/decisions?reason=PAST_DUE"),
    ("list, search", "/runs/{run}/decisions?search={customer}"),
    ("customer of a run", "/customers/{customer}?run={run}"),
    ("customer by id alone", "/customers/{customer}"),
    ("approvals", "/approvals"),
    ("contests", "/contests"),
    ("policy", "/policy"),
    ("money", "/money"),
    ("audit", "/audit"),
    ("new file", "/new"),
    ("users", "/users"),
)
_DAY: Final = 86_400_000_000


class _NoStarter:
    """Starts nothing."""

    def start(self, parameters: ScreenBatch) -> None:
        raise NotImplementedError

    def resume(self, approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool) -> None:
        raise NotImplementedError

    def stop(self, run_id: str, pid: int | None) -> None:
        raise NotImplementedError


def prepare(folder: Path, rows: int, earlier: int) -> None:
    """Screen two nights and write earlier ones down, unless the folder has them."""
    if not (folder / "in.csv").exists():
        make_batch(folder / "in.csv", rows=rows, seed=1)
        night(folder)
        night(folder)
        _write_earlier(folder, earlier)


def _write_earlier(folder: Path, number: int) -> None:
    """Write runs down as if each of so many days before had had one."""
    with open_journal(folder / "home") as journal:
        newest = journal.runs.newest(limit=1)[0]
        days = [newest.started_at - _DAY * each for each in range(1, number + 1)]
        every = [
            {
                **{name: getattr(newest, name) for name in ("flow", "purpose", "input_digest")},
                "run_id": f"{to_instant(day):%Y%m%d-%H%M%S}-{place:06x}",
                "batch": f"batch-{place % 5}",
                "state": "completed",
                "started_at": day,
                "finished_at": day + _DAY // 24,
                "folder": str(folder / "gone" / str(place)),
                "parameters": json.dumps(newest.parameters),
                "report": json.dumps(newest.report),
            }
            for place, day in enumerate(days)
        ]
        counters = [
            {"scope": scope, "spent_micro": 10**9, "reserved_micro": 0, "calls": 100}
            for run in every
            for scope in (f"run:{run['run_id']}", f"day:{spending_day(run['started_at'])}:karma")
        ]
        with writing(journal.engine) as connection:
            connection.execute(insert(runs), every)
            connection.execute(insert(spend), counters)


def measure(folder: Path) -> list[tuple[str, float, float, float, float]]:
    """Return each page's name and milliseconds, by the clock and of CPU: first, then the median."""
    settings = read_settings(base_url="http://127.0.0.1:9", api_key="none", home=folder / "home")
    found: list[tuple[str, float, float, float, float]] = []
    with open_journal(folder / "home") as journal:
        run = journal.runs.newest(batch="benchmark", limit=1)[0]
        rows = RunRowsCache().of(run)
        assert rows is not None
        places = (rows.rows * each // ROUNDS for each in range(ROUNDS))
        customers = [rows.page(Filter(), place, 1)[0]["customer_id"] for place in places]
        for name, address in PAGES:
            seat = Seat(journal, settings, _NoStarter(), frozenset({ORIGIN}), folder / "out")
            began, busy = time.perf_counter(), time.process_time()
            seat.prepare()
            if not found:
                ms = 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)
                found.append(("(prepares itself)", *ms, *ms))
            taken = asyncio.run(_taken(seat, address, run.run_id, customers))
            wall, cpu = zip(*taken, strict=True)
            median = statistics.median
            found.append((name, wall[0], cpu[0], median(wall[1:]), median(cpu[1:])))
    return found


async def _taken(
    seat: Seat, address: str, run: str, customers: Sequence[str]
) -> list[tuple[float, float]]:
    accounts = seat.accounts
    user = accounts.find("bench")
    if user is None:
        user = accounts.use_link(accounts.add("bench", list(Role)), "bench", "a long password")
    cookies = {"nightscreen-desk": accounts.sign_in(user)}
    transport = httpx.ASGITransport(application(seat))
    taken = []
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, cookies=cookies) as client:
        await client.get("/health")
        for customer in customers:
            began, cpu = time.perf_counter(), time.process_time()
            answer = await client.get(address.format(run=run, customer=customer))
            spent = time.perf_counter() - began, time.process_time() - cpu
            taken.append((1000 * spent[0], 1000 * spent[1]))
            assert answer.status_code == 200, (address, answer.status_code)
    return taken


def main() -> None:
    """Measure every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[100_000])
    parser.add_argument("--runs", type=int, default=3000, help="earlier runs, of a day each")
    parser.add_argument("--folder", help="where to work, and to leave everything")
    given = parser.parse_args()
    print(run_words())
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(given.folder or made)
            prepare(folder, rows, given.runs)
            print(f"{rows:,} rows, {given.runs:,} earlier runs, ms of server time")
            print(f"{'page':28}{'first':>8}{'CPU':>8}{'usual':>8}{'CPU':>8}")
            for name, *figures in measure(folder):
                print(name.ljust(28) + "".join(f"{ms:8.0f}" for ms in figures), flush=True)


if __name__ == "__main__":
    main()
