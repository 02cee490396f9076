"""One's own work over all batches: shared out, taken, given back, waited for; overrides by two."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import httpx
import pytest

from nightscreen.desk.rows import rows_of_run
from nightscreen.journal.actor import Actor
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.runs import RunRecord
from nightscreen.privacy.contests import list_contests, open_contest
from nightscreen.privacy.explaining import explain
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.results.enriched import find_row
from nightscreen.results.final_decision import final_columns
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.contests import ContestOutcome
from tests.desk.conftest import borrowers
from tests.desk.office import Browser, Office
from tests.desk.test_money import taken
from tests.screening import World

ROW = re.compile(r'<tr><th scope="row"><a href="/customers/([^"?]+)\?run=.*?</tr>', re.DOTALL)
WHOSE = re.compile(r'data-head="Whose">([^<]*)<')


def work(browser: Browser, query: str = "") -> dict[str, str]:
    """Return the customers of a user's list, in order, and whose each is."""
    page = browser.get(f"/decisions{query}")
    assert page.status_code == 200, page.text
    return {row[1]: WHOSE.findall(row[0])[0] for row in ROW.finditer(page.text)}


def do(browser: Browser, does: str, customer: str = "", **more: Any) -> httpx.Response:  # noqa: ANN401 - words or lists
    """Press a button of the list."""
    fields: dict[str, Any] = {"do": does, "customer_id": customer, "batch": "portfolio", **more}
    return browser.post("/decisions", **fields)


def review(
    browser: Browser, customer: str, decision: str = "decline", **more: str
) -> httpx.Response:
    """Save a review as the page's own form would."""
    page = browser.get(f"/customers/{customer}").text
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    fields = {name: value for name, value in hidden if name in {"run", "newest_review"}}
    fields |= {"decision": decision, "reason": "Settled since, proof seen", "note": "letter"}
    return browser.post(f"/customers/{customer}/review", **fields | more)


def of_newest_run(bank: Office, which: str, order: str = "row") -> list[str]:
    rows = rows_of_run(bank.night)
    assert rows is not None
    found = rows.ask(f"SELECT customer_id FROM run WHERE {which} ORDER BY {order}")  # noqa: S608 - words of ours
    return [each["customer_id"] for each in found]


def needing(bank: Office) -> list[str]:
    """Return who needs somebody, worst exposure first, by the newest run's own list."""
    return of_newest_run(bank, "decision <> 'approve'", "exposure DESC NULLS LAST, row")


def declined(bank: Office) -> list[str]:
    """Return whom the policy declines."""
    found = of_newest_run(bank, "decision = 'decline'")
    assert len(found) > 2
    return found


def saved(bank: Office, who: str) -> list[tuple[str, str, str]]:
    """Return the reviews of a customer: by whom, what, and who confirmed it."""
    return [(each.reviewer, each.decision, each.confirmed_by) for each in bank.reviews(who)]


def test_list_holds_who_needs_somebody_and_take_makes_a_case_mine(bank: Office) -> None:
    """One line each with name, reason, exposure and due day; once taken, mine, and back again.

    One that waits leaves the list with whom it waits for, and stands on it again from its day on.
    """
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    everybody = needing(bank)
    assert list(work(ada)) == everybody[:40]
    assert set(work(ada).values()) == {"nobody"}
    (line, *_) = ROW.finditer(ada.get("/decisions").text)
    row = find_row(bank.night, everybody[0])
    assert row is not None
    assert f"{row['first_name']} {row['last_name']}</span>" in line[0]
    assert f'<span class="word {row["decision"]}" title="' in line[0]
    assert f'">{row["decision"]}: ' in line[0]
    assert f"₦{row['exposure']:,.0f}</td>" in line[0]
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
    assert [each for each in bank.actions() if "case" in each] == ["case taken", "case given back"]
    first, day = everybody[0], date.today() + timedelta(days=5)  # noqa: DTZ011 - days are whole
    do(ada, "take", first)
    for until, waits_for in (("2020-01-01", "customer"), ("", "customer"), (f"{day}", "nobody")):
        assert do(ada, "wait", first, until=until, waits_for=waits_for).status_code == 400
    assert do(ada, "wait", first, until=f"{day}", waits_for="reporter").status_code == 303
    assert first not in work(ada)
    assert work(ada, "?whose=waiting")[first].startswith("you, waiting for the reporter until")
    entry = bank.context.audit.find(AuditQuery(action="case waits"))[0]
    assert (entry["customer_id"], entry["detail"]["waits_for"]) == (first, "reporter")
    bank.clock.forward(days=2, hours=1)
    later = bank.browser("analyst", name="Chi")
    page = later.get("/decisions").text
    assert 'title="waits 2 days"' in page
    assert "overdue since" not in page
    bank.clock.forward(days=2)
    assert "overdue since" in bank.browser("analyst", name="Dan").get("/decisions").text
    bank.clock.forward(days=2)
    assert work(bank.browser("analyst", name="Late"), "?whose=others")[first] == "Ada"


