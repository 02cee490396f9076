"""The laws: invariants that hold after every run, whatever happened in it.

Every end-to-end test calls `require_laws` after each run. It reads the run's folder, the journal
and, if the test recorded them, the calls on the wire. The laws are stated in terms of the contract,
independently of the code:

- every row has a result or a line in the quarantine, and every figure of the report agrees with the
  run's files (`recomputed`);
- the balance adds up, and every lookup has exactly one end;
- the journal is sound, agrees with the report on calls and money, and accounts for every naira of
  the service's own ledger;
- no cap or quota was exceeded at any instant, and nothing was sent without an intent (`Overseen`);
- no check that needs consent was asked without a consent valid at that instant;
- no file contains identifiers that do not belong there;
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
from nightscreen.schemas.consented import PulledKind
from nightscreen.schemas.money import to_micro
from tests.recomputed import Folder, differences

ENDS = ("paid", "free", "reused", "spared", "unreadable", "failed", "pending", "in_doubt")
"""The possible ends of a lookup; together they are all distinct lookups."""
GATED = ("ecosystem", "selfie")
"""Checks that are lawful only with consent: the specification's area B, rule 3."""
IDENTIFYING = ("bvn", "account_number", "phone", "email")
NAMELESS = (
    *("report.json", "report.html", "problems.csv", "calls.parquet", "changes.parquet"),
    "manifest.json",
)
"""Files without identifiers."""
MASKED = "(masked: it held an identifier)"
"""Replaces a consent reference that identifies a person."""
LEAST = 9  # shortest identifiers that are searched for: shorter ones may be any number
DOUBTFUL = ("intent", "in_doubt", "answered")
"""States of calls whose worst cost stays reserved while their cost is not known."""


class Overseen(httpx.AsyncBaseTransport):
    """Forwards calls, and checks that the journal has a committed intent for each call in flight.

    It reads the database as another process would. On PostgreSQL it only counts.

    Args:
        to: the transport that sends the calls.
        home: the journal's folder.

    Attributes:
        unannounced: number of calls sent before their intent.
        most_under_way: highest number of calls at one time.
    """

    def __init__(self, to: httpx.AsyncBaseTransport, home: Path) -> None:
        self._to, self._file = to, home / "journal.sqlite"
        self._database: sqlite3.Connection | None = None
        self._under_way = 0
        self.unannounced = 0
        self.most_under_way = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
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
    """Fail the test if a run broke a law; a run that only quotes is not checked.

    Args:
        path: the run's folder.
        settings: the run's settings.
        since: when this session of the run began, microseconds of the run's clock.
        wire: the transport that saw its calls, if the test has it.
        charged: naira that the service charged meanwhile by its own ledger, if the test has it.
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
    """Fail the test if the folder of a run below `path` breaks a law.

    For runs in other processes. Runs with erased or purged data are left out, since their rows no
    longer agree with the report.
    """
    for report in path.rglob("report.json"):
        folder, manifest = Folder(report.parent), report.with_name("manifest.json")
        is_complete = report.with_name("calls.parquet").exists() and manifest.exists()
        if is_complete and "rewritten" not in json.loads(manifest.read_text("utf-8")):
            broken = broken_laws(folder)
            if broken:
                raise AssertionError(f"{report.parent} breaks laws:\n" + "\n".join(broken))


def broken_laws(folder: Folder) -> list[str]:
    """Return a sentence for each law that a run's folder breaks."""
    return [
        *(
            f"{at}: the report has {reported}, its files {computed}"
            for at, (reported, computed) in differences(folder).items()
        ),
        *_about_statuses(folder),
        *_about_ends(folder),
        *_about_balance(folder.report),
        *_about_consent(folder),
        *_about_identifiers(folder),
        *undeclared_files(folder.path),
    ]


