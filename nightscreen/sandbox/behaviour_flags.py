"""The manners of the service: every habit that the specification leaves open, as a switch.

The defaults are what was observed of a service of the same shape. Each switch can be read and
set while the sandbox runs; what answers looks here, and decides nothing itself.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

VALIDATION: Final = ("karma", "ecosystem", "bank_account", "selfie", "bvn_start", "bvn_finish")
"""The priced operations of area B, by the names used all over the sandbox."""
AGGREGATOR: Final = (
    *("aggregator_auth", "aggregator_transactions", "aggregator_transaction_view"),
    *("aggregator_transaction_update", "aggregator_bank_account_list"),
    *("aggregator_bank_account_view", "aggregator_bank_account_add"),
    *("aggregator_bank_account_update", "aggregator_bank_account_delete"),
    *("aggregator_bank_account_sync", "aggregator_profile_view"),
)
"""The operations of area A; their price is 0 until another is set."""
OPERATIONS: Final = (*VALIDATION, "loan_products", "loan_start", "loan_view", *AGGREGATOR)
"""Every operation that can be named in faults and latencies."""

Seconds = Annotated[float, Field(ge=0, le=86_400)]


class Setting(BaseModel):
    """What can be set: a field that there is not is refused."""

    model_config = ConfigDict(extra="forbid")


class BehaviourFlags(Setting):
    """How the sandbox behaves where the specification is silent; see `docs/sandbox.md`."""

    model_config = ConfigDict(strict=True, frozen=True)

    missing_key_text: Literal["invalid", "verify"] = "invalid"
    karma_miss: Literal["404_success", "404_error"] = "404_success"
    unknown_route: Literal["recorded", "short"] = "recorded"
    masked_bvn: bool = True
    balance_lags: bool = False
    wrong_contact: Literal["400_text", "400_data"] = "400_text"
    bvn_finish: Literal["details", "accounts", "together"] = "details"
    distributor: bool = True
    mock_cost: bool = False
    slow_s: Seconds = 2.0
    silence_s: Seconds = 30.0
