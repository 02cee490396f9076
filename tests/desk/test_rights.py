"""What a user may do or see beside the roles: rights one by one, and limits to branches."""

from __future__ import annotations

import re

from starlette.routing import Route

from nightscreen.desk.app import _routes
from nightscreen.journal.actor import Actor
from nightscreen.journal.audit import AuditQuery
from nightscreen.privacy.contests import list_contests, open_contest
from tests.desk.conftest import borrowers
from tests.desk.office import Browser, Office
from tests.desk.test_pages import facet, listed
from tests.screening import World

KANO = [f"C{number}" for number in range(1, 61) if number % 3 == 1]


EVERYBODY = ("analyst", "approver", "auditor", "privacy", "administrator")
READS = ("analyst", "approver", "auditor", "privacy")
WORKS = ("analyst", "approver")
ANSWERS = ("analyst", "approver", "privacy")
COUNTS = ("analyst", "approver", "auditor")
MATRIX: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "/sign-out"): EVERYBODY,
    ("GET", "/"): EVERYBODY,
    ("GET", "/new"): WORKS,
    ("POST", "/new"): WORKS,
    ("GET", "/new/applicant"): WORKS,
    ("POST", "/new/applicant"): WORKS,
    ("GET", "/new/{upload_id}"): WORKS,
    ("POST", "/new/{upload_id}/quote"): WORKS,
    ("POST", "/new/{upload_id}/screen"): WORKS,
    ("GET", "/approvals"): ("approver", "auditor"),
    ("POST", "/approvals/{run_id}"): ("approver",),
    ("GET", "/runs"): READS,
    ("GET", "/runs/{run_id}"): READS,
    ("POST", "/runs/{run_id}/stop"): WORKS,
    ("POST", "/runs/{run_id}/resume"): WORKS,
    ("POST", "/runs/{run_id}/sign"): ("approver",),
    ("POST", "/runs/{run_id}/confirm"): ("approver",),
    ("POST", "/runs/{run_id}/release"): ("approver",),
    ("GET", "/runs/{run_id}/report"): COUNTS,
    ("GET", "/runs/{run_id}/files/{name:path}"): WORKS,
    ("GET", "/runs/{run_id}/fix"): WORKS,
    ("POST", "/runs/{run_id}/fix"): WORKS,
    ("GET", "/runs/{run_id}/decisions"): READS,
    ("GET", "/runs/{run_id}/decisions.{kind}"): WORKS,
    ("GET", "/decisions"): READS,
    ("POST", "/decisions"): WORKS,
    ("GET", "/contests"): READS,
    ("POST", "/contests"): ANSWERS,
    ("POST", "/contests/{contest_id}/answer"): ANSWERS,
    ("GET", "/policy"): READS,
    ("POST", "/policy/try"): READS,
    ("POST", "/policy/propose"): WORKS,
    ("POST", "/policy/{key}"): READS,
    ("POST", "/customers/{customer_id:path}/review"): WORKS,
    ("POST", "/customers/{customer_id:path}/override"): WORKS,
    ("POST", "/customers/{customer_id:path}/told"): ANSWERS,
    ("POST", "/customers/{customer_id:path}/action"): WORKS,
    ("POST", "/customers/{customer_id:path}/again"): WORKS,
    ("POST", "/customers/{customer_id:path}/consent"): ANSWERS,
    ("POST", "/customers/{customer_id:path}/comment"): WORKS,
    ("GET", "/customers/{customer_id:path}/attachments/{key}"): READS,
    ("GET", "/customers/{customer_id:path}"): READS,
    ("GET", "/users"): ("administrator",),
    ("POST", "/users"): ("administrator",),
    ("POST", "/users/confirm"): ("approver",),
    ("POST", "/users/give-up"): EVERYBODY,
    ("GET", "/money"): COUNTS,
    ("POST", "/money/settle"): WORKS,
    ("POST", "/money/missing"): WORKS,
    ("POST", "/money/confirm"): WORKS,
    ("GET", "/money.csv"): COUNTS,
    ("GET", "/audit"): ("auditor",),
    ("GET", "/audit.csv"): ("auditor",),
}
"""Which roles each address is open to. Without a session it leads to the sign-in."""
OPEN = {"/sign-in", "/first", "/second-factor", "/static", "/health"}


