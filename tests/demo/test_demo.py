"""One demo of 400 rows: every row, every naira and every word of it."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nightscreen.sandbox.people import Person, ecosystem_of, holder_of, karma_of
from tests.cli.command import Ended, nightscreen, surroundings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

ROWS = 400
LAGOS = timezone(timedelta(hours=1))
BVN = re.compile(r"\d{11}")
ABSENT = {"", "nil", "n/a", "0", "-", "null", "00000000000"}
ON_STDERR = (
    r"400 fictional customers, about 2 % with bad data: .*",
    r"The simulator runs at .*; nothing here costs real money\.",
    r"Starting a temporary Prefect server, about ten seconds .*",
    r"Run \S+: 400 rows read, .*",
    r"[\d,]+ of [\d,]+ done, .*",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Demo:
    """A demo that has ended: what it said, and what it left."""

    ended: Ended
    folder: Path
    first: Row
    second: Row
    ledger: Row
    given: dict[str, Row]
    rows: list[Row]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Return a demo that a newcomer ran in an empty folder, with nothing set."""
    folder = tmp_path_factory.mktemp("newcomer")
    env = surroundings(folder)
    env.pop("PREFECT_API_URL", None)
    ended = nightscreen("demo", "--rows", str(ROWS), "--json", cwd=folder, env=env, patience_s=600)
    assert ended.status == 0, ended.err
    first, second = ended.document["nights"]
    place = folder / ".nightscreen-demo"
    enriched = pq.read_table(place / "out" / first["run_id"] / "enriched")
    return Demo(
        ended,
        place,
        first,
        second,
        ended.document["ledger"],
        _given(place / "customers.csv"),
        enriched.to_pylist(),
    )


def _given(file: Path) -> dict[str, Row]:
    """Return the rows as the lender gave them, the first of each customer id."""
    found: dict[str, Row] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        headings, *rows = csv.reader(lines)
    for row in rows:
        if row[0] and len(row) == len(headings):
            found.setdefault(row[0], dict(zip(headings, row, strict=True)))
    return found


def _is_absent(text: str) -> bool:
    return text.strip().casefold() in ABSENT


def _consented(given: Row, at: datetime) -> bool:
    """Return whether consent was valid: given, begun, not ended, not withdrawn."""
    if not given["consent_reference"] or not given["consented_at"]:
        return False
    began = _instant(given["consented_at"])
    ends = given["consent_expires_at"]
    ended = _instant(ends) if ends else began + timedelta(days=365)
    withdrawn = given["consent_withdrawn_at"]
    return began <= at < ended and not (withdrawn and _instant(withdrawn) <= at)


def _instant(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=LAGOS)).astimezone(UTC)


def _bvn(given: Row) -> str:
    """Return a row's BVN; empty where it is absent or malformed."""
    text: str = given["bvn"]
    return text if BVN.fullmatch(text) and not _is_absent(text) else ""


def _names(row: Row) -> set[str]:
    return {row[name].casefold() for name in ("first_name", "middle_name", "last_name")} - {""}


def _account_truth(row: Row, given: Row) -> str:
    """Return what the simulator's people say of a row's account."""
    if not row["account_number"] or not row["bank_code"]:
        return "ineligible"
    holder = holder_of(row["bank_code"], row["account_number"])
    if holder is None:
        return "not_found"
    return "verified" if _is_same(holder, given) else "mismatch"


def _is_same(holder: Person, given: Row) -> bool:
    if _bvn(given):
        return holder.bvn == _bvn(given)
    owned = {holder.first_name, holder.middle_name, holder.last_name}
    return len({name.casefold() for name in owned} & _names(given)) >= 2


def _without_bvn(given: Row) -> str:
    """Return why nothing can be asked by BVN; empty where it can."""
    if _is_absent(given["bvn"]):
        return "ineligible"
    return "" if _bvn(given) else "invalid"


def test_a_newcomer_sees_nothing_that_is_not_about_the_batch(demo: Demo) -> None:
    """No traceback, no warning, no line of the engine; the wait is announced first."""
    lines = demo.ended.err.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["400", "The", "Starting"]
    strange = [each for each in lines if not any(re.fullmatch(form, each) for form in ON_STDERR)]
    assert strange == []


def test_rows_are_accounted_for_once_each(demo: Demo) -> None:
    """Read is screened and quarantined, and both can be counted in the files."""
    rows = demo.first["rows"]
    assert rows["read"] == ROWS
    assert rows["read"] == rows["screened"] + rows["quarantined"]
    assert rows["screened"] == len(demo.rows)
    quarantine = demo.folder / "out" / demo.first["run_id"] / "quarantine.csv"
    with quarantine.open(encoding="utf-8-sig", newline="") as lines:
        assert len(list(csv.reader(lines))) - 1 == rows["quarantined"]


