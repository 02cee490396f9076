"""The summary of a run: right, readable, and without anybody's data."""

from __future__ import annotations

import re

import pytest

from nightscreen.report.format import naira
from nightscreen.report.summary import summary_markdown
from nightscreen.report.verdict import next_steps
from tests.screening import CONSENT, Night, World, customer

ROWS = 24


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """A night with every decision, some without consent, one row refused."""
    rows = [customer(n, **(CONSENT if n % 3 else {})) for n in range(1, ROWS + 1)]
    rows.append({**customer(99), "customer_id": ""})
    return World(tmp_path_factory.mktemp("world")).screen(rows, max_spend="5000")


def test_the_summary_says_how_it_ended_what_it_cost_and_where_it_lies(night: Night) -> None:
    """The figures are the report's own."""
    report = night.report
    said = summary_markdown(report, "/srv/out/run")
    assert said.startswith("# ! Complete")
    assert "Nobody has approved the policy default@" in said
    approval = {"policy_approval": {"approved_by": "Bem"}}
    signed = {**report, "provenance": {**report["provenance"], **approval}}
    assert summary_markdown(signed, "out").startswith("# ✓ Complete")
    assert naira(report["cost"]["total"]) in said
    assert naira(report["cost"]["quoted"]["expected"]) in said
    assert naira(report["balance"]["closing"]) in said
    assert naira(report["exposure"]["not_screened"]["exposure"]) in said
    assert "`/srv/out/run`" in said
    assert "`decisions.xlsx`" in said
    assert "quarantine.csv (1 row)" in said


def test_nobody_is_named_in_what_the_engine_keeps(night: Night) -> None:
    """Neither a customer's id nor any value of a row."""
    shown = [summary_markdown(night.report, "out")]
    words = set(re.findall(r"[A-Za-z0-9]+", " ".join(shown).casefold()))
    names = ("customer_id", "bvn", "account_number", "first_name", "last_name")
    values = {str(row[name]).casefold() for row in night.rows for name in names if row[name]}
    assert len(values) > 2 * ROWS
    assert words & values == set()


def test_what_to_do_next_fits_how_it_ended(night: Night) -> None:
    """Stopped, held back, in test mode, or with a list to work on."""
    run = night.report["run_id"]
    assert any("decisions.xlsx" in step for step in next_steps(night.report))
    stopped = {**night.report, "state": "stopped", "stop_reason": "budget"}
    assert f"nightscreen screen --run {run}" in next_steps(stopped)[0]
    held = {**night.report, "publishable": False}
    assert f"nightscreen runs release {run}" in next_steps(held)[0]
    assert "live" in next_steps({**night.report, "state": "test_mode"})[0]


def test_a_batch_name_cannot_become_markup(night: Night) -> None:
    """A name is shown as it is written."""
    said = summary_markdown({**night.report, "batch": "<b>[x](y)*"}, "out")
    assert r"\<b\>\[x\]\(y\)\*" in said
