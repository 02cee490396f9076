"""One's own work over all batches: shared out, taken, given back, waited for; overrides by two."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.desk.work_list import WorkList
from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.cases import Cases
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.reviews import Reviews
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.privacy.contests import list_contests, open_contest
from nightscreen.results.one_row import find_row
from tests.desk.conftest import borrowers
from tests.screening import World

if TYPE_CHECKING:
    import httpx
    import pytest

    from nightscreen.journal.runs import RunRecord
    from tests.desk.office import Browser, Office

ROW = re.compile(r'<tr><th scope="row"><a href="/customers/([^"?]+)\?run=.*?</tr>', re.DOTALL)
NO_PAGE = "/nothing"
"""The cheapest page that bears the token of a browser's forms."""
WHOSE = re.compile(r'data-head="Whose">([^<]*)<')


def work(browser: Browser, query: str = "") -> dict[str, str]:
    """Return the customers of a user's list, in order, and whose each is."""
    page = browser.get(f"/decisions{query}")
    assert page.status_code == 200, page.text
    found = {}
    for row in ROW.finditer(page.text):
        whose = WHOSE.search(row[0])
        assert whose
        found[row[1]] = whose[1]
    return found


def do(browser: Browser, does: str, customer: str = "", **more: Any) -> httpx.Response:  # noqa: ANN401 - words or lists
    """Press a button of the list."""
    fields: dict[str, Any] = {"do": does, "customer_id": customer, "batch": "portfolio", **more}
    return browser.post("/decisions", **fields)


def review(
    browser: Browser, customer: str, decision: str = "decline", **more: str
) -> httpx.Response:
    """Save a review as the page's own form would."""
    page = browser.get(f"/customers/{customer}").text
    fields: dict[str, str] = {
        name: value
        for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
        if name in {"run", "newest_review"}
    }
    fields |= {
        "decision": decision,
        "reason": "Settled since, proof seen",
        "note": "letter",
        **more,
    }
    return browser.post(f"/customers/{customer}/review", **fields)


def needing(bank: Office) -> list[str]:
    """Return who needs somebody, worst exposure first, by the newest run's own list."""
    run = bank.journal.runs.newest(limit=1)[0]
    rows = bank.context.rows.of(run)
    assert rows is not None
    found = rows.ask(
        "SELECT customer_id FROM run WHERE decision <> 'approve'"
        " ORDER BY exposure DESC NULLS LAST, row"
    )
    return [each["customer_id"] for each in found]


def declined(bank: Office) -> list[str]:
    """Return whom the policy declines."""
    rows = bank.context.rows.of(bank.journal.runs.newest(limit=1)[0])
    assert rows is not None
    found = rows.ask("SELECT customer_id FROM run WHERE decision = 'decline' ORDER BY row")
    assert len(found) > 2
    return [each["customer_id"] for each in found]


def test_list_holds_who_needs_somebody_and_take_makes_a_case_mine(bank: Office) -> None:
    """Everybody who is not approved stands there, nobody's; once taken, mine, and back again."""
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    everybody = needing(bank)
    assert list(work(ada)) == everybody[:50]
    assert set(work(ada).values()) == {"nobody"}
    third = everybody[2]
    assert do(ada, "take", third).status_code == 303
    mine = work(ada)
    assert (next(iter(mine)), mine[third]) == (third, "you"), "one's own stand first"
    assert third not in work(bem)
    assert work(bem, "?whose=others") == {third: "Ada"}
    assert do(bem, "take", third).status_code == 409
    assert do(bem, "back", third).status_code == 409
    assert do(ada, "back", third).status_code == 303
    assert work(bem)[third] == "nobody"
    assert do(bank.browser("auditor", name="Eye"), "take", third).status_code == 403
    assert [each for each in bank.actions() if "case" in each] == ["case taken", "case given back"]


