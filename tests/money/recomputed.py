"""The figures of a report, reckoned again from the files beside it by SQL alone.

An independent reading of what the columns mean: nothing of the product is imported here.

    python -m tests.money.recomputed out/RUN_ID
"""

# ruff: noqa: S608 - the queries are made of this file's own words alone

from __future__ import annotations

import csv
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterable

CHECKS = ("bank_account", "karma", "ecosystem", "selfie")
IDENTITY = {
    "bank_account": "bank_code || '-' || account_number",
    "karma": "bvn",
    "ecosystem": "bvn",
}
ANSWERED = {
    "bank_account": "'verified','mismatch','unconfirmed','not_found'",
    "karma": "'listed','clear'",
    "ecosystem": "'found','not_found'",
    "selfie": "'match','no_match','unsure'",
}
CAUSES = ("test_mode", "pending", "failed", "unreadable", "in_doubt", "refused", "invalid")
WAITING = CAUSES[:5]
BASES = {"found": "with_history", "not_found": "no_history", "refused": "no_consent"}
NOT_ASKED = ("off", "ineligible", "invalid")
WEIGHT = "count(*), sum(exposure), count(*) - count(exposure)"


class Folder:
    """A run's folder as tables: `e` the enriched rows, `c` the calls, `ch` the changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sql = duckdb.connect()
        self.sql.execute(
            f"create view raw as select * from read_parquet('{path}/enriched/part-*.parquet')"
        )
        names = [row[0] for row in self.sql.execute("describe raw").fetchall()]
        exposure = "exposure" if "exposure" in names else "null::decimal(18,2) as exposure"
        kept = ", ".join(f'"{name}"' for name in names if name != "exposure")
        self.sql.execute(f"create view e as select {kept}, {exposure} from raw")
        self.sql.execute(f"create view c as select * from read_parquet('{path}/calls.parquet')")
        self.sql.execute(f"create view ch as select * from read_parquet('{path}/changes.parquet')")

    def all(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.sql.execute(query).fetchall()

    def one(self, query: str) -> Any:  # noqa: ANN401 - any cell
        """Return the one cell of a query."""
        return self.all(query)[0][0]

    def lines(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file; none where it is not there."""
        path = self.path / name
        if not path.exists():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def naira(value: Any) -> str:  # noqa: ANN401 - a number of any kind
    """Return an amount as the report writes it."""
    return f"{Decimal(value or 0):.2f}"