def test_every_address_is_open_to_the_roles_of_the_matrix_alone(bank: Office) -> None:
    """Each role asks each address: others are refused, and it is written down what they lack."""
    here = {
        (method, route.path)
        for route in _routes(bank.context)
        if route.path not in OPEN
        for method in ((isinstance(route, Route) and route.methods) or {"any"}) - {"HEAD"}
    }
    assert here == set(MATRIX)
    values = {
        "run_id": bank.night.run_id,
        "customer_id": "C1",
        "name": "decisions.csv",
        "kind": "csv",
    }
    for role in EVERYBODY:
        browser = bank.browser(role)
        session = dict(browser.cookies)
        for (method, path), roles in MATRIX.items():
            address = re.sub(r"{(\w+)[^}]*}", lambda name: values.get(name[1], "x" * 32), path)
            browser.cookies = dict(session) if path != "/sign-out" else {}
            answer = browser.post(address) if method == "POST" else browser.get(address)
            (last, *_) = bank.context.audit.find(limit=1) or [{"detail": {}}]
            is_refused = answer.status_code == 403 and last["detail"].get("needs") is not None
            assert is_refused is (role not in roles), (role, method, path, answer.status_code)
            stranger = Browser(bank)
            if role == EVERYBODY[0]:
                asked = stranger.post(address) if method == "POST" else stranger.get(address)
                assert asked.headers["location"].startswith("/sign-in"), address


def limited(bank: Office, *branches: str, name: str = "Kemi") -> Browser:
    """Return the browser of an analyst and auditor who sees some branches alone."""
    browser = bank.browser("analyst", "auditor", name=name)
    bank.context.accounts.change(name, [], branches=branches)
    return browser


def test_what_is_seen_done_and_taken_out_is_of_the_users_branches(bank: Office) -> None:
    """Rows, facets, what needs somebody, a search and CSV: all of the branch and nothing else.

    A customer of another branch is 403 by whatever address, and in the audit; the run is shown, its
    files, which hold every branch at once, are not. Others' contests are neither listed, nor
    recorded, nor answered.
    """
    for customer in ("C58", "C59"):
        clocks = bank.settings.contest
        open_contest(bank.journal, Actor("Ada"), clocks, customer, said="No", batch="portfolio")
    browser, run = limited(bank, " kano "), bank.night.run_id
    every = bank.browser("analyst").get(f"/runs/{run}/decisions").text
    assert facet(every, "branch") == {"Lagos": 20, "Kano": 20, "Ibadan": 20}
    page = browser.get(f"/runs/{run}/decisions?sort=customer").text
    assert set(listed(page)) == set(KANO)
    assert facet(page, "branch") == {"Kano": 20}
    assert sum(facet(page, "decision").values()) == 20
    assert "of 20 customers need review" in page
    assert listed(browser.get(f"/runs/{run}/decisions?branch=Lagos").text) == []
    found = listed(browser.get(f"/runs/{run}/decisions?search=C3").text)
    assert sorted(found) == ["C31", "C34", "C37"]
    lines = browser.get(f"/runs/{run}/decisions.csv").text.lstrip("\ufeff").splitlines()
    assert {line.partition(",")[0] for line in lines if line.startswith("C")} == set(KANO)
    own = f"/customers/C58?run={run}"
    assert [browser.get(path).status_code for path in (own, "/customers/C58")] == [200, 200]
    following = re.search(
        r'id="next" method="get" action="/customers/(C\d+)"', browser.get(own).text
    )
    assert following is None or following[1] in KANO
    for path in ("/customers/C59", f"/customers/C59?run={run}"):
        assert browser.get(path).status_code == 403
    fields = {"run": run, "decision": "decline", "reason": "The policy is right", "note": "x"}
    for form in ("review", "again", "consent"):
        assert browser.post(f"/customers/C59/{form}", **fields).status_code == 403
    refused = bank.context.audit.find(AuditQuery(action="refused"))
    assert {(each["customer_id"], each["detail"]["needs"]) for each in refused} == {
        ("C59", "branch")
    }
    assert len(refused) == 5
    whole = browser.get(f"/runs/{run}")
    assert (whole.status_code, "<iframe" in whole.text) == (200, False)
    files = ("decisions.csv", "calls.parquet", "report.json", "enriched/part-00000.parquet")
    for path in (*(f"files/{name}" for name in files), "report", "fix"):
        assert browser.get(f"/runs/{run}/{path}").status_code == 403, path
    assert browser.get(f"/runs/{run}/files/problems.csv").status_code == 200
    page = browser.get("/contests").text
    assert ("/customers/C58" in page, "C59" in page) == (True, False)
    assert "1 contest</b>" in browser.get("/").text
    foreign = next(each for each in list_contests(bank.journal) if each.customer_id == "C59")
    path = f"/contests/{foreign.key}/answer"
    assert browser.post(path, outcome="stands", answer="No").status_code == 403
    made = browser.post("/contests", customer_id="C57", batch="portfolio", said="No")
    assert made.status_code == 403
    assert len(list_contests(bank.journal)) == 2


