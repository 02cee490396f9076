"""Every manner is a switch: set, it changes the wire; unset, it is as observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.behaviour_flags import BehaviourFlags, changed, described
from nightscreen.sandbox.people import otp_of

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller

CLEAR = test_identifiers.by_word("clear").bvn
LISTED = test_identifiers.by_word("listed").bvn
MISSING = test_identifiers.by_word("missing-account").account_number
NO_HISTORY = test_identifiers.by_word("no-history").bvn


def set_manners(caller: Caller, **switches: Any) -> None:  # noqa: ANN401 - any switch
    """Set switches on the running sandbox."""
    caller.sandbox.post("/_sandbox/manners", switches)


@pytest.mark.parametrize(
    ("form", "status", "expected"),
    [
        ("404_error", 404, {"status": "error"}),
        ("200_null", 200, {"status": "success", "data": None}),
        ("200_no_data", 200, {"status": "success"}),
    ],
)
def test_forms_of_a_karma_miss(
    caller: Caller, form: str, status: int, expected: dict[str, object]
) -> None:
    """A miss can take each form that a service might choose."""
    set_manners(caller, karma_miss=form)
    answer = caller.karma(CLEAR)
    assert answer.status == status
    assert answer.json == {**expected, "message": answer.json["message"]}


def test_karma_miss_can_carry_the_balance(caller: Caller) -> None:
    """With the switch set a miss shows a balance and no cost."""
    set_manners(caller, karma_miss_meta=True)
    assert caller.karma(CLEAR).json["meta"] == {"balance": 1_000_000}


def test_form_of_a_missing_account(caller: Caller) -> None:
    """A missing account can be a 404 instead of a 500."""
    set_manners(caller, missing_account="404_error")
    assert caller.bank_account("058", MISSING).status == 404


def test_form_of_an_unknown_borrower(caller: Caller) -> None:
    """An unknown borrower can be a 200 without data."""
    set_manners(caller, ecosystem_miss="200_no_data", error_meta=False)
    answer = caller.ecosystem(NO_HISTORY)
    assert answer.status == 200
    assert set(answer.json) == {"status", "message"}


def test_misses_can_be_charged(caller: Caller) -> None:
    """With the switch set a miss costs what a hit costs, and says so."""
    set_manners(caller, misses_charged=True)
    assert caller.karma(CLEAR).json["meta"] == {"cost": 10, "balance": 999_990}
    assert caller.sandbox.totals()["totals"]["charged"] == "10"


def test_balance_can_lag_by_a_call(caller: Caller) -> None:
    """With the switch set the balance is the one before the call."""
    set_manners(caller, balance_lags=True)
    shown = [caller.karma(LISTED).json["meta"]["balance"] for _ in range(2)]
    assert shown == [1_000_000, 999_990]


def test_money_can_come_as_text(caller: Caller) -> None:
    """With the switch set cost and balance are text."""
    set_manners(caller, money_as_text=True)
    assert caller.karma(LISTED).json["meta"] == {"cost": "10", "balance": "999990"}


def test_errors_can_carry_a_cost_of_nothing(caller: Caller) -> None:
    """With the switch set the service's own errors carry cost 0."""
    set_manners(caller, error_cost=True)
    assert caller.ecosystem(NO_HISTORY).json["meta"]["cost"] == 0


def test_bvn_can_be_shown_whole(caller: Caller) -> None:
    """With the switch unset the bank account answer shows the whole BVN."""
    set_manners(caller, masked_bvn=False)
    number = test_identifiers.by_word("listed").account_number
    assert caller.bank_account("058", number).json["data"]["bvn"] == LISTED


def test_extras_can_be_left_out(caller: Caller) -> None:
    """With the switch unset the ecosystem record has the specified fields only."""
    set_manners(caller, ecosystem_extras=False)
    assert len(caller.ecosystem(LISTED).json["data"]) == 22


@pytest.mark.parametrize(("habit", "expected"), [("always", True), ("never", False)])
def test_unknown_top_level_keys(caller: Caller, habit: str, *, expected: bool) -> None:
    """Answers carry a key nobody knows always, or never."""
    set_manners(caller, unknown_keys=habit)
    assert ("deprecation" in caller.karma(LISTED).json) is expected