def test_every_account_is_as_the_simulators_people_say(demo: Demo) -> None:
    """Verified belongs to the person of the row, mismatch to another, not_found to nobody."""
    wrong = []
    for row in demo.rows:
        truth = _account_truth(row, demo.given[row["customer_id"]])
        if row["bank_account_status"] != truth:
            wrong.append((row["customer_id"], row["bank_account_status"], truth))
    assert wrong == []
    assert {row["bank_account_status"] for row in demo.rows} >= {"verified", "mismatch"}


def test_every_karma_status_is_as_the_simulators_people_say(demo: Demo) -> None:
    """Listed or clear by BVN; malformed and absent BVNs say so."""
    for row in demo.rows:
        given = demo.given[row["customer_id"]]
        truth = _without_bvn(given) or ("listed" if karma_of(given["bvn"]) else "clear")
        assert row["karma_status"] == truth, row["customer_id"]


def test_ecosystem_is_told_of_those_who_consented_and_nobody_else(demo: Demo) -> None:
    """Found or not_found with consent; refused without, and then every field is empty."""
    at = datetime.fromisoformat(demo.first["started_at"])
    for row in demo.rows:
        given = demo.given[row["customer_id"]]
        truth = _without_bvn(given)
        if not truth and not _consented(given, at):
            truth = "refused"
        if not truth:
            truth = "found" if ecosystem_of(given["bvn"]) else "not_found"
        assert row["ecosystem_status"] == truth, row["customer_id"]
        if truth not in {"found", "not_found"}:
            assert row["ecosystem_bvn"] is None
            assert row["ecosystem_loans"] is None


def test_nobody_is_asked_about_without_consent(demo: Demo) -> None:
    """There were as many ecosystem calls as persons who consented, each of whom is answered."""
    at = datetime.fromisoformat(demo.first["started_at"])
    given = [demo.given[row["customer_id"]] for row in demo.rows]
    consented = {_bvn(row) for row in given if _bvn(row) and _consented(row, at)}
    assert demo.ledger["totals"]["by_operation"]["ecosystem"]["requests"] == len(consented)


def test_every_naira_agrees_with_the_simulators_ledger(demo: Demo) -> None:
    """Report, rows, wallet and ledger say the same; nothing is charged twice."""
    cost, balance = demo.first["cost"], demo.first["balance"]
    charged = Decimal(demo.ledger["totals"]["charged"])
    assert Decimal(cost["total"]) == charged
    assert sum(row["cost"] for row in demo.rows) == charged
    assert Decimal(balance["opening"]) - Decimal(balance["closing"]) == charged
    assert balance["exact"] is True
    assert Decimal(balance["drift"]) == 0
    assert demo.ledger["totals"]["repeated_charges"] == 0


def test_the_second_night_pays_nothing_and_says_what_was_saved(demo: Demo) -> None:
    """The same answers for nothing."""
    assert Decimal(demo.second["cost"]["total"]) == 0
    assert demo.second["cost"]["saved_by_reuse"] == demo.first["cost"]["total"]
    for check, first in demo.first["checks"].items():
        assert demo.second["checks"][check]["answers"] == first["answers"]


def test_the_report_counts_what_the_rows_show(demo: Demo) -> None:
    """Answers by status, and every distinct lookup ends exactly one way."""
    for name, check in demo.first["checks"].items():
        counted = Counter(row[f"{name}_status"] for row in demo.rows)
        assert check["answers"] == dict(sorted(counted.items()))
        ends = ("paid", "free", "reused", "spared", "failed", "pending", "in_doubt")
        assert check["distinct"] == sum(check[end] for end in ends)


def test_everything_lies_in_private_files(demo: Demo) -> None:
    """Made-up people are treated as real ones are."""
    for path in (demo.folder, *demo.folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.long
def test_the_runs_can_be_looked_at_afterwards(demo: Demo) -> None:
    """`runs show` says what the run itself said, in lines that fit 80 columns but for paths."""
    env = surroundings(demo.folder.parent, NIGHTSCREEN_HOME=str(demo.folder / "home"))
    listed = nightscreen("runs", "list", "--json", cwd=demo.folder.parent, env=env).document
    assert [run["run_id"] for run in listed["runs"]] == [
        demo.second["run_id"],
        demo.first["run_id"],
    ]
    shown = nightscreen("runs", "show", demo.first["run_id"], cwd=demo.folder.parent, env=env)
    assert f"Run {demo.first['run_id']} completed." in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines() if "/" not in line)
    document = nightscreen(
        "runs", "show", demo.first["run_id"], "--json", cwd=demo.folder.parent, env=env
    ).document
    assert document["report"] == json.loads(json.dumps(demo.first))
