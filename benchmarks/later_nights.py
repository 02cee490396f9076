"""Later nights: which share of a portfolio comes newly onto the decision list, on made-up people.

`python -m benchmarks.later_nights [--daily] [ROWS]`; by default 1,000 rows, as the demo makes them.
The
simulator's world changes by the day (listings, histories, accounts), and so does the clock: the
first night asks about everybody, the next two reuse almost all, day 8 finds most of karma old, and
day 15 again, with histories that were not found two weeks ago. Who is new on the list is counted by
the answer that brought them there: `otherwise` would be somebody of whom nothing new was learned.
With `--daily` a clear answer of karma counts for one day, and three nights follow each other.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from benchmarks.measured import run_words
from nightscreen.cli.demo import DAMAGE_PCT, SEED
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.screening import World

if TYPE_CHECKING:
    from tests.screening import Night

ROWS = 1_000
DAYS = (0, 1, 2, 8, 9, 15)
DAILY = (0, 1, 2, 3)


def listed(night: Night) -> dict[str, str]:
    """Return decision by customer of a night's list."""
    with (night.folder / "decisions.csv").open(encoding="utf-8", newline="") as file:
        return {row["customer_id"]: row["decision"] for row in csv.DictReader(file)}


def answers(night: Night) -> dict[str, tuple[str, ...]]:
    """Return by customer what karma, ecosystem and bank account answered, the amounts included."""
    rows = (
        duckdb.read_parquet(f"{night.folder}/enriched/*.parquet")
        .project(
            "customer_id, concat(karma_status, karma_listings::VARCHAR), concat(ecosystem_status, "
            "ecosystem_past_due_loans, ecosystem_past_due_loan_amount_due, ecosystem_name_match), "
            "bank_account_status"
        )
        .fetchall()
    )
    return {row[0]: row[1:] for row in rows}


def _clock(day: int) -> int:
    """Return the present instant, so many days on."""
    return system_clock() + day * DAY_MICROS


def _why(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """Return which answer differs."""
    words = ("a listing", "a history", "an account")
    return next(
        (word for word, was, each in zip(words, before, now, strict=True) if was != each),
        "otherwise",
    )


def main(rows: int, *, nightly: bool) -> None:
    """Screen the same people on several days and print who is new on the list."""
    print(run_words())
    print("| day | customers | asked | on the list | newly on it | newly, % | a day, % | after |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        file = Path(folder) / "customers.csv"
        make_batch(file, rows=rows, seed=SEED, damage_pct=DAMAGE_PCT)
        before: dict[str, str] = {}
        known: dict[str, tuple[str, ...]] = {}
        so_far = 0
        freshness = ["karma.clear=1"] if nightly else []
        for day in DAILY if nightly else DAYS:
            world.clock = partial(_clock, day)
            world.sandbox.day = day
            night = world.screen(input=str(file), batch="customers", freshness=freshness)
            now, heard = listed(night), answers(night)
            screened = night.report["rows"]["screened"]
            asked = sum(check["attempts"] for check in night.report["checks"].values())
            new = now.keys() - before.keys()
            so_far += len(new) if before else 0
            shown = f"{100 * len(new) / screened:.2f}" if before else "first night"
            daily = f"{100 * so_far / screened / day:.2f}" if day else ""
            why = Counter(_why(known[each], heard[each]) for each in new) if before else {}
            after = ", ".join(f"{word} {number}" for word, number in sorted(why.items()))
            print(
                f"| {day} | {screened:,} | {asked:,} | {len(now):,} | {len(new):,} | {shown} "
                f"| {daily} | {after} |"
            )
            before, known = now, heard


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--daily"]
    main(int(given[0]) if given else ROWS, nightly="--daily" in sys.argv)
