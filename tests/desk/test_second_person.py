"""Two persons are two persons: rights that sleep, resets, own rights, and the way to a second."""

from __future__ import annotations

import re

import pytest

from nightscreen.journal.audit import AuditQuery
from tests.cli.conftest import Here
from tests.desk.office import ORIGIN, PASSWORD, Browser, Office
from tests.desk.test_my_work import declined, review

LINK = re.compile(re.escape(ORIGIN) + r"/first\?token=([\w.-]+)")


def first_user(office: Office, name: str = "Ada") -> Browser:
    """Return the browser of the first user, who has every role."""
    token = office.context.accounts.first_link()
    assert token is not None
    return by_link(office, token, name)


def by_link(office: Office, token: str, name: str = "x") -> Browser:
    browser = office.browser()
    assert browser.post("/first", link=token, name=name, password=PASSWORD).status_code == 303
    return browser


def link_of(page: str) -> str:
    found = LINK.search(page)
    assert found, "the page shows no link"
    return found[1]


def added(admin: Browser, name: str, *roles: str) -> Browser:
    """Return the browser of a user whom an administrator added, signed in by the link."""
    page = admin.post("/users", do="add", name=name, role=list(roles))
    assert page.status_code == 200, page.text
    return by_link(admin.office, link_of(page.text))


def two_approvers(office: Office) -> tuple[Browser, Browser]:
    """Return the first user and the second approver, made by the first."""
    ada = first_user(office)
    return ada, added(ada, "Bem", "approver")


def test_administrator_confirms_no_override_of_his_own_as_somebody_he_made(bank: Office) -> None:
    """The whole attack: more roles, a made-up analyst, and the reset of a colleague."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 0})
    ada, bem = two_approvers(bank)
    carol = added(ada, "Carol", "administrator", "auditor")
    who = declined(bank)[0]
    at = f"/customers/{who}/override"
    every = ["administrator", "analyst", "approver"]
    assert carol.post("/users", do="change", name="Carol", role=every).status_code == 400
    assert not bank.user("Carol").may("approve")
    assert carol.post("/users", do="change", name="Carol", override="given").status_code == 400

    assert review(ada, who, "approve").status_code == 303
    bob = added(ada, "bob", "analyst")
    assert bob.post(at, do="confirm").status_code == 403
    for sock in (ada, bob):
        assert sock.post("/users/confirm", name="bob").status_code == 403
    reset = ada.post("/users", do="reset", name="Bem")
    as_bem = by_link(bank, link_of(reset.text))
    assert as_bem.post(at, do="confirm").status_code == 403
    assert ada.post("/users/confirm", name="Bem").status_code == 403
    assert bank.reviews(who) == []
    assert bem.get("/").status_code == 303, "her session ended with the reset"


def test_approver_who_did_not_see_the_link_wakes_the_rights(office: Office) -> None:
    """Not before the user signed in; then once, on Tonight, and the audit has it.

    Without the second approver nobody is alone again: neither makes another nor decides own.
    """
    ada, bem = two_approvers(office)
    page = ada.post("/users", do="add", name="Chi", role="analyst")
    assert "Confirm Chi" not in bem.get("/").text
    assert bem.post("/users/confirm", name="Chi").status_code == 403
    by_link(office, link_of(page.text))
    assert office.user("Chi").may("review")
    assert not office.user("Chi").may("override")
    assert "Confirm Chi" in bem.get("/").text
    assert "Confirm Chi" not in ada.get("/").text
    assert bem.post("/users/confirm", name="Chi").status_code == 303
    assert office.user("Chi").may("override")
    (entry,) = office.context.audit.find(AuditQuery(action="rights confirmed"))
    assert (entry["user"], entry["detail"]) == ("Bem", {"name": "Chi"})
    assert bem.post("/users/confirm", name="Chi").status_code == 403
    assert ada.post("/users", do="change", name="Bem", role="auditor").status_code == 200
    added(ada, "Eve", "approver")
    assert not office.user("Eve").may("approve")
    assert office.context.accounts.needs_two()


def test_second_approver_is_made_by_the_first_user_and_shown_for_seven_days(
    office: Office,
) -> None:
    """Somebody has to; everybody sees it in red, and the audit has it.

    From then on the last approver and the last administrator stay, others may give up: by the page
    of users and by one's own.
    """
    ada, bem = two_approvers(office)
    assert office.user("Bem").may("approve")
    eye = added(ada, "Eye", "auditor")
    for browser in (ada, bem, eye):
        assert re.search(r'class="error" role="alert">Bem got .* from Ada', browser.get("/").text)
    assert office.context.audit.find(AuditQuery(action="user added"))[-1]["detail"]["name"] == "Bem"
    assert bem.post("/users/give-up", role="approver").status_code == 400
    assert ada.post("/users/give-up", role="administrator").status_code == 400
    assert ada.post("/users/give-up", role="approver").status_code == 303
    assert not office.user("Ada").may("approve")
    assert ada.post("/users", do="change", name="Bem", role="analyst").status_code == 400
    assert office.user("Bem").may("approve")
    back = ada.post("/users", do="change", name="Ada", role=["administrator", "approver"])
    assert back.status_code == 400
    office.clock.forward(days=6, hours=23)
    assert [each.name for each in office.context.accounts.made_alone()] == ["Bem"]
    office.clock.forward(hours=2)
    assert office.context.accounts.made_alone() == []


def test_commands_obey_the_same_rules(
    office: Office, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added or reset at the host, an approver sleeps; the machine's account adds nothing to it.

    An approver who is lost and reset there sleeps for a day, shown to all; after it the rights are
    there without anybody's word.
    """
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(office.folder / "home"))
    monkeypatch.setattr("getpass.getuser", lambda: "aud")
    ada, bem = two_approvers(office)
    added(ada, "Aud", "auditor")
    document = here("desk", "user", "add", "Eve", "--role", "approver", "--json").document
    assert document["link"].endswith(f"/first?token={document['token']}")
    by_link(office, document["token"])
    assert not office.user("Eve").may("approve")
    assert here("desk", "user", "reset", "Eve").status == 0
    assert office.user("Eve").waits_for_approver, "a reset is no way round the confirmation"
    assert {"aud"} <= {
        each["user"] for each in office.context.audit.find(AuditQuery(action="user added"))
    }
    assert re.search(r'role="alert">Eve got .* from aud', bem.get("/").text)
    token = here("desk", "user", "reset", "Bem", "--json").document["token"]
    lost = office.user("Bem")
    assert (lost.asleep, lost.waits_for_approver) == (True, False)
    assert bem.get("/").status_code == 303
    new = by_link(office, token)
    assert not office.user("Bem").may("approve")
    assert re.search(r'role="alert">Bem got .* sleep until', ada.get("/").text)
    own = "Your rights to approve and override sleep until"
    assert own in new.get("/approvals").text
    assert own not in ada.get("/approvals").text
    refused = new.post("/approvals/R", do="approve")
    assert (refused.status_code, "Your right to do this sleeps" in refused.text) == (403, True)
    until = office.clock() + 24 * 3600 * 1_000_000  # the command has the clock of today
    office.context.accounts.set("Bem", asleep_until=until)
    office.clock.forward(hours=23)
    assert not office.user("Bem").may("approve")
    office.clock.forward(hours=2)
    assert office.user("Bem").may("approve")
    assert new.get("/").status_code == 303, "the session is of another day"
