"""The laws that hold after every night, whatever happened in it.

`require_laws` is called after every night of every end-to-end test. It reads the run's folder, the
journal and, where the test has it, what went over the wire; a law is stated in terms of the
contract, so that it outlives the code that keeps it:

- every row has a result or a line in the quarantine, and every figure of the report is what the
  files beside it come to (`recomputed`);
- the balance's equation holds, and every lookup came to one end;
- the journal is sound, holds the calls and the money that the report tells of, and accounts for
  every naira of the service's own ledger;
- no cap or quota was passed at any instant, and nothing was sent without an intent (`Overseen`);
- nothing that needs a consent was asked without one that was valid at that instant;
- no identifier stands where none belongs;
- every file is declared (`files/outputs.py`), so that erasure, purge and subject access reach it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from nightscreen.checks.registry import CHECKS
from nightscreen.config.settings import Settings
from nightscreen.files.outputs import OUTPUTS, declaration_of
from nightscreen.journal import Journal
from nightscreen.journal.opening import journal_of
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.clock import spending_day
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.pulls import PulledKind
from tests.recomputed import Folder, differences

ENDS = ("paid", "free", "reused", "spared", "unreadable", "failed", "pending", "in_doubt")
"""What may become of a lookup: together they are all that were needed."""
GATED = ("ecosystem", "selfie")
"""Checks that are lawful only with consent: the specification's area B, rule 3."""
IDENTIFYING = ("bvn", "account_number", "phone", "email")
NAMELESS = (
    *("report.json", "report.html", "problems.csv", "calls.parquet", "changes.parquet"),
    "manifest.json",
)
"""Files that hold no identifier."""
MASKED = "(masked: it held an identifier)"
"""In place of a consent reference that tells who it is about."""
LEAST = 9  # characters from which an identifier is searched for: shorter ones may be any number
DOUBTFUL = ("intent", "in_doubt", "answered")
"""States of calls whose worst cost stays reserved while their cost is not known."""


class Overseen(httpx.AsyncBaseTransport):
    """Passes calls on, and sees that the journal has an intent, committed, for each under way.

    It reads the database as another process would. On PostgreSQL it only counts.

    Args:
        to: carries the calls.
        home: where the journal lies.

    Attributes:
        unannounced: how many calls came before their intent.
        most_under_way: most calls at one time.
    """

    def __init__(self, to: httpx.AsyncBaseTransport, home: Path) -> None:
        self._to, self._file = to, home / "journal.sqlite"
        self._database: sqlite3.Connection | None = None
        self._under_way = 0
        self.unannounced = 0
        self.most_under_way = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass one call on."""
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            self.unannounced += self._intents() < self._under_way
            return await self._to.handle_async_request(request)
        finally:
            self._under_way -= 1

    def _intents(self) -> int:
        if self._database is None:
            if not self._file.exists():
                return self._under_way
            self._database = sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)
        query = "SELECT count(*) FROM calls WHERE state = 'intent'"
        return int(self._database.execute(query).fetchone()[0])

    async def aclose(self) -> None:
        """End the reading, and what carries the calls."""
        if self._database is not None:
            self._database.close()
            self._database = None
        await self._to.aclose()


def require_laws(
    path: Path,
    settings: Settings,
    since: int,
    wire: Overseen | None = None,
    charged: Decimal | None = None,
) -> None:
    """Fail the test where a night broke a law; one that only quotes has nothing to break.

    Args:
        path: the run's folder.
        settings: of the run.
        since: instant in microseconds at which this night began, by the run's own clock.
        wire: what saw its calls, where they went through the test.
        charged: naira that the service charged meanwhile by its own ledger, where the test has it.
    """
    if not (path / "report.json").exists() or not (path / "calls.parquet").exists():
        return
    folder = Folder(path)
    broken = broken_laws(folder)
    with journal_of(settings) as journal:
        calls = all_calls(journal)
        broken += [
            *verify_journal(journal),
            *_about_journal(folder, calls),
            *_about_caps(folder, calls, settings, since),
        ]
    is_open = any(each["state"] == "open" for each in folder.report["cost"]["disputed"])
    if charged is not None and not is_open:
        tonight = [call for call in calls if call.intent_at >= since]
        broken += about_ledger(tonight, to_micro(charged))
    if wire is not None and wire.unannounced:
        broken.append(f"{wire.unannounced} calls were sent before their intent")
    if broken:
        raise AssertionError("laws are broken:\n" + "\n".join(broken))


def require_laws_below(path: Path) -> None:
    """Fail the test where the folder of a run below some folder breaks a law.

    For nights that other processes screened. What was erased or purged since is not in the rows
    that a report counted.
    """
    for report in path.rglob("report.json"):
        folder, manifest = Folder(report.parent), report.with_name("manifest.json")
        whole = report.with_name("calls.parquet").exists() and manifest.exists()
        if whole and "rewritten" not in json.loads(manifest.read_text("utf-8")):
            broken = broken_laws(folder)
            if broken:
                raise AssertionError(f"{report.parent} breaks laws:\n" + "\n".join(broken))


def broken_laws(folder: Folder) -> list[str]:
    """Return a sentence for each law that a run's folder breaks by itself; none where all hold."""
    return [
        *(
            f"{at}: the report has {reported}, its files {found}"
            for at, (reported, found) in differences(folder).items()
        ),
        *_about_statuses(folder),
        *_about_ends(folder),
        *_about_balance(folder.report),
        *_about_consent(folder),
        *_about_identifiers(folder),
        *undeclared_files(folder.path),
    ]


