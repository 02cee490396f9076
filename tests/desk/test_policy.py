"""The page of the policy: tried on past runs, proposed by one user, put in force by another."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx

from nightscreen.journal.audit import AuditQuery
from nightscreen.policy.versions import policy_in_force, versions
from tests.desk.conftest import borrowers
from tests.desk.office import Browser, Office
from tests.screening import World, customer

FIELD = re.compile(r'name="(threshold-[a-z_]+|seen|version)"[^>]*? value="([^"]*)"')
PLAIN = re.compile(r"<[^>]+>")
LENIENT = "300,000"
"""Of the sixty borrowers one is declined for less than that past due, and for nothing else."""
MOVES = "C21"


def words(answer: httpx.Response) -> str:
    """Return what a page says."""
    return " ".join(html.unescape(PLAIN.sub(" ", answer.text)).split())


def fields(browser: Browser, **changed: str) -> dict[str, str]:
    """Return the form of thresholds as it stands, some changed."""
    found = dict(FIELD.findall(browser.get("/policy").text))
    return {**found, **changed}


def proposed(browser: Browser, **changed: str) -> str:
    """Propose other thresholds and return the proposal's key."""
    answer = browser.post("/policy/propose", **fields(browser, **changed))
    assert answer.status_code == 303, words(answer)
    return answer.headers["location"].partition("#")[2]


def in_force(bank: Office) -> str:
    """Return the policy of runs that begin now."""
    return policy_in_force(bank.journal, bank.clock()).label


def last(bank: Office, action: str) -> dict[str, Any]:
    """Return the newest entry of the audit about something."""
    return bank.context.audit.find(AuditQuery(action=action))[0]


def test_trying_says_who_would_move_in_naira_and_by_name(bank: Office) -> None:
    """The customers of past runs are decided again; nothing changes, and the audit has it.

    Every threshold is a field, every rule is in words, with what the file says beside each.
    """
    browser, before = bank.browser("auditor", name="Aud"), in_force(bank)
    page = browser.get("/policy").text
    assert "<h1>Policy</h1>" in page
    policy = policy_in_force(bank.journal, bank.clock())
    for name, value in policy.thresholds.items():
        assert f'<label for="t-{name}">{name}</label>' in page
        assert re.search(rf'name="threshold-{name}"[^>]* value="{value:f}"', page)
    assert all(rule.team in html.unescape(page) for rule in policy.in_words())
    assert "Propose</button>" not in page
    typed = fields(browser, **{"threshold-past_due_naira": LENIENT})
    answer = browser.post("/policy/try", **typed)
    said = words(answer)
    assert "60 rows decided again" in said
    assert "1 customer would move: ₦21,000." in said
    names = customer(21)
    assert f"{MOVES} {names['first_name']} {names['last_name']}" in said
    assert f'value="{LENIENT}"' in answer.text
    runs = bank.journal.runs.newest(limit=2)
    assert last(bank, "policy tried")["detail"] | {"policy": ""} == {
        "policy": "",
        "changes": "past_due_naira from 5000 to 300000",
        "runs": [runs[0].run_id],
        "moved": 1,
        "shown": 1,
    }
    both = [run.run_id for run in runs]
    answer = browser.post("/policy/try", **typed, run=both, runs_shown="1")
    assert "120 rows decided again" in words(answer)
    assert "2 customers would move: ₦42,000." in words(answer)
    assert in_force(bank) == before
    assert versions(bank.journal) == []