def test_part_of_a_batch_leaves_the_rest_of_the_list_as_it_was(bank: Office) -> None:
    """A run of fixed rows or of one customer counts for these alone; who has a case keeps it."""
    browser = bank.browser("analyst", name="Ada")
    before = list(work(browser))
    run = bank.night
    one = before[3]
    do(browser, "take", one)
    (person,) = [each for each in borrowers(60) if each["customer_id"] == one]
    part = {**person, "exposure": "99000000", "line": "2", "column": "", "code": "", "hint": ""}
    World(bank.folder).screen([part], batch="portfolio")
    after = work(browser)
    assert next(iter(after.items())) == (one, "you")
    assert sorted(after) == sorted(before)
    case = bank.context.work.seen_by("Ada").case("portfolio", one)
    assert case is not None
    assert case["run_id"] != run.run_id
    World(bank.folder).screen(borrowers(30), batch="portfolio")
    assert set(work(browser)) == {each for each in before if int(each[1:]) <= 30}


def test_two_on_one_case_learn_of_each_other_and_nothing_typed_is_lost(bank: Office) -> None:
    """Neither a case that somebody has is reviewed, nor one that was reviewed meanwhile."""
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    first, second, third = needing(bank)[:3]
    ada.get(f"/customers/{first}")
    assert "Ada opened this page" in bem.get(f"/customers/{first}").text
    for each in (first, third):
        do(ada, "take", each)
    assert "Ada, taken less than a minute ago" in bem.get(f"/customers/{first}").text
    refused = review(bem, first, note="my long note")
    assert (refused.status_code, "Ada has this case" in refused.text) == (409, True)
    assert ">my long note</textarea>" in refused.text
    opens = review(ada, first)
    assert opens.headers["location"].startswith(f"/customers/{third}?run="), "the next of mine"
    assert first not in {**work(ada), **work(bem, "?whose=others")}
    assert do(bem, "take", first).status_code == 409
    assert review(ada, second).status_code == 303
    late = review(bem, second, newest_review="")
    assert (late.status_code, "Somebody reviewed this customer" in late.text) == (409, True)
    assert [by for by, _, _ in saved(bank, second)] == ["Ada"]


def test_work_is_shared_out_and_handed_over(bank: Office) -> None:
    """A branch is one user's, the rest goes to two in turn; for leave all of it is another's."""
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
    do(ada, "take", rest[0])
    for which, user in (("branch:Kano", "Eye"), ("sign:leo", "Ada")):
        assert do(lead, "share", which=which, user=user).status_code == 400
    had = {name for name, whose in work(ada).items() if whose.startswith("you")}
    assert do(lead, "hand over", **{"from": "Ada", "taker": "Ada"}).status_code == 400
    assert do(lead, "hand over", **{"from": "Ada", "taker": "Bem"}).status_code == 303
    assert had <= {name for name, whose in work(bem).items() if whose.startswith("you")}
    assert not {name for name, whose in work(ada).items() if whose.startswith("you")}
    assert bank.context.audit.find(AuditQuery(action="work handed over"))[0]["detail"]["cases"] == 1
    ending = r'name="share" value="([^"]+)"><button name="do" value="end" aria-label="End: Kano"'
    (number,) = re.findall(ending, lead.get("/decisions").text)
    assert do(lead, "end", share=number).status_code == 303
    assert bank.actions().count("work shared out") == 2


