"""One odd answer never ends a night: a table of moments and answers."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau, Fault
from tests.money.test_stops import honest

ROWS = 40
HTML = b"<html><body>Request blocked</body></html>"
ODD: dict[str, Canned] = {
    "404 of a proxy": Canned(404, b"<html>nothing here</html>"),
    "302": Canned(302, b""),
    "403 of a firewall": Canned(403, HTML),
    "401": Canned(401, {"status": "error", "message": "Invalid Authorization"}),
    "402": Canned(402, {"status": "error", "message": "Insufficient balance"}),
    "500 about a price": Canned(
        500, {"status": "error", "message": "could not find a matching price definition"}
    ),
    "200 and nothing": Canned(200, {}),
}
WORDS = {
    "404 of a proxy": "address",
    "302": "address",
    "403 of a firewall": "auth",
    "401": "auth",
    "402": "balance",
    "500 about a price": "unpriced",
    "200 and nothing": "test_mode",
}


ONE_OF_EACH = ("404 of a proxy", "403 of a firewall", "402", "200 and nothing")
IDENTITIES = {"bvn": "bvn", "phone": "phone", "email": "email"}
"""Kinds of karma identities, and their columns in the batch."""
CASES = [
    *(("middle", odd) for odd in ONE_OF_EACH),
    *(("opening", "302"), ("first of karma", "401"), ("closing", "500 about a price")),
]
"""Each moment and each answer once."""


@lru_cache(maxsize=1)
def order() -> tuple[tuple[str, str], ...]:
    """Return operation and identity of each call of a night in which nothing is odd."""
    with TemporaryDirectory() as folder:
        bureau = Bureau(Path(folder), rows=ROWS)
        bureau.night()
        return tuple(entry[:2] for entry in bureau.service.ledger)


def poisoned(moment: str) -> tuple[str, str]:
    """Return the lookup that is asked at a moment of the night."""
    calls = order()
    found = {
        "opening": calls[0],
        "first of karma": next(call for call in calls if call[0] == "karma"),
        "middle": calls[len(calls) // 2],
        "closing": calls[-1],
    }
    return found[moment]


def always(poison: tuple[str, str], odd: Canned) -> Fault:
    """Return a fault that one lookup always meets."""
    return lambda operation, identity, _: odd if (operation, identity) == poison else None


def troubles(bureau: Bureau, report: dict[str, Any]) -> set[str]:
    """Return why calls brought no answer, as `calls.parquet` has it."""
    table = pq.read_table(bureau.folder / "out" / report["run_id"] / "calls.parquet")
    return set(table["trouble"].to_pylist()) - {None}


def failed(report: dict[str, Any]) -> int:
    """Return how many lookups failed."""
    return sum(int(part["failed"]) for part in report["checks"].values())


@pytest.mark.parametrize(("moment", "odd"), CASES)
def test_one_odd_answer_is_that_lookups_failure(moment: str, odd: str, tmp_path: Path) -> None:
    """Whatever one lookup is answered, and whenever, all others are asked, paid and kept."""
    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = always(poisoned(moment), ODD[odd])
    report = bureau.night().report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert failed(report) == 1
    assert sum(part["pending"] for part in report["checks"].values()) == 0
    assert troubles(bureau, report) == {WORDS[odd]}
    honest(report, bureau)


@pytest.mark.parametrize("odd", ONE_OF_EACH[:1])
def test_one_customer_with_several_identifiers_is_one_witness(odd: str, tmp_path: Path) -> None:
    """A customer about whom every question is answered oddly, first of all, ends no night."""
    asked: dict[str, Any] = {"checks": ("karma",), "karma_identities": tuple(IDENTITIES)}
    bureau = Bureau(tmp_path / "before", rows=ROWS)
    (tmp_path / "before").mkdir()
    bureau.night(**asked)
    first = bureau.service.ledger[0][1]
    with (bureau.folder / "in.csv").open(encoding="utf-8", newline="") as file:
        theirs = next(row for row in csv.DictReader(file) if first in row.values())
    identities = {theirs[column] for column in IDENTITIES.values()}
    identities |= {f"+234{theirs['phone'][-10:]}"}  # as it is asked, however the file has it

    bureau = Bureau(tmp_path, rows=ROWS)
    bureau.service.before = lambda _, identity, __: ODD[odd] if identity in identities else None
    report = bureau.night(**asked).report
    assert (report["state"], report["stop_reason"]) == ("completed", None)
    assert failed(report) == len(IDENTITIES)
    honest(report, bureau)
