"""The manners of the service: every habit that the specification leaves open, as a switch.

The defaults are what was observed of a service of the same shape. Each switch can be read and
set while the sandbox runs; the routes and the gate look here, and decide nothing themselves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import Final

VALIDATION: Final = ("karma", "ecosystem", "bank_account", "selfie", "bvn_start", "bvn_finish")
"""The priced operations of area B, by the names used all over the sandbox."""

LOANS: Final = ("loan_products", "loan_start", "loan_view")
"""The operations of area C, which cost nothing."""

AGGREGATOR: Final = (
    *("aggregator_auth", "aggregator_transactions", "aggregator_transaction_view"),
    *("aggregator_transaction_update", "aggregator_bank_account_list"),
    *("aggregator_bank_account_view", "aggregator_bank_account_add"),
    *("aggregator_bank_account_update", "aggregator_bank_account_delete"),
    *("aggregator_bank_account_sync", "aggregator_profile_view"),
)
"""The operations of area A; their price is 0 until another is set."""

OPERATIONS: Final = (*VALIDATION, *LOANS, *AGGREGATOR)
"""Every operation that can be named in faults, latencies, capacities and switches."""

_LONGEST_S: Final = 86_400


def _one_of(default: str, *others: str, about: str) -> str:
    chosen: str = field(default=default, metadata={"about": about, "choices": (default, *others)})
    return chosen


def _flag(default: bool, about: str) -> bool:
    chosen: bool = field(default=default, metadata={"about": about})
    return chosen


def _number(default: float, about: str) -> float:
    chosen: float = field(default=default, metadata={"about": about})
    return chosen


def _names(about: str) -> tuple[str, ...]:
    chosen: tuple[str, ...] = field(default=(), metadata={"about": about})
    return chosen


@dataclass(frozen=True, slots=True)
class BehaviourFlags:
    """How the sandbox behaves where the specification is silent."""

    missing_key_text: str = _one_of(
        "invalid",
        "verify",
        about="text of the 401 without an Authorization header, which changed between years",
    )
    denied_operations: tuple[str, ...] = _names("operations this key has no right to: 403")
    unpriced_operations: tuple[str, ...] = _names("operations without a price: 500")
    unoffered_operations: tuple[str, ...] = _names(
        "operations not offered to this account: 500, `The specified service does not exist.`"
    )
    karma_miss: str = _one_of(
        *("404_success", "404_error"), about="form of an identity that is not listed"
    )
    unknown_route: str = _one_of(
        *("recorded", "short"),
        about="text of the 404 of an unknown address; both echo it, the short one is older",
    )
    masked_bvn: bool = _flag(default=True, about="bank account answers mask the BVN")
    balance_lags: bool = _flag(default=False, about="meta.balance is the balance before the call")
    wrong_contact: str = _one_of(
        *("400_text", "400_data"),
        about="a contact that is not registered with the BVN is refused, with the registered ones "
        "masked in text or data",
    )
    bvn_finish: str = _one_of(
        *("details", "accounts", "together", "mixed"),
        about="shape of a finished BVN consent; mixed goes by BVN",
    )
    unknown_keys: str = _one_of("sometimes", "always", about="unknown top-level keys in answers")
    otp_delivery: str = _one_of(
        *("sure", "mixed"),
        about="whether one-time passwords arrive; mixed goes by BVN: some late, lost or not sent",
    )
    distributor: bool = _flag(default=True, about="the key is a distributor's: loans may be used")
    mock_cost: bool = _flag(default=False, about="mock answers name the price as their cost")
    slow_s: float = _number(2.0, "added wait of the fault `slow`")
    silence_s: float = _number(30.0, "how long the fault `timeout` is silent before it cuts")


def as_json(manners: BehaviourFlags) -> dict[str, object]:
    """List every switch and its present value."""
    return asdict(manners)


def described() -> list[tuple[str, str, str]]:
    """List every switch as name, default and meaning, as `docs/sandbox.md` shows it."""
    return [
        (flag.name, str(flag.default), _about(flag.metadata["about"], flag.metadata.get("choices")))
        for flag in fields(BehaviourFlags)
    ]


def _about(text: str, choices: tuple[str, ...] | None) -> str:
    return f"{text} ({', '.join(choices)})" if choices else text


def changed(manners: BehaviourFlags, wanted: dict[str, object]) -> BehaviourFlags:
    """Return the manners with some switches set.

    Raises:
        ValueError: an unknown switch, or a value it does not take.
    """
    known = {flag.name: flag for flag in fields(BehaviourFlags)}
    values: dict[str, object] = {}
    for name, value in wanted.items():
        if name not in known:
            raise ValueError(f"unknown switch {name!r}; GET /_sandbox/state lists them")
        values[name] = _checked(
            name, value, getattr(manners, name), known[name].metadata.get("choices")
        )
    return replace(manners, **values)  # type: ignore[arg-type]


def _checked(name: str, value: object, present: object, choices: tuple[str, ...] | None) -> object:
    if isinstance(present, bool):
        if isinstance(value, bool):
            return value
        raise ValueError(f"{name} takes true or false")
    if isinstance(present, float):
        if isinstance(value, int | float | Decimal) and 0 <= value <= _LONGEST_S:
            return float(value)
        raise ValueError(f"{name} takes a number of seconds, at most {_LONGEST_S}")
    if isinstance(present, tuple):
        if isinstance(value, list) and all(name in OPERATIONS for name in value):
            return tuple(value)
        raise ValueError(f"{name} takes a list of operations: {', '.join(OPERATIONS)}")
    text = str(value)
    if choices and text not in choices:
        raise ValueError(f"{name} takes one of {', '.join(choices)}")
    return text
