"""A large journal: size on disk, lookup speed, start-up time.

`python -m benchmarks.journal_size [ANSWERS]`; 200,000 by default. Ten million take some minutes and
sixteen gigabytes in `--folder` (a temporary one by default, removed at the end). Rows go in by SQL
in the shape that the journal itself writes, bodies as long as sealed ones are, indexes built at the
end as in a copy. A small journal, written through the journal's own way in, stands beside it: it
shows how much larger a journal is that has grown.

Reading: bytes an answer hold its call, both indexes and the sealed body. `cold` lookups come after
the file was dropped from the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measured import run_words
from nightscreen.journal import open_journal
from nightscreen.journal.opening import JOURNAL_FILE, Journal
from nightscreen.sandbox.people import ecosystem_of
from nightscreen.sandbox.wire import envelope, meta_text
from nightscreen.schemas.calls import CallResult, CallState, Caps, ReserveRequest
from nightscreen.schemas.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MICRO = 1_000_000
_BLOCK = 20_000
_GROWN = 20_000
_LOOKUPS = 100_000
_SEAL_BYTES = 4 + 12 + 16
_CHECKS = ("bank_account", "karma", "ecosystem")
_OUTCOMES = ("found", "clear", "found")
_DROP = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
_CALL = (
    'INSERT INTO calls (call_id, run_id, "check", kind, subject, purpose, attempt, holder, '
    "intent_at, reserved_micro, state, sent_at, settled_at, status, outcome, cost_micro, "
    "balance_micro, final) VALUES (?,?,?,'bvn',?,'portfolio',1,'holder-0123456789abcdef',?,?,"
    "'answered',?,?,200,?,?,?,1)"
)
_ANSWER = (
    'INSERT INTO answers (answer_id, "check", subject, outcome, answered_at, call_id, run_id, '
    "cost_micro, body) VALUES (?,?,?,?,?,?,?,?,?)"
)


def subject_of(number: int) -> bytes:
    """Return the made-up pseudonym of a number, spread like a keyed hash."""
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")


def body() -> bytes:
    """Return an answer's body as the simulator sends it, of the longest kind there is."""
    numbers = (f"22{n:09d}" for n in range(1000))
    record = next(found for found in map(ecosystem_of, numbers) if found)
    return envelope("success", "Successful", record, meta_text(25 * _MICRO, _MICRO))


