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
    """How the sandbox behaves where the specification is silent."""

    model_config = ConfigDict(strict=True, frozen=True)

    missing_key_text: Literal["invalid", "verify"] = Field(
        default="invalid",
        description="text of the 401 without an Authorization header, which changed between years",
    )
    karma_miss: Literal["404_success", "404_error"] = Field(
        default="404_success", description="form of an identity that is not listed"
    )
    unknown_route: Literal["recorded", "short"] = Field(
        default="recorded",
        description="text of the 404 of an unknown address; both echo it, the short one is older",
    )
    masked_bvn: bool = Field(default=True, description="bank account answers mask the BVN")
    balance_lags: bool = Field(
        default=False, description="meta.balance is the balance before the call"
    )
    wrong_contact: Literal["400_text", "400_data"] = Field(
        default="400_text",
        description="a contact that is not registered with the BVN is refused, with the "
        "registered ones masked in text or data",
    )
    bvn_finish: Literal["details", "accounts", "together"] = Field(
        default="details", description="shape of a finished BVN consent"
    )
    distributor: bool = Field(
        default=True, description="the key is a distributor's: loans may be used"
    )
    mock_cost: bool = Field(default=False, description="mock answers name the price as their cost")
    slow_s: Seconds = Field(default=2.0, description="added wait of the fault `slow`")
    silence_s: Seconds = Field(
        default=30.0, description="how long the fault `timeout` is silent before it cuts"
    )
