"""The final decision on a customer: the same words by whom and when, wherever it is shown."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from nightscreen.privacy.explaining import explain
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.schemas.contests import ContestOutcome
from tests.desk.test_my_work import declined, review

if TYPE_CHECKING:
    from tests.desk.office import Browser, Office


def exported(bank: Office, browser: Browser, who: str) -> dict[str, str]:
    """Return a customer's line of what the newest run's list gives."""
    run = bank.journal.runs.newest(limit=1)[0].run_id
    text = browser.get(f"/runs/{run}/decisions.csv").text
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    return next(row for row in rows if row["customer_id"] == who)


@pytest.mark.parametrize("way", ["review", "override", "contest"])
def test_whoever_settles_a_case_is_named_everywhere(bank: Office, way: str) -> None:
    """On the list, in its export, on the customer's page and in `explain`; of others nothing."""
    who, other = declined(bank)[:2]
    run = bank.journal.runs.newest(limit=1)[0].run_id
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    decision, by = "approve", "Ada"
    if way == "override":
        bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
        by = "Ada, Bem"
    if way == "contest":
        said = {"customer_id": who, "batch": "portfolio", "said": "It was paid."}
        at = bem.post("/contests", **said).headers["location"].partition("#")[2]
        answer = {"outcome": ContestOutcome.CHANGED.value, "decision": decision, "answer": "Paid."}
        assert ada.post(f"/contests/{at}/answer", **answer).status_code == 303
    else:
        assert review(ada, who, decision).status_code == 303
    if way == "override":
        assert exported(bank, ada, who)["final_decision"] == "", "it waits for the second person"
        assert bem.post(f"/customers/{who}/override", do="confirm").status_code == 303
    person = lookup_subject(bank.journal, bank.context.customers, who)[0]
    document = explain(bank.journal, bank.context.customers, bank.context.reviews, person)
    assert (document["final_decision"], document["decided_by"]) == (decision, by)
    assert document["decided_why"]
    line = exported(bank, ada, other)
    assert (line["final_decision"], line["decided_by"], line["decided_at"]) == ("", "", "")
    page = ada.get(f"/customers/{who}?run={run}").text
    assert "Final decision" in page
    assert f"{decision} by {by}" in ada.get(f"/runs/{run}/decisions?decision=decline").text
