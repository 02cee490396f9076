"""The summary of a run: right, readable, and without anybody's data."""

from __future__ import annotations

import re

import pytest

from nightscreen.report.format import naira
from nightscreen.report.page import summary_markdown
from tests.nights.standard import StandardNights
from tests.screening import Night


@pytest.fixture(scope="module")
def night(standard_nights: StandardNights) -> Night:
    """A night with every decision, some without consent, some rows refused."""
    return standard_nights.get("dirty").night


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
    assert "quarantine.csv (" in said


def test_nobody_is_named_in_what_the_engine_keeps(night: Night) -> None:
    """Neither a customer's id nor any value of a row."""
    shown = [summary_markdown(night.report, "out")]
    words = set(re.findall(r"[A-Za-z0-9]+", " ".join(shown).casefold()))
    names = ("customer_id", "bvn", "account_number", "first_name", "last_name")
    values = {str(row[name]).casefold() for row in night.rows for name in names if row[name]}
    assert len(values) > 40
    assert words & values == set()


def test_a_batch_name_cannot_become_markup(night: Night) -> None:
    """A name is shown as it is written."""
    said = summary_markdown({**night.report, "batch": "<b>[x](y)*"}, "out")
    assert r"\<b\>\[x\]\(y\)\*" in said