def undeclared_files(folder: Path) -> list[str]:
    """Return a sentence for each undeclared file in a run's folder, or pulled by the run."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    pulled = {path for kind in PulledKind for path in folder.parent.glob(f"{kind.folder}/**/*.*")}
    declared = {path for each in OUTPUTS if each.beside for path in each.files(folder)}
    undeclared = {path.name for path in pulled - declared if path.stem == folder.name}
    undeclared |= {each for each in names if declaration_of(each) is None}
    return [
        f"{name} is declared nowhere" for name in sorted(undeclared) if not name.startswith(".")
    ]


def require_declared_below(path: Path) -> None:
    """Fail the test if a run of any flow below `path` wrote an undeclared file."""
    undeclared = [
        each for report in path.rglob("report.json") for each in undeclared_files(report.parent)
    ]
    if undeclared:
        raise AssertionError("\n".join(undeclared))


def _about_statuses(folder: Folder) -> Iterator[str]:
    for check, declared in CHECKS.items():
        known = {str(status) for status in (*declared.answered, *NoAnswer)}
        unknown = {row[declared.status] for row in folder.rows} - known
        if unknown:
            yield f"{check} has unknown statuses: {unknown}"


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
    """Yield calls without a row whose consent allowed them at that instant."""
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
            yield f"{call['check']} was asked without a consent valid at {call['sent_at']}"


def consent_counts(row: dict[str, Any], at: datetime) -> bool:
    """Return whether a row's consent is valid at an instant; without an end, for twelve months."""
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
        number = sum(value in content for value in values)
        if number:
            yield f"{name} holds {number} identifiers"


def all_calls(journal: Journal) -> list[Any]:
    return [
        call
        for run in journal.runs.newest(limit=None)
        for block in journal.runs.calls(run.run_id)
        for call in block
    ]


def _of_the_run(folder: Folder, calls: list[Any]) -> list[Any]:
    return [call for call in calls if call.run_id == folder.report["run_id"]]


def _about_journal(folder: Folder, calls: list[Any]) -> Iterator[str]:
    of_run = _of_the_run(folder, calls)
    in_journal = [(call.call_id, call.state, call.cost_micro) for call in of_run]
    reported = [
        (call["call_id"], call["state"], None if call["cost"] is None else to_micro(call["cost"]))
        for call in folder.calls
    ]
    if sorted(in_journal, key=str) != sorted(reported, key=str):
        yield "calls.parquet is not what the journal holds"
    if folder.report["state"] == "completed" and any(call.state == "intent" for call in of_run):
        yield "a completed run has a call without an outcome"
    for call in of_run:
        # an intent has no outcome; a call in doubt has none either if its process died
        if call.state == "not_sent" and call.sent_at is not None:
            yield f"call {call.call_id} was not sent, but at {call.sent_at}"
        if call.state not in {"not_sent", "intent", "in_doubt"} and call.sent_at is None:
            yield f"call {call.call_id} is {call.state}, but nobody knows when it was sent"


def about_ledger(calls: list[Any], charged_micro: int) -> Iterator[str]:
    """Compare calls with the service's own ledger: the journal accounts for every naira of it."""
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
    """Yield the caps and quotas beyond which calls of this run were granted since an instant."""
    of_run = _of_the_run(folder, calls)
    cap = folder.report["cost"]["cap"]
    limits: list[tuple[str, Decimal | None, list[Any]]] = [("run", _naira(cap), of_run)]
    for period, most, length in (
        ("day", settings.daily_spend_cap, len("YYYY-MM-DD")),
        ("month", settings.monthly_spend_cap, len("YYYY-MM")),
    ):
        periods = {spending_day(call.intent_at)[:length] for call in of_run} if most else ()
        limits += [
            (period, most, [c for c in calls if spending_day(c.intent_at)[:length] == each])
            for each in periods
        ]
    for period, most, in_period in limits:
        if most is not None and (beyond := granted_beyond(in_period, to_micro(most), since)):
            yield f"{beyond} calls were granted beyond the {period}'s cap of {most}"
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
    """Return how many calls since an instant were granted although their worst cost did not fit.

    Cost beyond a call's reservation is not counted: a price that rose in flight is not a grant.
    """
    events = []
    for call in calls:
        events.append((call.intent_at, 1, call.call_id, call.reserved_micro, True))
        if call.cost_micro is None and call.state in DOUBTFUL:
            continue
        released = call.reserved_micro - min(call.cost_micro or 0, call.reserved_micro)
        settled = call.settled_at if call.settled_at is not None else call.intent_at
        events.append((max(settled, call.intent_at), 0, call.call_id, -released, False))
    bound = beyond = 0
    for at, _, _, change, is_grant in sorted(events):
        bound += change
        beyond += is_grant and at >= since and bound > cap_micro
    return beyond