def test_part_of_a_batch_leaves_the_rest_of_the_list_as_it_was(
    bank: Office,
) -> None:
    """A run of fixed rows or of one customer counts for these alone; whoever is gone is gone."""
    browser = bank.browser("analyst", name="Ada")
    before = list(work(browser))
    run = bank.journal.runs.newest(limit=1)[0]
    one = before[3]
    (person,) = [each for each in borrowers(60) if each["customer_id"] == one]
    part = {**person, "exposure": "99000000", "line": "2", "column": "", "code": "", "hint": ""}
    World(bank.folder).screen([part], batch="portfolio")
    after = list(work(browser))
    assert after[0] == one
    assert sorted(after) == sorted(before)
    case = bank.context.work.seen_by("Ada").case("portfolio", one)
    assert case is not None
    assert case["run_id"] != run.run_id
    World(bank.folder).screen(borrowers(30), batch="portfolio")
    assert set(work(browser)) == {each for each in before if int(each[1:]) <= 30}


def test_case_of_somebody_else_is_not_saved_and_nothing_typed_is_lost(bank: Office) -> None:
    """The page says who has it; the review is refused until it is given back."""
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    first = needing(bank)[0]
    ada.get(f"/customers/{first}")
    assert "Ada opened this page" in bem.get(f"/customers/{first}").text
    do(ada, "take", first)
    assert "Ada, taken less than a minute ago" in bem.get(f"/customers/{first}").text
    refused = review(bem, first, note="my long note")
    assert refused.status_code == 409
    assert "Ada has this case" in refused.text
    assert ">my long note</textarea>" in refused.text
    assert review(ada, first).status_code == 303
    assert first not in work(ada)
    assert first not in work(bem, "?whose=others")
    assert do(bem, "take", first).status_code == 409


def test_review_beside_another_that_was_saved_meanwhile_is_refused(bank: Office) -> None:
    """Of two who had the same page open, the second learns of the first one's review."""
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    first = needing(bank)[0]
    bem.get(f"/customers/{first}")
    assert review(ada, first).status_code == 303
    late = review(bem, first, newest_review="")
    assert late.status_code == 409
    assert "Somebody reviewed this customer" in late.text
    key = bank.journal.pseudonyms.customer("portfolio", first)
    assert [each.reviewer for each in bank.context.reviews.of_customer(key)] == ["Ada"]


def test_saving_opens_the_next_case_of_mine(bank: Office) -> None:
    """Taken cases follow one another by exposure; with none left the page stays."""
    ada = bank.browser("analyst", name="Ada")
    cases = [needing(bank)[at] for at in (1, 3, 5)]
    for each in cases:
        do(ada, "take", each)
    page = ada.get(f"/customers/{cases[0]}").text
    assert f'id="next" method="get" action="/customers/{cases[1]}"' in page
    for this, then in ((0, cases[1]), (1, cases[2]), (2, cases[2])):
        saved = review(ada, cases[this])
        assert saved.headers["location"].startswith(f"/customers/{then}?run=")
        assert "The review is saved." in ada.get(saved.headers["location"]).text


def test_waiting_case_comes_back_on_its_day(bank: Office) -> None:
    """It leaves the list with whom it waits for, and stands on it again from that day on."""
    ada = bank.browser("analyst", name="Ada")
    first = needing(bank)[0]
    do(ada, "take", first)
    day = date.today() + timedelta(days=5)  # noqa: DTZ011 - days are whole
    for until, waits_for in (("2020-01-01", "customer"), ("", "customer"), (f"{day}", "nobody")):
        answer = do(ada, "wait", first, until=until, waits_for=waits_for)
        assert answer.status_code == 400
    waits = do(ada, "wait", first, until=f"{day}", waits_for="reporter")
    assert waits.status_code == 303, waits.text
    assert first not in work(ada)
    said = work(ada, "?whose=waiting")[first]
    assert said.startswith("you, waiting for the reporter until")
    bank.clock.forward(days=6)
    assert work(bank.browser("analyst", name="Late"), "?whose=others")[first] == "Ada"
    entry = bank.context.audit.entries(action="case waits")[0]
    assert (entry["customer_id"], entry["detail"]["waits_for"]) == (first, "reporter")


