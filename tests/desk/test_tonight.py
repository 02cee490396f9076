"""The front page is live: what waits as things are when it is opened, for whoever may see it."""

from __future__ import annotations

import re

from nightscreen.desk.pages import micro
from nightscreen.journal.cases import Cases
from tests.begun import begin_run
from tests.desk.conftest import wait_for_approval
from tests.desk.office import Browser, Office
from tests.desk.test_my_work import declined, needing, review


def lines(page: str) -> str:
    """Return the part of the front page that shows the last nights side by side."""
    return page.partition("Fourteen nights</h2>")[2].partition("</section>")[0]


def to_review(browser: Browser) -> int:
    """Return how many customers wait for a review, by the front page."""
    found = re.search(r"<b>(\d+) to review</b> in portfolio", browser.get("/").text)
    return int(found[1]) if found else 0


def test_what_waits_is_counted_anew_at_each_look(bank: Office) -> None:
    """A review, an override that waits and somebody else's case change it at once."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    number, first = len(needing(bank)), declined(bank)[0]
    page = ada.get("/").text
    assert "60 checked" in page
    assert '<a class="button" href="/decisions?batch=portfolio">Start</a>' in page
    assert to_review(ada) == number
    assert review(ada, needing(bank)[-1]).status_code == 303
    assert to_review(ada) == number - 1
    Cases(bank.journal).take("portfolio", first, "Ada")
    assert (to_review(ada), to_review(bem)) == (number - 1, number - 2)
    assert "to confirm or refuse" not in bem.get("/").text
    assert review(ada, first, "approve").status_code == 303
    assert "<b>1 override</b> to confirm or refuse" in bem.get("/").text
    assert bem.post(f"/customers/{first}/override", do="confirm").status_code == 303
    assert "to confirm or refuse" not in bem.get("/").text
    bank.context.accounts.change("Bem", [], branches=["Kano"])
    page = bem.get("/").text
    assert 0 < to_review(bem) < to_review(ada)
    assert "60 checked" not in page
    assert "Declined, %" not in page


def test_runs_that_wait_say_for_what_and_are_tried_from_there(bank: Office) -> None:
    """One for approval, one for want of money; neither is the last night, nor in its figures.

    The wallet lasts as long as what is in it, by the last balance; money is seen by who may see it.
    """
    first, privacy = bank.browser("auditor").get("/").text, bank.browser("privacy")
    before, balance = lines(first), bank.journal.runs.last_balance()
    assert "Answered, % of exposure" in before
    assert balance is not None
    spent = sum(each.spent_micro for _, _, each in bank.journal.money.by_day())
    lasts = f"<b>{balance // spent:,} nights</b><span>{micro(balance)} left"
    assert f"Wallet lasts</span>{lasts}" in first
    page = privacy.get("/").text
    assert "Spent today" not in page
    assert "₦" not in page.partition("Fourteen nights")[2]
    wait_for_approval(bank, "Ada")
    begin_run(bank.journal, "20260302-220000-a1b2c3", batch="salaries")
    bank.journal.runs.finish(
        "20260302-220000-a1b2c3", state="stopped", stop_reason="balance", report={}
    )
    chief = bank.browser("analyst", "approver", name="Chief")
    page = chief.get("/").text
    assert f'href="/approvals#{bank.waiting}"' in page
    for path in ("/", "/runs"):
        assert '<span class="word waiting">waits for approval' in chief.get(path).text, path
    assert "<b>salaries</b> stopped early: the wallet is too low" in page
    assert "The portfolio night ended" in page
    assert lines(page) == before
    assert page.count(">Try now</button>") == 1
    assert chief.post("/runs/20260302-220000-a1b2c3/resume").status_code == 303
    assert [each.run for each in bank.starts.started] == ["20260302-220000-a1b2c3"]
    assert ">Try now</button>" not in privacy.get("/").text