def fill(file: Path, answers: int) -> None:
    """Write answers and their calls, then the indexes, the way a copy is made."""
    lengths = (len(body()) * 2 // 3, 90, len(body()))
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000")
        indexes = connection.execute(_DROP).fetchall()
        mine = [(name, made) for name, made in indexes if name.startswith(("calls_", "answers_"))]
        for name, _ in mine:
            connection.execute(f'DROP INDEX "{name}"')
        for start in range(1, answers + 1, _BLOCK):
            numbers = range(start, min(start + _BLOCK, answers + 1))
            with connection:
                connection.executemany(_CALL, _call_rows(numbers))
                connection.executemany(_ANSWER, _answer_rows(numbers, lengths))
        for _, made in mine:
            connection.execute(made)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _call_rows(numbers: range) -> Iterator[tuple[object, ...]]:
    at = system_clock()
    for n in numbers:
        run, check, outcome = f"run-{n // 100_000:05d}", _CHECKS[n % 3], _OUTCOMES[n % 3]
        price, balance = 10 * _MICRO, (answers_left(n)) * _MICRO
        yield (n, run, check, subject_of(n), at, price, at, at, outcome, price, balance)


def answers_left(number: int) -> int:
    """Return a balance that falls with each call, as a wallet's does."""
    return 10**9 - 10 * number


def _answer_rows(numbers: range, lengths: tuple[int, int, int]) -> Iterator[tuple[object, ...]]:
    at = system_clock()
    for n in numbers:
        run, check, outcome = f"run-{n // 100_000:05d}", _CHECKS[n % 3], _OUTCOMES[n % 3]
        sealed = os.urandom(lengths[n % 3] + _SEAL_BYTES)
        yield (n, check, subject_of(n), outcome, at, n, run, 10 * _MICRO, sealed)


def grow(journal: Journal, answers: int) -> None:
    """Write answers through the journal's own way in: a block of intents, a group of outcomes."""
    bodies = (body()[: len(body()) * 2 // 3], body()[:90], body())
    for place, check in enumerate(_CHECKS):
        for start in range(place, answers, 3 * 50):
            subjects = [subject_of(n) for n in range(start, min(answers, start + 150), 3)]
            asks = [ReserveRequest(check, "bvn", each, 10 * _MICRO, None, 1) for each in subjects]
            grants = journal.calls.reserve("run-00000", "portfolio", asks, Caps(), since=2**62)
            settled = [
                CallResult(
                    grant.call_id,
                    ask,
                    grant.intent_at,
                    CallState.ANSWERED,
                    system_clock(),
                    status=200,
                    outcome=_OUTCOMES[place],
                    cost_micro=10 * _MICRO,
                    balance_micro=_MICRO,
                    sent_at=grant.intent_at,
                    final=True,
                    body=bodies[place],
                )
                for ask, grant in zip(asks, grants, strict=True)
            ]
            journal.calls.settle("run-00000", settled)


def timed(work: Callable[[], object]) -> float:
    """Return the wall seconds that something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def lookups_us(journal: Journal, answers: int, check: str = "ecosystem") -> float:
    """Return microseconds for a key, looked up as a plan does, in ascending order."""
    step = max(1, answers // (3 * _LOOKUPS))
    keys = sorted(subject_of(n) for n in range(2, answers + 1, 3 * step))
    took = timed(lambda: journal.answers.latest_columns(check, b"".join(keys), "run", 0))
    return took / len(keys) * 1e6


def forget(file: Path) -> None:
    """Drop a file from the system's cache."""
    with file.open("rb") as open_:
        os.fsync(open_.fileno())
        os.posix_fadvise(open_.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_block_ms(journal: Journal, size: int = 50) -> float:
    """Return the milliseconds that a block of intents takes, the first one of a run."""
    asks = [
        ReserveRequest("karma", "bvn", os.urandom(16), 10 * _MICRO, None, 1) for _ in range(size)
    ]
    reserve = lambda: journal.calls.reserve("run", "portfolio", asks, Caps(), since=0)  # noqa: E731
    return timed(reserve) * 1000


def measure(folder: Path, answers: int) -> dict[str, float]:
    """Fill a journal and take its figures."""
    grown, large = folder / "grown", folder / "large"
    with open_journal(grown) as journal:
        grow(journal, _GROWN)
    found = {"grown bytes an answer": (grown / JOURNAL_FILE).stat().st_size / _GROWN}
    open_journal(large).close()
    file = large / JOURNAL_FILE
    found["seconds to fill"] = timed(lambda: fill(file, answers))
    found["bytes an answer"] = file.stat().st_size / answers
    found["GB"] = file.stat().st_size / 1e9
    forget(file)
    started = time.perf_counter()
    with open_journal(large) as journal:
        found["cold open, ms"] = (time.perf_counter() - started) * 1000
        found["recover, ms"] = timed(journal.calls.recover) * 1000
        found["first block of 50 intents, ms"] = one_block_ms(journal)
        found["cold lookup, us a key"] = lookups_us(journal, answers)
        found["warm lookup, us a key"] = lookups_us(journal, answers)
        found["block of 50 intents, ms"] = one_block_ms(journal)
    found["warm open, ms"] = timed(lambda: open_journal(large).close()) * 1000
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers", nargs="?", type=int, default=200_000)
    parser.add_argument("--folder", help="where there is room")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    words = run_words()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = measure(Path(folder), given.answers)
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.answers:,} answers; {words}")
    for name, value in found.items():
        print(f"{name:34}{value:12,.1f}")


if __name__ == "__main__":
    main()
