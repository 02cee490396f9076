"""Values that nobody types by mistake: each is refused in a sentence, or taken as it is."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from nightscreen.schemas.users import Role
from tests.begun import begin_run
from tests.desk.conftest import wait_for_approval
from tests.desk.office import Office
from tests.screening import World

ODD = ("1e999", "9" * 5000, "²")
STOPPED = "20260301-230000-a1b2c3"


def test_no_odd_value_ends_in_a_fault(bank: Office) -> None:
    """In any field of a form, in the path of an address, and in what is asked for after it.

    There are two nights, a run that waits for approval, and one that was stopped.
    """
    run = bank.night.run_id
    wait_for_approval(bank, "somebody else")
    path = World(bank.folder).write([{"customer_id": "C1"}], "stopped.csv")
    parameters = {"input": str(path), "batch": "stopped", "output": str(bank.context.output)}
    begin_run(bank.journal, STOPPED, batch="stopped", parameters=parameters)
    bank.journal.runs.finish(STOPPED, state="stopped", stop_reason="budget", report={})
    browser = bank.browser(*Role, name="ada")
    assert browser.get("/users").status_code == 200
    row = {"run": run, "batch": "portfolio", "customer_id": "C1"}
    forms: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
        "/new/applicant": (
            {"customer_id": "C900", "bvn": "22212345678", "check": "karma", "do": "quote"},
            ("customer_id", "bvn", "date_of_birth", "exposure", "consented_at", "max_spend"),
        ),
        f"/approvals/{bank.waiting}": (
            {"do": "approve", "max_spend": "none"},
            ("max_spend", "seen"),
        ),
        f"/runs/{STOPPED}/resume": ({}, ("max_spend",)),
        f"/runs/{run}/fix": ({"c0.0": "x", "do": "quote"}, ("page", "c0.0", "max_spend")),
        "/decisions": ({**row, "do": "wait", "waits_for": "customer"}, ("until", "customer_id")),
        "/contests": ({"customer_id": "C1", "said": "No.", "batch": "portfolio"}, ("about",)),
        "/policy/try": ({"version": "2"}, ("threshold-past_due_naira", "run")),
        "/customers/C1/again": ({"run": run, "check": "karma", "do": "ask"}, ("price", "check")),
        "/customers/C1/review": ({**row, "decision": "approve", "note": "No."}, ("reason",)),
        "/customers/C1/told": ({"run": run}, ("how",)),
        "/users": ({"do": "add", "role": "analyst"}, ("name", "branches")),
        "/sign-in": ({"name": "eve"}, ("password", "to")),
        "/second-factor": ({}, ("code",)),
    }
    for address, (fields, names) in forms.items():
        for name in names:
            for odd in ODD:
                answer = browser.ask("POST", address, data={**fields, name: odd})
                assert answer.status_code < 500, (address, name, odd[:10])
        nul = browser.ask("POST", address, data={**fields, names[0]: "\0"})
        assert nul.status_code == 400, address
    files = {"file": ("customers.csv", b"customer_id,bvn\nC1,22212345678\n")}
    for odd, status in (("\0", 400), ("1e999", 303)):  # beside a file as well
        answer = browser.ask("POST", "/new", data={"max_spend": odd}, files=files)
        assert answer.status_code == status
    assert "write naira such as" in browser.post(f"{answer.headers['location']}/quote").text
    asked = {
        "/runs": ("page",),
        f"/runs/{run}": ("resumed", "stands"),
        f"/runs/{run}/fix": ("page",),
        f"/runs/{run}/decisions": ("page", "search", "sort", "decision", "by", "in.bank_code"),
        f"/runs/{run}/decisions.csv": ("search", "decision"),
        "/decisions": ("page", "search", "sort", "whose", "by", "in.bank_code"),
        "/customers/C1": ("run", "said"),
        "/money": ("search", "since", "until"),
        "/money.csv": ("since", "until"),
        "/audit": ("search", "since", "until", "before"),
        "/audit.csv": ("since", "until", "before"),
        "/first": ("token",),
    }
    pages = [
        f"{page}?{urlencode({n: o})}" for page, names in asked.items() for n in names for o in ODD
    ]
    paths = ("/runs/{}", "/new/{}", "/customers/{}", "/static/{}")
    pages += [path.format(quote(odd, safe="")) for path in paths for odd in ("1e999", "²")]
    for page in pages:
        assert browser.get(page).status_code < 500, page[:80]
    for page in [*(path.format("%00") for path in paths), "/runs?page=%00"]:
        assert browser.get(page).status_code == 400, page
