"""The control surface: what it sets and plants, and how it refuses what it does not know."""

from __future__ import annotations

from typing import Any

from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.state import SCENARIOS
from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.in_process import VALIDATION, Here

LISTED = by_word("listed").bvn
BVN = "12345678901"
NUMBER = "0000000001"  # a number whose check digit is no bank's: only planted does it exist


NOT_UNDERSTOOD: tuple[tuple[str, object], ...] = (
    ("reset", {"scenario": "stormy"}),
    ("wallet", {"balance": -1}),
    ("latency", {"kind": "fixed"}),
    ("latency", {"kind": "lognormal", "median_ms": 10, "p99_ms": 5}),
    ("faults", {"rates": {"rain": 0.1}}),
    ("faults", {"rates": {"http_500": 0.7, "http_502": 0.7}}),
    ("faults", {"script": [{"at_call": 1, "fault": "rain"}]}),
    ("mode", {"test_mode": "half"}),
    ("manners", {"nonsense": True}),
    ("manners", {"karma_miss": "418"}),
    ("prices", {"karma": -1}),
    ("prices", {"cooking": 1}),
    ("world", []),
    ("grants", {"customer": " "}),
    ("grants", {"customer": "ada", "scopes": ["everything"]}),
    ("grants", {"customer": "ada", "redirect_uri": "callback"}),
)


async def test_what_is_not_understood_changes_nothing_and_reset_begins_anew() -> None:
    """A wrong setting is a 400 with a reason; a name starts that scenario, none the first."""
    here = Here()
    for address, body in NOT_UNDERSTOOD:
        assert await here.refusal(address, body), (address, body)
    for scenario in SCENARIOS:
        fresh = await here.control("reset", {"scenario": scenario})
        assert fresh["scenario"] == scenario
        await here.karma(LISTED)
        await here.control("world", day=3)
        await here.control("faults", rates={"http_500": 1})
        assert await here.control("reset", {"scenario": scenario}) == fresh
        assert here.sandbox.ledger.count == 0
    assert (await here.control("reset", {}))["scenario"] == "calm"


async def test_every_refusal_is_described_and_says_what_is_wrong() -> None:
    """FastAPI would describe a 422 that is never answered."""
    here = Here()
    paths = (await here.browser.get("/openapi.json")).json()["paths"]
    ours = {path: each for path, each in paths.items() if not path.startswith("/v2/")}
    described = {
        status for each in ours.values() for way in each.values() for status in way["responses"]
    }
    assert described == {"200", "4XX"}
    nothing = await here.browser.post("/_sandbox/wallet")
    assert (nothing.status_code, nothing.json()) == (400, {"error": "body: Field required"})


async def ask(here: Here, method: str, path: str, **body: object) -> dict[str, Any]:
    """Ask the service with the right key."""
    answer = await here.client.request(method, f"{VALIDATION}{path}", json=body or None)
    return {"http": answer.status_code, **answer.json()}


async def test_a_planted_person_is_who_they_were_said_to_be() -> None:
    """Account, history and BVN details name the person planted; the rest stays as made up."""
    here, account = Here(), {"bank_code": "058", "account_number": NUMBER}
    person = {"first_name": "Ngozi", "last_name": "Testcase", "phone": "08031234567"}
    history = {"past_due_loans": 7}
    shown = await here.control("people", bvn=BVN, person=person, account=account, history=history)
    assert shown["person"]["gender"] == person_of_bvn(BVN).gender
    held = await ask(here, "POST", "/bankaccount/bvn", **account)
    name = held["data"]["account_name"].upper().replace(",", "").split()
    assert {"NGOZI", "TESTCASE"} <= set(name)
    found = (await ask(here, "GET", f"/ecosystem/{BVN}"))["data"]
    assert (found["first_name"], found["past_due_loans"]) == ("Ngozi", 7)
    assert (await here.start(BVN, "+2348031234567")).json()["status"] == "otp"


FOREIGN: tuple[tuple[dict[str, str], int], ...] = (
    ({"host": "evil.example"}, 403),
    ({"host": "127.0.0.1:8800", "origin": "https://evil.example"}, 403),
    ({"host": "127.0.0.1:8800", "origin": "null"}, 403),
    ({"host": "127.0.0.1:8800", "origin": "http://127.0.0.1:8800"}, 200),
    ({"host": "localhost:8800"}, 200),
    ({"host": "sandbox:8800"}, 200),
    ({"host": "[::1]:8800"}, 200),
    ({"host": "[::1"}, 403),
)


async def test_foreign_pages_cannot_steer_it() -> None:
    """The control surface refuses a foreign Host or Origin, for looks and for changes."""
    for headers, status in FOREIGN:
        here = Here()
        looked = await here.browser.get("/_sandbox/state", headers=headers)
        changed = await here.browser.post("/_sandbox/world", json={"day": 3}, headers=headers)
        assert (looked.status_code, changed.status_code) == (status, status), headers
        assert here.sandbox.day == (3 if status == 200 else 0)