def test_user_of_one_branch_sees_and_gets_its_cases_alone(bank: Office) -> None:
    """Neither the list nor a case of another branch is theirs, nor work of all branches.

    Names and values are compared, never run.
    """
    odd, first = bank.browser("analyst", name="O'Neil'); DROP TABLE work; --"), needing(bank)[0]
    do(odd, "take", first)
    assert work(odd)[first] == "you"
    for query in ("?whose=' OR 1=1", "?branch='); DROP TABLE work; --", "?batch=x'y", "?page=-1"):
        assert odd.get(f"/decisions{query}").status_code == 200
    assert unescape(odd.get(f"/customers/{first}").text).count("you, taken") == 1
    do(odd, "back", first)
    ada, kano = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Kano")
    bank.context.accounts.change("Kano", [], branches=["Kano"])
    everybody, seen = set(work(ada)), set(work(kano))
    assert set() < seen < everybody
    assert do(kano, "take", next(iter(everybody - seen))).status_code == 409
    assert do(kano, "share", which="in turn:", user="Kano").status_code == 403
    assert do(ada, "share", which="in turn:", user=["Ada", "Kano"]).status_code == 400
    assert do(ada, "hand over", **{"from": "Ada", "taker": "Kano"}).status_code == 400
    assert do(ada, "share", which="branch:Kano", user=["Kano"]).status_code == 303


def test_declined_customer_is_approved_by_two(bank: Office) -> None:
    """Above the threshold the override waits; its maker cannot confirm it, another user can."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    who, other = declined(bank)[:2]
    at = f"/customers/{who}/override"
    assert review(ada, who, "approve", note="", reason="").status_code == 400
    for browser, action in ((bem, "override refused"), (ada, "override taken back")):
        review(ada, who, "approve")
        assert browser.post(at, do="end").status_code == 303
        assert bank.actions()[-1] == action
    assert (saved(bank, who), who in work(ada)) == ([], True)
    proposed = review(ada, who, "approve")
    assert "waits for a second person" in ada.get(proposed.headers["location"]).text
    assert saved(bank, who) == []
    assert "Ada proposes to approve" in bem.get("/decisions").text
    assert ada.post(at, do="confirm").status_code == 403
    bank.context.accounts.change("Bem", [], {"override": False})
    assert bem.post(at, do="confirm").status_code == 403
    bank.context.accounts.change("Bem", [], {"override": True})
    (seen,) = bank.context.reviews.waiting()
    assert f'name="proposal" value="{seen.key}"' in bem.get(f"/customers/{who}").text
    review(ada, who, "approve", note="another letter")
    assert bem.post(at, do="confirm", proposal=str(seen.key)).status_code == 409
    bank.clock.forward(minutes=5)
    confirmed_from = str(instant_text(bank.clock()))
    assert bem.post(at, do="confirm").status_code == 303
    assert saved(bank, who) == [("Ada", "approve", "Bem")]
    final = final_columns(bank.reviews(who)[0])
    assert str(final["decided_at"]) >= confirmed_from, "when it was settled, not when proposed"
    assert bem.post(at, do="confirm").status_code == 409
    assert who not in work(ada)
    clocks = bank.settings.contest
    chi = Actor("Chi", frozenset({"contest"}))
    made = open_contest(bank.journal, chi, clocks, who, said="It is not so.", batch="portfolio")
    for browser, status in ((bem, 403), (ada, 403), (bank.browser("approver", name="Chi"), 303)):
        answer = {"answer": "We looked again.", "outcome": "stands", "decision": ""}
        said = browser.post(f"/contests/{made.key}/answer", **answer)
        assert said.status_code == status, said.text
    for above, decision in ((None, "approve"), (0, "decline")):
        bank.context.settings = bank.settings.model_copy(update={"override_above": above})
        assert review(ada, other, decision).status_code == 303
    assert bank.context.reviews.waiting() == []
    assert len(saved(bank, other)) == 2, "a small exposure, or a decline: one person is enough"


def test_no_way_round_the_second_person(bank: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another word for approve, nor a run in which less was at stake, nor a contest."""
    ada = bank.browser("analyst", name="Ada")
    who = declined(bank)[0]
    row = find_row(bank.night, who)
    assert row is not None
    above = {"override_above": row["exposure"] - 1}
    bank.context.settings = bank.settings.model_copy(update=above)

    def cheaper(run: RunRecord, customer_id: str) -> dict[str, Any]:
        return {**(find_row(run, customer_id) or {}), "exposure": Decimal(1)}

    assert review(ada, who, "Approved").status_code == 303
    with monkeypatch.context() as patched:
        patched.setattr("nightscreen.desk.customer.find_row", cheaper)
        review(ada, who, "approve", run=bank.journal.runs.newest(limit=2)[1].run_id)
    assert saved(bank, who) == []
    said = {"customer_id": who, "batch": "portfolio", "said": "I have paid"}
    assert ada.post("/contests", **said).status_code == 303
    (contest,) = list_contests(bank.journal)
    path = f"/contests/{contest.key}/answer"
    changed = {"outcome": "changed", "decision": "approve", "answer": "It is settled"}
    assert bank.browser("privacy").post(path, **changed).status_code == 403
    for _ in range(2):
        waits = ada.post(path, **changed)
        assert "waits for a second person" in ada.get(waits.headers["location"]).text
    assert saved(bank, who) == []
    assert [each.state for each in list_contests(bank.journal)] == ["open"]
    at = f"/customers/{who}/override"
    assert ada.post(at, do="confirm").status_code == 403
    assert bank.browser("approver", name="Bem").post(at, do="confirm").status_code == 303
    assert saved(bank, who) == [("Ada", "approve", "Bem")]
    (answered,) = list_contests(bank.journal, answered=True)
    assert (answered.answered_by, answered.new_decision) == ("Ada", "approve")