def test_work_is_shared_out_by_branch_and_the_rest_in_turn(bank: Office) -> None:
    """A branch is one user's; what is left goes to two in turn, in the order of exposure."""
    lead = bank.browser("approver", name="Lead")
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    assert do(lead, "share", which="branch:Kano", user="Ada").status_code == 303
    assert do(lead, "share", which="in turn:", user=["Ada", "Bem"]).status_code == 303
    kano = set(work(lead, "?branch=Kano&whose=others"))
    assert kano
    rest = [each for each in needing(bank) if each not in kano]
    assert set(work(ada)) == kano | set(rest[::2])
    assert list(work(bem)) == rest[1::2]
    assert set(work(bem).values()) == {"you, shared out"}
    do(bem, "back", rest[1])
    assert rest[1] in work(lead)
    assert do(lead, "share", which="branch:Kano", user="Eye").status_code == 400
    assert do(lead, "share", which="sign:leo", user="Ada").status_code == 400
    page = lead.get("/decisions").text
    (number,) = re.findall(
        r'name="share" value="(\d+)"><button name="do" value="end" aria-label="End: Kano"', page
    )
    assert do(lead, "end", share=number).status_code == 303
    assert set(work(ada)) != kano | set(rest[::2])
    assert bank.actions().count("work shared out") == 2


def test_work_is_handed_over_for_leave(bank: Office) -> None:
    """All that one had is another's: what was taken, what waits, and what is shared out."""
    lead = bank.browser("approver", name="Lead")
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    do(lead, "share", which="branch:Kano", user="Ada")
    taken = next(each for each in needing(bank) if each not in work(ada, "?branch=Kano"))
    do(ada, "take", taken)
    had = {name for name, whose in work(ada).items() if whose.startswith("you")}
    assert do(lead, "hand over", **{"from": "Ada", "taker": "Bem"}).status_code == 303
    assert had == {name for name, whose in work(bem).items() if whose.startswith("you")}
    assert not {name for name, whose in work(ada).items() if whose.startswith("you")}
    assert do(lead, "hand over", **{"from": "Ada", "taker": "Ada"}).status_code == 400
    assert bank.context.audit.entries(action="work handed over")[0]["detail"]["cases"] == 1