def test_run_is_resumed_by_who_sees_all_of_its_customers(bank: Office) -> None:
    """A run of several branches is none of an analyst's of one; a run of that branch is."""
    people = [each for each in borrowers(60) if each["Branch"] == "Kano"]
    own = World(bank.folder).screen(people, batch="kano", checks=["karma"])
    whole, report = bank.night.run_id, {**own.report, "state": "stopped"}
    for run_id in (whole, own.report["run_id"]):
        bank.journal.runs.finish(run_id, state="stopped", stop_reason="deadline", report=report)
    browser = limited(bank, "Kano")
    assert ">Resume</button>" not in browser.get(f"/runs/{whole}").text
    assert browser.post(f"/runs/{whole}/resume", max_spend="100").status_code == 403
    assert bank.starts.started == []
    assert bank.context.audit.find(AuditQuery(action="refused"))[0]["detail"]["needs"] == "branch"
    assert ">Resume</button>" in browser.get(f"/runs/{own.report['run_id']}").text
    sent = browser.post(f"/runs/{own.report['run_id']}/resume", max_spend="100")
    assert sent.status_code == 303
    assert [each.run for each in bank.starts.started] == [own.report["run_id"]]
    unlimited = bank.browser("analyst", name="All")
    assert unlimited.post(f"/runs/{whole}/resume").status_code == 303


def test_limits_and_rights_are_set_on_the_page_and_shown_there(bank: Office) -> None:
    """Branches divided by commas; a right given or taken is what the user then may."""
    admin, both = bank.browser("administrator"), ("Kano", "Lagos Island")
    bank.browser("analyst", name="Kemi")
    for changed, branches in (
        ({"branches": "Kano, Lagos Island", "export": "taken"}, both),
        ({"money": "taken"}, both),  # a form without the field changes nothing
        ({"branches": ""}, ()),
    ):
        page = admin.post("/users", name="Kemi", do="change", role="analyst", **changed).text
        kemi = bank.user("Kemi")
        assert (kemi.branches, kemi.may("export")) == (branches, False)
        assert f'value="{", ".join(branches)}"' in page
    (first, *_) = bank.context.audit.find(AuditQuery(action="user changed"))[::-1]
    assert first["detail"]["branches"] == [*both]
    assert first["detail"]["rights"] == {"export": False}
    assert "; Rights: Export no; " in bank.browser("auditor").get("/audit").text