def test_what_one_proposed_another_puts_in_force_for_the_next_night(bank: Office) -> None:
    """From the field to the run's manifest; each step stands in the audit, with who and what."""
    ada, bem = bank.browser("analyst", name="Ada"), bank.browser("approver", name="Bem")
    before = in_force(bank)
    note = "The committee wants it so."
    key = proposed(ada, **{"threshold-past_due_naira": LENIENT}, version="7", note=note)
    assert in_force(bank) == before
    said = words(bem.get("/policy"))
    assert "7 waits for approval" in said
    assert "past_due_naira 5000 300000" in said
    assert note in said
    assert "Version 7" in words(bem.get("/"))
    moves = words(bem.post("/policy/try", proposal=key))
    assert "1 customer would move: ₦21,000." in moves
    done = bem.post(f"/policy/{key}", do="approve", reason="Minutes of May.")
    assert done.status_code == 303
    after = in_force(bank)
    assert after != before
    page = words(ada.get("/policy"))
    assert re.search("version 7, is in force since .*: proposed by Ada, approved by Bem", page)
    assert [e for e in bank.actions() if "policy" in e] == [
        "policy proposed",
        "policy tried",
        "policy approved",
    ]
    entry = last(bank, "policy approved")
    assert entry["user"] == "Bem"
    assert entry["detail"] == {
        "policy": after,
        "version": "7",
        "replaces": before,
        "proposed_by": "Ada",
        "reason": "Minutes of May.",
    }
    rows = [each for each in borrowers(60) if each["customer_id"] in {MOVES, "C33"}]
    night = World(bank.folder).screen(rows, batch="book")
    manifest = json.loads((night.folder / "manifest.json").read_text())
    assert (manifest["policy"]["label"], manifest["policy"]["version"]) == (after, "7")
    decided = dict(zip(night.column("customer_id"), night.column("decision"), strict=True))
    assert decided[MOVES] != "decline"
    assert decided["C33"] == "decline"
    assert "approved by Bem" in (night.folder / "report.html").read_text()


def test_nobody_puts_their_own_proposal_in_force(bank: Office) -> None:
    """Whatever their rights; they may take it back, and the audit has both.

    The right policy is given one by one; who sees some branches alone tries nothing.
    """
    both = bank.browser("approver", name="Bem")
    before = in_force(bank)
    key = proposed(both, **{"threshold-past_due_pct": "12.5"}, note="try")
    page = both.get("/policy").text
    assert ">Approve</button>" not in page
    answer = both.post(f"/policy/{key}", do="approve")
    assert answer.status_code == 403
    assert last(bank, "refused")["detail"]["needs"] == "a second person"
    other = bank.browser("analyst", name="Eze")
    assert ">Approve</button>" not in other.get("/policy").text
    assert other.post(f"/policy/{key}", do="refuse").status_code == 403
    assert in_force(bank) == before
    assert both.post(f"/policy/{key}", do="refuse").status_code == 303
    assert "proposal taken back" in bank.actions()
    assert both.post(f"/policy/{key}", do="refuse").status_code == 409
    key = proposed(both, **{"threshold-past_due_pct": "12"}, note="try")
    bank.context.accounts.change("Eze", [], {"policy": True}, ["Kano"])
    assert "See who would move" not in other.get("/policy").text
    assert other.post("/policy/try", proposal=key).status_code == 403
    assert other.post(f"/policy/{key}", do="approve").status_code == 303


NOT_PROPOSED: tuple[tuple[dict[str, str], str], ...] = (
    ({"threshold-past_due_pct": "ten"}, "Write a number such as 5000 for past_due_pct."),
    ({"threshold-past_due_pct": ""}, "Write a number such as 5000 for"),
    ({"threshold-past_due_pct": "1e999999"}, "Write a number with up to six"),
    ({"threshold-past_due_pct": "NaN"}, "Write a number with up to six"),
    ({"note": "because"}, "nothing in it is changed"),
    ({"note": "because", "version": " "}, "Version: write 1 to 64 letters"),
    ({"note": "because", "seen": "default@0"}, "was put in force since you opened this page"),
)
"""What is changed on the form, and what is said of it."""


def test_what_cannot_be_proposed_says_why_and_keeps_what_was_typed(bank: Office) -> None:
    browser = bank.browser("analyst")
    usual = fields(browser, version="2")
    for changed, says in NOT_PROPOSED:
        answer = browser.post("/policy/propose", **usual | changed)
        assert answer.status_code == 400
        assert says in words(answer)
        for name, value in changed.items():
            if name.startswith("threshold") and value:
                assert f'value="{value}"' in answer.text
    assert versions(bank.journal) == []
