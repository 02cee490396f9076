"""`journal settle` enters what the invoice says; `journal reread` reads kept bodies again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.client.response_rules import MANNERS
from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit, AuditQuery, user_name
from nightscreen.journal.settling import disputed_calls
from tests.cli.conftest import Here
from tests.client.fakes import Canned
from tests.money.service_in_memory import LOST, Bureau
from tests.money.test_prices import odd_answer

BELIEVED = 25
NAMED = 2_500_000
RULE = (
    '[[rules]]\nname = "another word"\noperations = ["ecosystem"]\nstatus = ["2xx"]\n'
    'body_status = ["ok"]\nbody = ["record"]\nverdict = "answered"\noutcome = "found"\n\n'
)


@pytest.fixture
def bureau(tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch) -> Bureau:
    """A night with one ecosystem call at a cost beyond belief, and one call in doubt."""
    made, lost = Bureau(tmp_path, rows=15), [1]
    odd_answer(made, "ecosystem", NAMED)
    made.service.meta = lambda cost, _: {"cost": cost}

    def lose(operation: str, *_: object) -> object:
        found = operation == "bank_account" and lost[0]
        lost[0] = 0 if found else lost[0]
        return LOST if found else None

    made.service.after = lose  # type: ignore[assignment]
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    return made


def spent(bureau: Bureau) -> Decimal:
    """Return what the journal counts as spent, in naira."""
    with open_journal(bureau.folder / "home") as journal:
        days = journal.money.by_day()
    return sum((Decimal(each.spent_micro) for _, _, each in days), Decimal(0)) / 1_000_000


def test_what_the_invoice_says_counts_and_both_values_stay(bureau: Bureau, here: Here) -> None:
    """A cost not believed and one not known; the month's counter, the report and verify agree."""
    report = bureau.night().report
    (named,) = report["cost"]["disputed"]
    assert (named["state"], named["counted"]) == ("open", f"{NAMED}.00")
    beyond = NAMED - BELIEVED
    known = bureau.service.charged - 10  # the lost one was charged too
    assert spent(bureau) == Decimal(report["cost"]["total"]) == known + beyond
    call = str(named["call_id"])
    done = here("journal", "settle", call, "--cost", str(BELIEVED), "--json").document
    assert (done["named"], done["before"]) == (f"{NAMED}.00", f"{NAMED}.00")
    assert (done["invoice"], done["counted"], done["state"]) == ("25.00", "25.00", "settled")
    assert spent(bureau) == known
    (doubt,) = here("journal", "in-doubt", "--json").document["calls"]
    lost = here("journal", "settle", str(doubt["call_id"]), "--cost", "10", "--json").document
    assert (lost["named"], lost["before"], lost["counted"]) == (None, None, "10.00")
    assert spent(bureau) == bureau.service.charged
    assert here("journal", "in-doubt", "--json").document["count"] == 0
    assert here("journal", "verify").status == 0
    with open_journal(bureau.folder / "home", clock=bureau.loop.micros) as journal:
        assert {each.entered_by for each in disputed_calls(journal)} == {user_name()}
        assert journal.money.this_month().bound_micro == bureau.service.charged * 1_000_000
        audit = Audit(journal)
        assert [each["user"] for each in audit.find(AuditQuery(action="cost settled"))] == [
            user_name()
        ] * 2
    again = bureau.night(run=report["run_id"]).report
    assert Decimal(again["cost"]["total"]) == bureau.service.charged


def test_kept_bodies_are_read_by_the_table_under_home(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two in three stay, since the table knows one form only; a mistake is named with its line."""
    desk = Bureau(tmp_path, rows=30)
    odd: list[str] = []

    def rewrite(operation: str, identity: str, document: dict[str, Any]) -> Canned | None:
        if operation != "ecosystem":
            return None
        odd.append(identity)
        readable = len(odd) % 3 == 0
        data = document["data"] if readable else "see the portal"
        return Canned(200, {**document, "status": "ok", "data": data}) if len(odd) < 9 else None

    desk.service.rewrite = rewrite
    desk.night(checks=["ecosystem"])
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    before = here("journal", "reread", "--json")
    assert (before.status, before.document["read"]) == (0, 0)
    assert before.document["table"] is None
    table = tmp_path / "home" / "manners.toml"
    table.write_text(RULE.replace('"found"', '"seen"') + MANNERS.read_text("utf-8"), "utf-8")
    wrong = here("journal", "reread")
    assert wrong.status == 2
    assert "manners.toml, line 8" in wrong.err
    table.write_text(RULE + MANNERS.read_text("utf-8"), "utf-8")
    after = here("journal", "reread", "--json").document
    assert after["checks"]["ecosystem"] == {
        "kept": 8,
        "read": 2,
        "left": 6,
        "left_cost": "150.00",
        "answers": {"found": 2},
    }
    assert (after["kept"], after["read"], after["left"]) == (8, 2, 6)
    words = here("journal", "reread")
    assert words.status == 0
    assert "6 saved" in words.out
    assert here("journal", "verify").status == 0
