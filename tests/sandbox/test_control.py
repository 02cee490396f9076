"""The control surface: what it sets, and how it refuses what it does not know."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox import faults, test_identifiers
from nightscreen.sandbox.people import karma_of
from nightscreen.sandbox.state import SCENARIOS

if TYPE_CHECKING:
    from nightscreen.sandbox.process import SandboxProcess
    from tests.sandbox.conftest import Caller

LISTED = test_identifiers.by_word("listed").bvn


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("reset", {"scenario": "stormy"}),
        ("wallet", {"balance": -1}),
        ("wallet", {"top_up": "much"}),
        ("wallet", {"dry_at_call": 0}),
        ("wallet", {"drain_every": {"calls": 0, "amount": 1}}),
        ("wallet", {"topup": 1}),
        ("latency", {"kind": "gamma"}),
        ("latency", {"kind": "fixed"}),
        ("latency", {"kind": "lognormal", "median_ms": 10, "p99_ms": 5}),
        ("faults", {"rates": {"rain": 0.1}}),
        ("faults", {"rates": {"http_500": 0.7, "http_502": 0.7}}),
        ("faults", {"operation": "cooking", "rates": {}}),
        ("faults", {"script": [{"at_call": 1, "fault": "rain"}]}),
        ("faults", {"script": {}}),
        ("mode", {"test_mode": "half"}),
        ("manners", {"nonsense": True}),
        ("prices", {"karma": -1}),
        ("prices", {"cooking": 1}),
        ("capacity", {"max_in_flight": 0}),
        ("capacity", {"max_in_flight": 1, "refusal": "http_418"}),
        ("world", {}),
        ("world", {"day": 1.5}),
        ("world", {"day": 36_501}),
        ("clock", {}),
        ("clock", {"advance_s": -1}),
    ],
)
def test_what_is_not_understood_changes_nothing(
    sandbox: SandboxProcess, address: str, body: dict[str, object]
) -> None:
    """A wrong setting is a 400 with a reason, and everything stays as it was."""
    before = sandbox.get("/_sandbox/state")
    with pytest.raises(ValueError, match=r"\w"):
        sandbox.post(f"/_sandbox/{address}", body)
    assert sandbox.get("/_sandbox/state") == before


def test_control_methods_and_bodies_are_checked(sandbox: SandboxProcess) -> None:
    """The wrong method is a 405, a list for an object or a wrong parameter a 400."""
    assert sandbox.request("GET", "/_sandbox/reset")[0] == 405
    assert sandbox.request("POST", "/_sandbox/ledger", {})[0] == 405
    assert sandbox.request("POST", "/_sandbox/world", [])[0] == 400
    assert sandbox.request("GET", "/_sandbox/ledger?since=x")[0] == 400
    assert sandbox.request("GET", "/_sandbox/ledger?limit=0")[0] == 400


def test_browsers_and_control_stay_out_of_the_ledger(sandbox: SandboxProcess) -> None:
    """Neither an icon nor an unknown control address is a request to the service."""
    statuses = [sandbox.request("GET", path)[0] for path in ("/favicon.ico", "/_sandbox/x")]
    assert statuses == [404, 404]
    assert sandbox.totals()["totals"]["requests"] == 0


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_reset_can_change_the_scenario(sandbox: SandboxProcess, scenario: str) -> None:
    """A reset with a name starts that scenario; without one, the first again."""
    sandbox.reset(scenario)
    assert sandbox.get("/_sandbox/state")["scenario"] == scenario
    sandbox.reset()
    assert sandbox.get("/_sandbox/state")["scenario"] == "calm"


def test_reset_empties_ledger_and_settings(caller: Caller) -> None:
    """After a reset nothing is left of calls, charges, faults and days."""
    caller.karma(LISTED)
    caller.sandbox.post("/_sandbox/world", {"day": 3})
    caller.sandbox.post("/_sandbox/faults", {"rates": {"http_500": 1}})
    caller.sandbox.reset()
    state = caller.sandbox.get("/_sandbox/state")
    assert (state["day"], state["faults"]["rates"], state["ledger_entries"]) == (0, {}, 0)
    assert state["wallet"]["balance"] == "1000000"
    caller.karma(LISTED)
    assert caller.sandbox.ledger()["entries"][0]["attempt"] == 1


def test_mock_answers_are_the_same_for_everyone_and_free(caller: Caller) -> None:
    """Test mode gives one sample record to all, marked, and charges nothing."""
    caller.sandbox.post("/_sandbox/mode", {"test_mode": "mock-response"})
    answers = [caller.karma(bvn).json for bvn in ("22999000000", "22123456789")]
    assert answers[0] == answers[1]
    assert isinstance(answers[0]["mock-response"], str)
    assert answers[0]["data"]
    assert caller.bvn_start("22123456789").json["status"] == "otp"
    assert caller.sandbox.totals()["totals"]["charged"] == "0"


@pytest.mark.parametrize(("refusal", "status"), [("http_503", 503), ("http_429", 429)])
def test_calls_above_the_hidden_limit_are_refused(
    caller: Caller, refusal: str, status: int
) -> None:
    """Of six calls at once two are answered where two may be in flight."""
    caller.sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 200})
    caller.sandbox.post(
        "/_sandbox/capacity", {"operation": "karma", "max_in_flight": 2, "refusal": refusal}
    )
    with ThreadPoolExecutor(6) as pool:
        statuses = [one.status for one in pool.map(lambda _: caller.karma(LISTED), range(6))]
    assert sorted(statuses) == sorted([200, 200, *[status] * 4])
    assert caller.ecosystem(LISTED).status == 200


def test_world_moves_on(caller: Caller) -> None:
    """On a later day the sandbox answers as the pure functions say for that day."""
    changing = next(
        bvn
        for bvn in (f"22{number:09d}" for number in range(10_000))
        if karma_of(bvn) is None and karma_of(bvn, day=9) is not None
    )
    assert caller.karma(changing).status == 404
    caller.sandbox.post("/_sandbox/world", {"day": 9})
    assert caller.karma(changing).json["data"] == karma_of(changing, day=9)


def test_lognormal_latency_has_its_median_and_tail() -> None:
    """Half of the waits lie below the median, one in a hundred above the limit."""
    drawn = faults.Latency(faults.lognormal(100, 1000), seed=1)
    waits = [drawn.seconds("karma") for _ in range(20_000)]
    cuts = quantiles(waits, n=100)
    assert 0.095 < cuts[49] < 0.105
    assert 0.85 < cuts[98] < 1.15


def test_latency_of_one_operation(sandbox: SandboxProcess) -> None:
    """One operation can have its own latency beside that of all others."""
    shown = sandbox.post(
        "/_sandbox/latency", {"kind": "fixed", "ms": 30, "operation": "bank_account"}
    )
    assert shown["kind"] == "none"
    assert shown["by_operation"] == {"bank_account": {"kind": "fixed", "ms": 30}}
