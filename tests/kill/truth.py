"""What a run must come to, asked of the simulator's people and of its ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nightscreen.journal import Journal
from nightscreen.sandbox.people import ecosystem_of, holder_of, karma_of
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.columns import IDENTIFIERS
from tests.laws import all_calls
from tests.screening import World

KIND = {"bank_account": "nuban", "karma": "bvn", "ecosystem": "bvn"}
CRASHED = "crashed"
ATTEMPTS = 5  # the default of NIGHTSCREEN_ATTEMPTS
_DOUBTFUL = {CallState.IN_DOUBT.value, CallState.INTENT.value}
Key = tuple[str, bytes]


def expected_status(check: str, row: dict[str, Any]) -> str:
    """Return the status the people of the sandbox give a whole row with consent."""
    bvn = row["bvn"]
    if check == "karma":
        return "clear" if karma_of(bvn) is None else "listed"
    if check == "ecosystem":
        return "not_found" if ecosystem_of(bvn) is None else "found"
    holder = holder_of(row["bank_code"], row["account_number"])
    if holder is None:
        return "not_found"
    return "verified" if holder.bvn == bvn else "mismatch"


def wrong_statuses(folder: Path, journal: Journal | None = None) -> list[str]:
    """Return what a run says that the people of the sandbox contradict.

    Args:
        folder: the run's folder.
        journal: given if many runs were killed; a lookup whose attempts are all in doubt, over all
            runs, must then be `in_doubt` until they are a day old.
    """
    doubts: Counter[Key] = Counter()
    if journal is not None:
        calls = all_calls(journal)
        doubts.update((row.check, bytes(row.subject)) for row in calls if row.state in _DOUBTFUL)
    wrong: list[str] = []
    for row in pq.read_table(folder / "enriched").to_pylist():
        for check, kind in KIND.items():
            status = row[f"{check}_status"]
            if status == "refused" and check == "ecosystem":
                continue
            truth = expected_status(check, row)
            if status == "in_doubt" and journal is not None:
                identity = IDENTIFIERS[IdentityKind(kind)].of(row)
                assert identity is not None
                key = check, journal.pseudonyms.subject(kind, identity)
                truth = "in_doubt" if doubts[key] >= ATTEMPTS else truth
            if status != truth:
                wrong.append(f"{row['customer_id']} {check}: {status}, not {truth}")
    return wrong


@dataclass(slots=True)
class Books:
    """The journal and the ledger of one night, side by side."""

    ledger_micro: int
    journal_micro: int
    calls: list[Any]  # the journal's rows
    answered: Counter[Key] = field(default_factory=Counter)
    doubts: Counter[Key] = field(default_factory=Counter)
    charges: Counter[Key] = field(default_factory=Counter)
    crashed: int = 0

    @property
    def charged_twice(self) -> list[Key]:
        return [key for key, times in self.charges.items() if times > 1]

    @property
    def unnamed(self) -> list[Key]:
        return [
            key
            for key, times in self.charges.items()
            if times > self.answered[key] + self.doubts[key]
        ]


def subject_of(journal: Journal, entry: dict[str, Any]) -> Key:
    kind = KIND[entry["operation"]]
    return entry["operation"], journal.pseudonyms.subject(kind, entry["identity"])


def ledger_of(world: World) -> dict[str, Any]:
    """Return what the service of a world says that it was asked and charged."""
    return {"totals": world.sandbox.ledger.totals_json(), "entries": world.calls()}


def books_of(journal: Journal, ledger: dict[str, Any], run_id: str | None = None) -> Books:
    """Put the journal's calls, of one run or of all, beside the ledger."""
    micro = int(Decimal(ledger["totals"]["charged"]) * 1_000_000)
    books = Books(micro, 0, [row for row in all_calls(journal) if run_id in {None, row.run_id}])
    for row in books.calls:
        key = (row.check, bytes(row.subject))
        books.journal_micro += row.cost_micro or 0
        books.crashed += row.trouble == CRASHED
        books.answered[key] += row.state == CallState.ANSWERED.value
        books.doubts[key] += row.state in _DOUBTFUL
    for entry in ledger["entries"]:
        if Decimal(entry["charged"]):
            books.charges[subject_of(journal, entry)] += 1
    return books