def test_declined_customer_is_approved_by_two(bank: Office) -> None:
    """Above the threshold the override waits; its maker cannot confirm it, another user can."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    who = declined(bank)[0]
    key = bank.journal.pseudonyms.customer("portfolio", who)
    at = f"/customers/{who}/override"
    assert review(ada, who, "approve", note="", reason="").status_code == 400
    proposed = review(ada, who, "approve")
    assert proposed.status_code == 303, proposed.text
    assert bank.context.reviews.of_customer(key) == []
    assert "waits for a second person" in ada.get(proposed.headers["location"]).text
    assert "Ada proposes to approve" in bem.get("/decisions").text
    assert ada.post(at, do="confirm").status_code == 403
    bank.context.accounts.change("Bem", [], {"override": False})
    assert bem.post(at, do="confirm").status_code == 403
    bank.context.accounts.change("Bem", [], {"override": True})
    assert bem.post(at, do="confirm").status_code == 303
    (stored,) = bank.context.reviews.of_customer(key)
    assert (stored.reviewer, stored.decision) == ("Ada", "approve")
    assert stored.note.endswith("Confirmed by Bem")
    assert bem.post(at, do="confirm").status_code == 409
    assert who not in work(ada)
    steps = [each for each in bank.actions() if "override" in each]
    assert steps == ["override proposed", "override confirmed"]
    made = open_contest(
        bank.journal,
        Actor("Chi", frozenset({"contest"})),
        bank.settings.contest,
        who,
        said="It is not so.",
        batch="portfolio",
    )
    for browser, status in ((bem, 403), (ada, 403), (bank.browser("approver", name="Chi"), 303)):
        answer = {"answer": "We looked again.", "outcome": "stands", "decision": ""}
        said = browser.post(f"/contests/{made.key}/answer", **answer)
        assert said.status_code == status, said.text


def test_second_person_is_asked_above_the_threshold_alone(bank: Office) -> None:
    """A small exposure, a decline that stands, or no threshold: one person is enough."""
    ada = bank.browser("analyst", name="Ada")
    every = declined(bank)
    for who, above, decision in zip(
        every, (None, 0, 10**9), ("approve", "decline", "approve"), strict=False
    ):
        bank.context.settings = bank.settings.model_copy(update={"override_above": above})
        assert review(ada, who, decision).status_code == 303
        assert bank.context.reviews.waiting() == []
        key = bank.journal.pseudonyms.customer("portfolio", who)
        assert len(bank.context.reviews.of_customer(key)) == 1


def test_no_way_round_the_second_person(bank: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another word for approve, nor a run in which less was at stake, nor a contest."""
    ada = bank.browser("analyst", name="Ada")
    who = declined(bank)[0]
    rows = bank.context.rows.of(bank.journal.runs.newest(limit=1)[0])
    assert rows is not None
    ((exposure,),) = [
        tuple(each.values())
        for each in rows.ask("SELECT exposure FROM run WHERE customer_id = ?", [who])
    ]
    bank.context.settings = bank.settings.model_copy(update={"override_above": exposure - 1})

    def cheaper(run: RunRecord, customer_id: str) -> dict[str, Any]:
        row = find_row(run, customer_id)
        assert row is not None
        return {**row, "exposure": Decimal(1)}

    key = bank.journal.pseudonyms.customer("portfolio", who)
    assert review(ada, who, "Approved").status_code == 303
    assert bank.context.reviews.of_customer(key) == []
    with monkeypatch.context() as patched:
        patched.setattr("nightscreen.desk.customer.find_row", cheaper)
        run = bank.journal.runs.newest(limit=2)[1].run_id
        review(ada, who, "approve", run=run)
    assert bank.context.reviews.of_customer(key) == []
    said = {"customer_id": who, "batch": "portfolio", "said": "I have paid"}
    assert ada.post("/contests", **said).status_code == 303
    (contest,) = list_contests(bank.journal)
    path = f"/contests/{contest['contest_id']}/answer"
    changed = {"outcome": "changed", "decision": "approve", "answer": "It is settled"}
    assert ada.post(path, **changed).status_code == 303
    assert bank.context.reviews.of_customer(key) == []
    assert list_contests(bank.journal) != []
    at = f"/customers/{who}/override"
    assert ada.post(at, do="confirm").status_code == 403
    bem = bank.browser("approver", name="Bem")
    assert bem.post(at, do="confirm").status_code == 303
    (stored,) = bank.context.reviews.of_customer(key)
    assert (stored.reviewer, stored.confirmed_by) == ("Ada", "Bem")
    (answered,) = list_contests(bank.journal, answered=True)
    assert (answered["answered_by"], answered["new_decision"]) == ("Ada", "approve")


def test_another_override_than_the_one_seen_is_not_confirmed(bank: Office) -> None:
    """It was proposed anew after the page was opened."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    who = declined(bank)[0]
    review(ada, who, "approve")
    (first,) = bank.context.reviews.waiting()
    assert f'name="proposal" value="{first.key}"' in bem.get(f"/customers/{who}").text
    review(ada, who, "approve", note="another letter")
    at = f"/customers/{who}/override"
    stale = bem.post(at, do="confirm", proposal=str(first.key))
    assert stale.status_code == 409
    assert (
        bank.context.reviews.of_customer(bank.journal.pseudonyms.customer("portfolio", who)) == []
    )


def test_work_outlasts_files_that_cannot_be_reached(bank: Office) -> None:
    """A disk that is not there yet closes no case and ends no proposal."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada = bank.browser("analyst", name="Ada")
    taken, proposed = declined(bank)[:2]
    do(ada, "take", taken)
    review(ada, proposed, "approve")
    folder = Path(bank.journal.runs.newest(limit=1)[0].folder)
    away = folder.rename(folder.with_name("away"))
    bank.context.work = WorkList(bank.context.journal, bank.context.cases)
    assert ada.get("/decisions").status_code == 200
    away.rename(folder)
    assert [each.holder for each in bank.context.cases.all() if each.holder] == ["Ada"]
    assert len(bank.context.reviews.waiting()) == 1