def undeclared_files(folder: Path) -> list[str]:
    """Return a sentence for each file in a run's folder, or pulled by it, that nobody declared."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    pulled = {path for kind in PulledKind for path in folder.parent.glob(f"{kind.folder}/**/*.*")}
    declared = {path for each in OUTPUTS if each.beside for path in each.files(folder)}
    strange = {path.name for path in pulled - declared if path.stem == folder.name}
    strange |= {each for each in names if declaration_of(each) is None}
    return [f"{name} is declared nowhere" for name in sorted(strange) if not name.startswith(".")]


def require_declared_below(path: Path) -> None:
    """Fail the test where a run of any flow below some folder wrote a file that is not declared."""
    found = [
        each for report in path.rglob("report.json") for each in undeclared_files(report.parent)
    ]
    if found:
        raise AssertionError("\n".join(found))


def _about_statuses(folder: Folder) -> Iterator[str]:
    for check, declared in CHECKS.items():
        known = {str(word) for word in (*declared.answered, *NoAnswer)}
        strange = {row[declared.status] for row in folder.rows} - known
        if strange:
            yield f"{check} has statuses that nobody knows: {strange}"


def _about_ends(folder: Folder) -> Iterator[str]:
    for check, numbers in folder.report["checks"].items():
        ends = sum(numbers[end] for end in ENDS)
        if numbers["distinct"] != ends:
            yield f"{check}: {numbers['distinct']} lookups came to {ends} ends"
        if folder.report["state"] == "completed" and numbers["pending"]:
            yield f"{check}: a completed run has {numbers['pending']} lookups pending"


def _about_balance(report: dict[str, Any]) -> Iterator[str]:
    cost, balance = Decimal(report["cost"]["total"]), report["balance"]
    drift = Decimal(balance["drift"])
    if balance["opening"] is None:
        if drift:
            yield "there is drift without any balance"
        return
    taken = cost + Decimal(balance["explained_in_doubt"]) + drift
    if Decimal(balance["opening"]) - taken != Decimal(balance["closing"]):
        yield f"the balance does not add up: {balance}, cost {cost}"


def _about_consent(folder: Folder) -> Iterator[str]:
    """Look for calls without a row whose consent allowed them at that instant."""
    rows_of: dict[str, list[dict[str, Any]]] = {MASKED: []}
    for row in folder.rows:
        if reference := row.get("consent_reference"):
            rows_of.setdefault(reference, []).append(row)
            rows_of[MASKED].append(row)
    for call in folder.sent:
        if call["check"] not in GATED or call["sent_at"] is None:
            continue
        if not any(
            row[f"{call['check']}_status"] != "refused" and consent_counts(row, call["sent_at"])
            for row in rows_of.get(call["consent_reference"], ())
        ):
            yield f"{call['check']} was asked without a consent that counted at {call['sent_at']}"


def consent_counts(row: dict[str, Any], at: datetime) -> bool:
    """Return whether a row's consent is valid at an instant: for twelve months, if not said."""
    given: datetime | None = row.get("consented_at")
    until: datetime | None = row.get("consent_expires_at")
    withdrawn: datetime | None = row.get("consent_withdrawn_at")
    if given is None or given > at or (withdrawn is not None and withdrawn <= at):
        return False
    if until is not None:
        return at < until
    return (at - given).days <= 366