def test_finish_shape_for_everyone(caller: Caller) -> None:
    """The list of bank accounts can be made the shape for every BVN."""
    set_manners(caller, bvn_finish="accounts")
    caller.bvn_start(LISTED)
    assert isinstance(caller.bvn_finish(LISTED, otp_of(LISTED)).json["data"], list)


def test_one_time_password_runs_out(caller: Caller) -> None:
    """A lifetime of nothing makes every password late."""
    set_manners(caller, otp_lifetime_s=0)
    caller.bvn_start(LISTED)
    assert caller.bvn_finish(LISTED, otp_of(LISTED)).status == 400


def test_missing_field_can_be_a_plain_400(caller: Caller) -> None:
    """The gateway timeout can be replaced by a message that names the field."""
    set_manners(caller, missing_field="400")
    answer = caller.call("POST", "/v2/verification/bankaccount/bvn", {"bank_code": "058"})
    assert (answer.status, answer.json["message"]) == (400, "account_number is required")


def test_wrong_method_can_be_405(caller: Caller) -> None:
    """A known path with a wrong method can answer 405."""
    set_manners(caller, wrong_method="405")
    assert caller.call("DELETE", "/v2/verification/ecosystem/22123456789").status == 405
    assert caller.call("GET", "/v2/nowhere").status == 404


def test_denied_and_unpriced_operations(caller: Caller) -> None:
    """Single operations can be denied to the key or left without a price."""
    set_manners(caller, denied_operations=["karma"], unpriced_operations=["ecosystem"])
    assert caller.karma(LISTED).status == 403
    unpriced = caller.ecosystem(LISTED)
    assert unpriced.status == 500
    assert unpriced.json == {
        "status": "error",
        "message": "We could not find a matching price definition for your request.",
        "data": None,
        "meta": {"balance": 1_000_000},
    }
    assert caller.bank_account("058", "9990000011").status == 200


def test_operations_that_are_not_offered(caller: Caller) -> None:
    """An operation can be one that this account has never been given."""
    set_manners(caller, unoffered_operations=["selfie"])
    answer = caller.selfie(LISTED, "https://images.example/me.jpg")
    assert (answer.status, answer.json["data"]) == (500, None)
    assert answer.json["message"] == "The specified service does not exist."


def test_texts_of_another_year(caller: Caller) -> None:
    """Without a key, and at an unknown address, the texts are those of another year."""
    set_manners(caller, missing_key_text="verify", unknown_route="short")
    status, body = caller.sandbox.request("GET", f"/v2/verification/karma/{LISTED}")
    assert status == 401
    assert b"We couldn't verify your access. Please check your authorization" in body
    answer = caller.call("PUT", "/v2/nowhere")
    assert (answer.status, answer.json["message"]) == (404, "PUT /v2/nowhere not found")


def test_wallet_before_or_after_the_input(caller: Caller) -> None:
    """An empty wallet hides bad input by default, and does not with the switch unset."""
    caller.sandbox.post("/_sandbox/wallet", {"balance": 0})
    assert caller.ecosystem("1").status == 402
    set_manners(caller, low_wallet_first=False)
    assert caller.ecosystem("1").status == 400
    assert caller.ecosystem(LISTED).status == 402


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ({"nonsense": 1}, "unknown switch"),
        ({"masked_bvn": "yes"}, "true or false"),
        ({"karma_miss": "418"}, "one of"),
        ({"slow_s": -1}, "seconds"),
        ({"denied_operations": ["cooking"]}, "operations"),
    ],
)
def test_wrong_switches_are_refused(switches: dict[str, object], words: str) -> None:
    """A switch that does not exist, or a value it does not take, is an error that says so."""
    with pytest.raises(ValueError, match=words):
        changed(BehaviourFlags(), switches)


def test_every_switch_is_described() -> None:
    """No switch is without a meaning for people."""
    assert all(name and about for name, _, about in described())
