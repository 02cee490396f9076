"""Every manner is a switch: set, it changes the wire; unset, it is as observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.behaviour_flags import BehaviourFlags, changed, described

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller

LISTED = test_identifiers.by_word("listed").bvn


def set_manners(caller: Caller, **switches: Any) -> None:  # noqa: ANN401 - any switch
    """Set switches on the running sandbox."""
    caller.sandbox.post("/_sandbox/manners", switches)


def test_balance_can_lag_by_a_call(caller: Caller) -> None:
    """With the switch set the balance is the one before the call."""
    set_manners(caller, balance_lags=True)
    shown = [caller.karma(LISTED).json["meta"]["balance"] for _ in range(2)]
    assert shown == [1_000_000, 999_990]


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"masked_bvn": "yes"}, "boolean"),
        ({"karma_miss": "418"}, "404_error"),
        ({"slow_s": -1}, "slow_s"),
    ],
)
def test_wrong_switches_are_refused(switches: dict[str, object], words: str) -> None:
    """A switch that does not exist, or a value it does not take, is an error that says so."""
    with pytest.raises(ValueError, match=words):
        changed(BehaviourFlags(), switches)


def test_every_switch_is_described() -> None:
    """No switch is without a meaning for people."""
    assert all(name and about for name, _, about in described())
