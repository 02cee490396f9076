"""`nightscreen policy`: mistakes one a line, and past runs replayed without a service."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, user_name
from nightscreen.policy.load import DEFAULT_POLICY, load_policy, read_text
from nightscreen.policy.versions import approval_of
from nightscreen.results.backtest import past_run, rows_of
from nightscreen.results.decide import decide
from tests.cli.conftest import Here
from tests.policy.policy_rows import NO_HISTORY, enriched
from tests.results.enriched_in_a_test import listed
from tests.screening import csv_rows

ROWS = [
    {"customer_id": "=C1"},
    {"customer_id": "C2", **listed(20_000), "exposure": None},
    {"customer_id": "C3", "ecosystem_running_loans": 3},
    {"customer_id": "C4", **NO_HISTORY, "ecosystem_status": "refused"},
    {"customer_id": "C5", "bank_account_status": "failed"},
]


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """Return the folder of a past run of five customers in two parts."""
    folder = tmp_path / "out" / "20260301-220000-abc123"
    (folder / "enriched").mkdir(parents=True)
    rows = decide(enriched(ROWS), load_policy(), purpose="origination")
    pq.write_table(rows.slice(0, 2), folder / "enriched" / "part-00000.parquet")
    pq.write_table(rows.slice(2), folder / "enriched" / "part-00001.parquet")
    (folder / "report.json").write_text(json.dumps({"purpose": "origination"}), encoding="utf-8")
    return folder


@pytest.fixture
def lenient(tmp_path: Path) -> Path:
    """Return a policy that lets four loans run and declines any listing."""
    text = DEFAULT_POLICY.read_text("utf-8").replace("stacking_loans = 3", "stacking_loans = 4")
    path = tmp_path / "lenient.toml"
    path.write_text(text.replace('name = "default"', 'name = "lenient"'), encoding="utf-8")
    return path


def test_a_policy_is_told_in_words_and_its_mistakes_one_a_line(here: Here, tmp_path: Path) -> None:
    """Rules in order, with the digest that decisions will carry.

    Of mistakes: file, line, rule and what to do; the exit status is that of bad input.
    """
    ended = here("policy", "check", str(DEFAULT_POLICY))
    assert ended.status == 0
    assert load_policy().label in ended.out
    assert "and coalesce(ecosystem_running_loans >= 3, false)" in ended.out
    path = tmp_path / "bad.toml"
    text = DEFAULT_POLICY.read_text("utf-8")
    path.write_text(text.replace("bank_account_status", "bank_acount_status"), encoding="utf-8")
    ended = here("policy", "check", str(path))
    assert ended.status == 2
    lines = ended.out.splitlines()
    assert len(lines) == 6
    assert all("did you mean bank_account_status?" in line for line in lines[:5])
    document = here("policy", "check", str(path), "--json").document
    assert (document["ok"], len(document["issues"])) == (False, 5)


def test_the_same_policy_moves_nobody(here: Here, past: Path) -> None:
    """Decisions made again from the Parquet alone are the decisions that were made."""
    words = ("--policy", str(DEFAULT_POLICY), str(past), "--json")
    document = here("policy", "backtest", *words).document
    assert document["moved"]["rows"] == 0
    assert document["recorded_by"] == [load_policy().label]
    parts = [pq.read_table(part) for part in sorted((past / "enriched").iterdir())]
    night, policy = past_run(past), load_policy()
    again = pa.concat_tables(
        decide(rows, policy, purpose=night.purpose) for rows in rows_of(night, [policy])
    )
    recorded = pa.concat_tables(parts).select(again.column_names)
    assert again.to_pylist() == recorded.to_pylist()


def test_another_policy_moves_those_it_says(
    here: Here, past: Path, lenient: Path, tmp_path: Path
) -> None:
    """Who moves is told in numbers, naira and a private file with customer ids only."""
    folder = tmp_path / "list"
    words = ("--policy", str(lenient), str(past), str(past), "--output", str(folder), "--json")
    tested = here("policy", "backtest", *words).document
    assert tested["moved"] == {"rows": 2, "exposure": "100000.00", "exposure_unknown_rows": 0}
    assert tested["why"] == [
        {"from": "review", "to": "approve", "reason": "no longer STACKING", **tested["moved"]}
    ]
    matrix = {(cell["from"], cell["to"]): cell["rows"] for cell in tested["matrix"]}
    assert matrix == {
        ("approve", "approve"): 2,
        ("decline", "decline"): 2,
        ("review", "review"): 2,
        ("review", "approve"): 2,
        ("undecided", "undecided"): 2,
    }
    listed = csv_rows(folder / "backtest.csv")
    assert [row["customer_id"] for row in listed] == ["C3", "C3"]
    assert listed[0]["new_reasons"] == "APPROVE"
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_version_is_proposed_approved_by_somebody_else_and_shown(
    here: Here, lenient: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who did which stands in journal and audit, nobody does both; what is in force is shown."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    label = load_policy(lenient).label
    show, approve, propose = (("policy", word) for word in ("show", "approve", "propose"))
    assert here(*approve, label, "--by", "Ngozi Bello").status == 2
    words = (str(lenient), "--by", "Ada Eze", "--note", "as agreed", "--json")
    made = here(*propose, *words).document
    assert (made["policy"], made["state"]) == (label, "proposed")
    assert here(*show).out == read_text(None)
    assert here(*show, label).out == lenient.read_text()
    for by in ("ada  eze", " "):
        assert here(*approve, label, "--by", by).status == 2
    words = (made["key"], "--by", "Ngozi Bello", "--note", "minutes", "--json")
    found = here(*approve, *words).document
    assert (found["policy"], found["state"]) == (label, "approved")
    assert found["decided_by"] == f"Ngozi Bello (account {user_name()})"
    assert here(*show).out == lenient.read_text()
    assert here(*show, "nobody@0").status == 2
    with open_journal(tmp_path / "home") as journal:
        kept = approval_of(journal, label, journal.clock())
        assert kept is not None
        assert kept.proposed_by.startswith("Ada Eze")
        assert approval_of(journal, label, kept.decided_at - 1) is None
        assert approval_of(journal, load_policy().label, journal.clock()) is None
        done = [(each["action"], each["detail"]["policy"]) for each in Audit(journal).find()]
    assert done == [("policy approved", label), ("policy proposed", label)]