def exported(bank: Office, browser: Browser) -> dict[str, tuple[str, str]]:
    """Return the final decision on each customer of the newest run's list, and by whom."""
    run = bank.night.run_id
    rows, _ = taken(browser.get(f"/runs/{run}/decisions.csv").text)
    return {row["customer_id"]: (row["final_decision"], row["decided_by"]) for row in rows}


def test_whoever_settles_a_case_is_named_everywhere(bank: Office) -> None:
    """On the list, in its export, on the customer's page and in `explain`; of others nothing.

    A review, the answer to a contest, and an override that two settle.
    """
    reviewed, contested, overridden = declined(bank)[:3]
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("analyst", name="Bem")
    assert review(ada, reviewed, "approve").status_code == 303
    said = {"customer_id": contested, "batch": "portfolio", "said": "It was paid."}
    at = bem.post("/contests", **said).headers["location"].partition("#")[2]
    answer = {"outcome": ContestOutcome.CHANGED.value, "decision": "approve", "answer": "Paid."}
    assert ada.post(f"/contests/{at}/answer", **answer).status_code == 303
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    assert review(ada, overridden, "approve").status_code == 303
    assert exported(bank, ada)[overridden] == ("", ""), "it waits for the second person"
    assert bem.post(f"/customers/{overridden}/override", do="confirm").status_code == 303
    by = {reviewed: "Ada", contested: "Ada", overridden: "Ada, Bem"}
    settled = {who: ("approve", names) for who, names in by.items()}
    found = exported(bank, ada)
    assert {who: of for who, of in found.items() if of != ("", "")} == settled
    run = bank.night.run_id
    listed = ada.get(f"/runs/{run}/decisions?decision=decline").text
    lines = {row[1]: row[0] for row in ROW.finditer(listed)}
    for who, names in by.items():
        document = explain(bank.journal, lookup_subject(bank.journal, who)[0])
        assert (document["final_decision"], document["decided_by"]) == settled[who]
        assert document["decided_why"]
        assert "Final decision" in ada.get(f"/customers/{who}?run={run}").text
        assert f"approve by {names}" in lines[who]