def weight(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return rows, exposure and rows of unknown exposure."""
    return {"rows": row[0], "exposure": naira(row[1]), "unknown_rows": row[2]}


def recomputed(path: Path, judged_at: str) -> dict[str, Any]:
    """Return the parts of a report that its folder's files alone tell.

    Args:
        path: the run's folder.
        judged_at: the instant from which the age of evidence counts.
    """
    folder = Folder(path)
    screened = folder.one("select count(*) from e")
    quarantined = len(folder.lines("quarantine.csv"))
    cost = folder.one("select coalesce(sum(cost), 0) from c where state <> 'not_sent'")
    flagged = folder.one("select count(*) from e where decision in ('decline', 'review')")
    asked = [
        check
        for check in CHECKS
        if folder.one(f"select count(*) from e where {check}_status <> 'off'")
    ]
    return {
        "rows": {
            "read": screened + quarantined,
            "screened": screened,
            "quarantined": quarantined,
        },
        "checks": {check: of_check(folder, check) for check in asked},
        "cost": {
            "total": naira(cost),
            "in_doubt_exposure": naira(doubt(folder, "true")),
            "flagged_rows": flagged,
            "per_flagged": None if not flagged else f"{Decimal(cost) / flagged:.2f}",
        },
        "balance": balance(folder),
        **coverage(folder, judged_at),
        **decisions(folder),
        "changes": changes(folder),
        "findings": findings(folder),
        "files": files(folder),
    }


def doubt(folder: Folder, where: str) -> Decimal:
    """Return the worst cost of every call whose answer, or whose price, is not known."""
    lost = "state in ('in_doubt', 'intent', 'answered') and cost is null"
    found = folder.one(f"select sum(worst_cost) from c where ({lost}) and {where}")
    return Decimal(found or 0)


def of_check(folder: Folder, check: str) -> dict[str, Any]:
    """Return one check's figures."""
    status = dict(folder.all(f"select {check}_status, count(*) from e group by 1"))
    own = f"select {check}_status, count(*) from e where {check}_source = 'asked' group by 1"
    calls = f"from c where \"check\" = '{check}' and state <> 'not_sent'"
    took = f"from c where \"check\" = '{check}' and state = 'answered' and sent_at is not null"
    eligible = f"{check}_status not in ('refused', 'ineligible', 'invalid', 'off')"
    paid, free = (
        folder.one(
            f"select count(distinct pseudonym) {calls} and state = 'answered' "
            f"and outcome <> 'unreadable' and coalesce(cost, 0) {sign} 0"
        )
        for sign in (">", "=")
    )

    def identities(where: str) -> Any:  # noqa: ANN401 - a count
        return folder.one(f"select count(distinct {IDENTITY[check]}) from e where {where}")

    left = {
        word: identities(f"{check}_status = '{word}'")
        for word in ("spared", "unreadable", "failed", "in_doubt", "pending")
    }
    latency = folder.all(
        f"select quantile_cont(latency_ms, 0.5), quantile_cont(latency_ms, 0.95), "
        f"quantile_cont(latency_ms, 0.99) {took}"
    )[0]
    return {
        **{f"rows_{word}": status.get(word, 0) for word in ("refused", "ineligible", "invalid")},
        "lookups": folder.one(f"select count(*) from e where {eligible}"),
        "distinct": identities(eligible),
        "paid": paid,
        "free": free,
        "reused": identities(f"{check}_source = 'reused'"),
        **left,
        "attempts": folder.one(f"select count(*) {calls}"),
        "retries": folder.one(f"select count(*) {calls} and attempts > 1"),
        "cost": naira(folder.one(f"select sum(cost) {calls}")),
        "in_doubt_exposure": naira(doubt(folder, f"\"check\" = '{check}'")),
        "answers": status,
        "asked_answers": dict(folder.all(own)),
        "troubles": dict(
            folder.all(f"select trouble, count(*) {calls} and trouble is not null group by 1")
        ),
        "latency_ms": dict(
            zip(
                ("p50", "p95", "p99"),
                (None if each is None else round(each, 1) for each in latency),
                strict=True,
            )
        ),
    }


def balance(folder: Folder) -> dict[str, Any]:
    """Return the balances at both ends, and the lowest reported."""
    bearing = "from c where balance is not null and state <> 'not_sent'"
    first = folder.all(f"select balance + coalesce(cost, 0) {bearing} order by settled_at limit 1")
    last = folder.all(f"select balance {bearing} order by settled_at desc limit 1")
    lowest = folder.one(f"select min(balance) {bearing}")
    return {
        "opening": naira(first[0][0]) if first else None,
        "closing": naira(last[0][0]) if last else None,
        "lowest": None if lowest is None else naira(lowest),
    }


def coverage(folder: Folder, judged_at: str) -> dict[str, Any]:
    """Return what is due, answered, not screened, fresh, and how old the evidence is."""
    words = [f"{check}_status" for check in CHECKS]

    def any_in(listed: str) -> str:
        return " or ".join(f"{word} in ({listed})" for word in words)

    def quoted(listed: Iterable[str]) -> str:
        return ",".join(f"'{each}'" for each in listed)

    answered = " or ".join(f"{check}_status in ({ANSWERED[check]})" for check in CHECKS)
    waiting = any_in(quoted(WAITING))
    cases = " ".join(f"when {any_in(quoted([word]))} then '{word}'" for word in CAUSES)
    oldest = ", ".join(f"{check}_checked_at" for check in CHECKS)
    days = f"(epoch_us(timestamptz '{judged_at}') - epoch_us(least({oldest}))) / 86400e6"
    folder.sql.execute(
        f"create or replace view s as select *, ({answered}) or ({waiting}) as due, "
        f"({waiting}) as waits, case {cases} end as cause, {days} as age from e"
    )
    total = weight(folder.all(f"select {WEIGHT} from e")[0])
    lacks = any_in("'ineligible'")
    fresh = weight(
        folder.all(f"select {WEIGHT} from s where due and cause is null and not ({lacks})")[0]
    )
    causes = {
        row[0]: weight(row[1:])
        for row in folder.all(f"select cause, {WEIGHT} from s where cause is not null group by 1")
    }
    ends = (None, 1, 7, 30, 90)
    ages = []
    for low, high in zip(ends, (*ends[1:], None), strict=True):
        above = "true" if low is None else f"age > {low}"
        below = "true" if high is None else f"age <= {high}"
        row = folder.all(f"select {WEIGHT} from s where age is not null and {above} and {below}")
        ages.append({"days": high, "evidence": True, **weight(row[0])})
    none = folder.all(f"select {WEIGHT} from s where age is null")[0]
    ages.append({"days": None, "evidence": False, **weight(none)})
    of_decision = folder.all("select 'decision_' || decision, sum(exposure) from e group by 1")
    open_words = quoted(CAUSES)
    of_status = [
        (f"{check}_{row[0]}", row[1])
        for check in CHECKS
        for row in folder.all(
            f"select {check}_status, sum(exposure) from e "
            f"where {check}_status in ({open_words}) group by 1"
        )
    ]
    nothing = folder.all(f"select {WEIGHT} from s where cause is null and (not due or {lacks})")[0]
    return {
        "coverage": {
            "due_rows": folder.one("select count(*) from s where due"),
            "answered_rows": folder.one("select count(*) from s where due and not waits"),
        },
        "freshness": {
            "fresh": {
                **fresh,
                "exposure_pct": share(Decimal(fresh["exposure"]), Decimal(total["exposure"])),
                "rows_pct": share(Decimal(fresh["rows"]), Decimal(total["rows"])),
            },
            "ages": ages,
        },
        "exposure": {
            "total": total["exposure"],
            "unknown_rows": total["unknown_rows"],
            "not_screened": {
                **weight(folder.all(f"select {WEIGHT} from s where cause is not null")[0]),
                "causes": causes,
            },
            "nothing_to_ask": weight(nothing),
            **{name: naira(amount) for name, amount in (*of_decision, *of_status)},
        },
    }


def share(part: Decimal, whole: Decimal) -> float | None:
    """Return a share in percent to two places, rounded; what is not all of it is never 100."""
    if whole <= 0:
        return None
    exact = 100 * part / whole
    near = float(round(exact + Decimal("1e-9"), 2))
    if part < whole and near >= 100:
        return 99.99
    return 0.01 if part > 0 and near == 0 else near


def decisions(folder: Folder) -> dict[str, Any]:
    """Return decisions, what they rest on, and their reasons."""
    evidence: dict[str, dict[str, Any]] = {}
    history = "case " + " ".join(
        [
            *(f"when ecosystem_status = '{word}' then '{basis}'" for word, basis in BASES.items()),
            f"when ecosystem_status in {NOT_ASKED} then 'not_asked' else 'not_answered' end",
        ]
    )
    for row in folder.all(f"select decision, {history}, {WEIGHT} from e group by 1, 2"):
        evidence.setdefault(row[0], {})[row[1]] = weight(row[2:])
    main = "case when decision = 'undecided' or len(reasons) = 0 then null else reasons[1] end"
    reasons: dict[tuple[str, str | None], dict[str, Any]] = {}
    nothing = {"rows": 0, "exposure": "0.00", "unknown_rows": 0}
    for place, rows in (
        ("main", folder.all(f"select decision, {main}, {WEIGHT} from e group by 1, 2")),
        (
            "further",
            folder.all(
                f"select decision, code, {WEIGHT} from (select *, unnest(case when decision = "
                "'undecided' then reasons else reasons[2:] end) as code from e) group by 1, 2"
            ),
        ),
    ):
        for decision, code, *rest in rows:
            each = reasons.setdefault((decision, code), {"main": nothing, "further": nothing})
            each[place] = weight(tuple(rest))
    return {
        "decisions": dict(folder.all("select decision, count(*) from e group by 1")),
        "evidence": evidence,
        "reasons": [{"decision": key[0], "code": key[1], **each} for key, each in reasons.items()],
    }


def changes(folder: Folder) -> dict[str, int]:
    """Return customers by kind of change; of one in several places the most telling counts too."""
    found = dict(folder.all("select kind, count(distinct customer) from ch group by 1"))
    kinds = ("new_listing", "worse", "changed", "cleared", "better", "new", "gone")
    everybody = folder.one("select count(distinct customer) from ch")
    return {"customers": everybody, **{kind: found.get(kind, 0) for kind in kinds}}


def findings(folder: Folder) -> dict[str, Any]:
    """Return what was refused and what was found wanting, by code."""
    refused: dict[str, int] = {}
    for line in folder.lines("quarantine.csv"):
        code = list(line.values())[-2]
        refused[code] = refused.get(code, 0) + 1
    values: dict[tuple[str, str], int] = {}
    for line in folder.lines("problems.csv"):
        if line["action"] != "refused":
            key = line["code"], line["action"]
            values[key] = values.get(key, 0) + 1
    return {
        "quarantined": refused,
        "values": [
            {"code": code, "action": action, "count": count}
            for (code, action), count in values.items()
        ],
    }


def files(folder: Folder) -> dict[str, int]:
    """Return the rows of the files that have rows."""
    listed = len(folder.lines("decisions.csv"))
    return {
        "calls.parquet": folder.one("select count(*) from c"),
        "changes.parquet": folder.one("select count(*) from ch"),
        "decisions.csv": listed,
        "decisions.xlsx": listed,
    }


def leaves(value: object, at: str = "") -> dict[str, Any]:
    """Return every figure of a document by its path; lists of records by what names each."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, each in value.items():
            found |= leaves(each, f"{at}.{name}" if at else str(name))
        return found
    if isinstance(value, list) and value and isinstance(value[0], dict):
        found = {}
        for each in value:
            names = ("decision", "code", "action", "days", "evidence", "name")
            label = "/".join(str(each[name]) for name in names if name in each)
            found |= leaves({k: v for k, v in each.items() if k not in names}, f"{at}[{label}]")
        return found
    return {at: value}


def main() -> int:
    """Print each figure of a report that its files do not bear out."""
    path = Path(sys.argv[1])
    report = json.loads((path / "report.json").read_text("utf-8"))
    judged_at = report["provenance"]["evidence_judged_at"]
    told, found = leaves(report), leaves(recomputed(path, judged_at))
    wrong = {at: (told.get(at), value) for at, value in found.items() if told.get(at) != value}
    for at, (said, is_) in sorted(wrong.items()):
        sys.stdout.write(f"{at}: the report says {said}, the files {is_}\n")
    sys.stdout.write(f"{len(found) - len(wrong)} of {len(found)} figures agree\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
