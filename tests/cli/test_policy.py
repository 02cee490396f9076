"""`nightscreen policy`: mistakes one a line, and past runs replayed without a service."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from nightscreen.cli.decisions import policies as app
from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, user_name
from nightscreen.policy.load import DEFAULT_POLICY, load_policy, read_text
from nightscreen.policy.versions import approval_of
from nightscreen.results.backtest import past_run, rows_of
from nightscreen.results.decide import decide
from nightscreen.schemas.errors import InputError, NotAllowedError
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


def run(*arguments: object) -> Result:
    """Return what the command says."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


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


def test_a_sound_policy_is_told_in_words() -> None:
    """Rules in order, with the digest that decisions will carry."""
    result = run("check", DEFAULT_POLICY)
    assert result.exit_code == 0
    assert load_policy().label in result.stdout
    assert "and coalesce(ecosystem_running_loans >= 3, false)" in result.stdout


def test_mistakes_are_told_one_a_line(tmp_path: Path) -> None:
    """File, line, rule and what to do; the exit status is that of bad input."""
    path = tmp_path / "bad.toml"
    text = DEFAULT_POLICY.read_text("utf-8")
    path.write_text(text.replace("bank_account_status", "bank_acount_status"), encoding="utf-8")
    result = run("check", path)
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert len(lines) == 6
    assert all("did you mean bank_account_status?" in line for line in lines[:5])
    document = json.loads(run("check", path, "--json").stdout)
    assert (document["ok"], len(document["issues"])) == (False, 5)


def test_the_same_policy_moves_nobody(past: Path) -> None:
    """Decisions made again from the Parquet alone are the decisions that were made."""
    result = run("backtest", "--policy", DEFAULT_POLICY, past, "--json")
    document = json.loads(result.stdout)
    assert document["moved"]["rows"] == 0
    assert document["recorded_by"] == [load_policy().label]
    parts = [pq.read_table(part) for part in sorted((past / "enriched").iterdir())]
    night, policy = past_run(past), load_policy()
    again = pa.concat_tables(
        decide(rows, policy, purpose=night.purpose) for rows in rows_of(night, [policy])
    )
    recorded = pa.concat_tables(parts).select(again.column_names)
    assert again.to_pylist() == recorded.to_pylist()


def test_another_policy_moves_those_it_says(past: Path, lenient: Path, tmp_path: Path) -> None:
    """Who moves is told in numbers, naira and a private file with customer ids only."""
    folder = tmp_path / "list"
    result = run("backtest", "--policy", lenient, past, past, "--output", folder, "--json")
    tested = json.loads(result.stdout)
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
    lenient: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who did which stands in journal and audit, nobody does both; what is in force is shown."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    label = load_policy(lenient).label
    assert isinstance(run("approve", label, "--by", "Ngozi Bello").exception, InputError)
    words = ("propose", lenient, "--by", "Ada Eze", "--note", "as agreed", "--json")
    made = json.loads(run(*words).stdout)
    assert (made["policy"], made["state"]) == (label, "proposed")
    assert run("show").stdout == read_text(None)
    assert run("show", label).stdout == lenient.read_text()
    for by in ("ada  eze", " "):
        refused = run("approve", label, "--by", by).exception
        assert isinstance(refused, InputError | NotAllowedError)
    result = run("approve", made["key"], "--by", "Ngozi Bello", "--note", "minutes", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["policy"], found["state"]) == (label, "approved")
    assert found["decided_by"] == f"Ngozi Bello (account {user_name()})"
    assert run("show").stdout == lenient.read_text()
    assert isinstance(run("show", "nobody@0").exception, InputError)
    with open_journal(tmp_path / "home") as journal:
        kept = approval_of(journal, label, journal.clock())
        assert kept is not None
        assert kept.proposed_by.startswith("Ada Eze")
        assert approval_of(journal, label, kept.decided_at - 1) is None
        assert approval_of(journal, load_policy().label, journal.clock()) is None
        done = [(each["action"], each["detail"]["policy"]) for each in Audit(journal).find()]
    assert done == [("policy approved", label), ("policy proposed", label)]