def test_work_is_not_given_to_who_does_not_see_it(bank: Office) -> None:
    """A user of one branch gets cases of that branch alone."""
    ada = bank.browser("analyst", name="Ada")
    bank.browser("analyst", name="Kano")
    bank.context.accounts.change("Kano", [], branches=["Kano"])
    assert do(ada, "share", which="in turn:", user=["Ada", "Kano"]).status_code == 400
    assert do(ada, "hand over", **{"from": "Ada", "taker": "Kano"}).status_code == 400
    assert do(ada, "share", which="branch:Kano", user=["Kano"]).status_code == 303


def test_refused_override_leaves_the_decline(bank: Office) -> None:
    """The second person refuses it, or its maker takes it back: nothing is saved."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    who = declined(bank)[0]
    for browser, action in ((bem, "override refused"), (ada, "override taken back")):
        review(ada, who, "approve")
        assert browser.post(f"/customers/{who}/override", do="end").status_code == 303
        assert bank.actions()[-1] == action
    assert (
        bank.context.reviews.of_customer(bank.journal.pseudonyms.customer("portfolio", who)) == []
    )
    assert who in work(ada)


def test_case_bears_age_and_due_time(bank: Office) -> None:
    """It ages from the night the decision was first listed, and is overdue after the period."""
    bank.clock.forward(days=2, hours=1)
    page = bank.browser("analyst", name="Ada").get("/decisions").text
    assert "2 days, <span>due" in page
    bank.clock.forward(days=2)
    page = bank.browser("analyst", name="Bem").get("/decisions").text
    assert "overdue since" in page


def test_user_of_one_branch_sees_its_cases_alone(bank: Office) -> None:
    """Neither the list nor a case of another branch is theirs, nor what waits there."""
    kano = bank.browser("analyst", name="Kano")
    bank.context.accounts.change("Kano", [], branches=["Kano"])
    everybody = set(work(bank.browser("analyst", name="All")))
    seen = set(work(kano))
    assert seen
    assert seen < everybody
    other = next(iter(everybody - seen))
    assert do(kano, "take", other).status_code == 409
    assert do(kano, "share", which="in turn:", user="Kano").status_code == 403


def test_erasure_and_a_new_data_key_hold_for_cases_and_overrides(bank: Office) -> None:
    """An erased customer is nobody's case; what waits opens under the new key."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada = bank.browser("analyst", name="Ada")
    who = declined(bank)[0]
    do(ada, "take", who)
    review(ada, who, "approve")
    rotate_key(bank.journal)
    with open_journal(bank.folder / "home") as journal:
        bank.context.cases = Cases(journal)
        (waiting,) = Reviews.of(journal).waiting()
        assert waiting.customer_id == who
        batches = {each.batch for each in bank.context.cases.all()}
        mine = [journal.pseudonyms.customer(batch, who) for batch in batches]
        Erasures.of(journal).erase(ErasedPseudonyms(customers=mine))
        assert bank.context.cases.all() == []


def test_name_with_a_quote_is_a_name(bank: Office) -> None:
    """Names and values are compared, never run."""
    bank.browser("analyst", name="Ada")
    odd = bank.browser("analyst", name="O'Neil'); DROP TABLE work; --")
    first = needing(bank)[0]
    do(odd, "take", first)
    assert work(odd)[first] == "you"
    for query in ("?whose=' OR 1=1", "?branch='); DROP TABLE work; --", "?batch=x'y", "?page=-1"):
        assert odd.get(f"/decisions{query}").status_code == 200
    assert unescape(odd.get(f"/customers/{first}").text).count("you, taken") == 1
