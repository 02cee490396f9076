"""The front page is live: what waits as things are when it is opened, for whoever may see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nightscreen.journal.cases import Cases
from tests.desk.test_my_work import declined, needing, review

if TYPE_CHECKING:
    from tests.desk.office import Browser, Office


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