def _about_identifiers(folder: Folder) -> Iterator[str]:
    values = {
        str(row[name]).removeprefix("+234").encode()
        for row in folder.rows
        for name in IDENTIFYING
        if row.get(name) and len(str(row[name])) >= LEAST
    }
    for name in NAMELESS:
        path = folder.path / name
        content = path.read_bytes() if path.exists() else b""
        found = sum(value in content for value in values)
        if found:
            yield f"{name} holds {found} identifiers"


def all_calls(journal: Journal) -> list[Any]:
    """Return the calls of all runs."""
    return [
        call
        for run in journal.runs.newest(limit=None)
        for block in journal.runs.calls(run.run_id)
        for call in block
    ]


def _of_the_run(folder: Folder, calls: list[Any]) -> list[Any]:
    return [call for call in calls if call.run_id == folder.report["run_id"]]


def _about_journal(folder: Folder, calls: list[Any]) -> Iterator[str]:
    mine = _of_the_run(folder, calls)
    kept = [(call.call_id, call.state, call.cost_micro) for call in mine]
    reported = [
        (call["call_id"], call["state"], None if call["cost"] is None else to_micro(call["cost"]))
        for call in folder.calls
    ]
    if sorted(kept, key=str) != sorted(reported, key=str):
        yield "calls.parquet is not what the journal holds"
    if folder.report["state"] == "completed" and any(call.state == "intent" for call in mine):
        yield "a completed run has a call without an outcome"


def about_ledger(calls: list[Any], charged_micro: int) -> Iterator[str]:
    """Hold calls against the service's own ledger of them: no naira of it is without a name."""
    known = sum(call.cost_micro or 0 for call in calls)
    doubtful = sum(
        call.reserved_micro for call in calls if call.cost_micro is None and call.state in DOUBTFUL
    )
    if not known <= charged_micro <= known + doubtful:
        yield (
            f"the service charged {charged_micro} micro-naira; {known} are known, at most "
            f"{doubtful} more in doubt"
        )


def _about_caps(folder: Folder, calls: list[Any], settings: Settings, since: int) -> Iterator[str]:
    """Look whether a call of this night was granted beyond a cap or a quota."""
    mine = _of_the_run(folder, calls)
    cap = folder.report["cost"]["cap"]
    limits: list[tuple[str, Decimal | None, list[Any]]] = [("run", _naira(cap), mine)]
    for word, most, length in (
        ("day", settings.daily_spend_cap, len("YYYY-MM-DD")),
        ("month", settings.monthly_spend_cap, len("YYYY-MM")),
    ):
        periods = {spending_day(call.intent_at)[:length] for call in mine} if most else ()
        limits += [
            (word, most, [c for c in calls if spending_day(c.intent_at)[:length] == each])
            for each in periods
        ]
    for word, most, those in limits:
        if most is not None and (beyond := granted_beyond(those, to_micro(most), since)):
            yield f"{beyond} calls were granted beyond the {word}'s cap of {most}"
    sent = Counter(
        (spending_day(call.intent_at), call.check) for call in calls if call.state != "not_sent"
    )
    for check, most_calls in settings.max_per_day.items():
        for (day, of), number in sent.items():
            if of == check and number > most_calls:
                yield f"{number} calls of {check} on {day}, of {most_calls}"


def _naira(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def granted_beyond(calls: list[Any], cap_micro: int, since: int) -> int:
    """Return how many calls since an instant were granted where their worst cost did not fit.

    What a call cost beyond its reservation is not counted: a price that rose in flight is no
    grant.
    """
    events = []
    for call in calls:
        events.append((call.intent_at, 1, call.call_id, call.reserved_micro, True))
        if call.cost_micro is None and call.state in DOUBTFUL:
            continue
        left = call.reserved_micro - min(call.cost_micro or 0, call.reserved_micro)
        settled = call.settled_at if call.settled_at is not None else call.intent_at
        events.append((max(settled, call.intent_at), 0, call.call_id, -left, False))
    bound = beyond = 0
    for at, _, _, change, is_grant in sorted(events):
        bound += change
        beyond += is_grant and at >= since and bound > cap_micro
    return beyond
