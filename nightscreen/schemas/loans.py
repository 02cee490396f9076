"""Data of area C: products, the short link of an offer, and a loan.

The specification names `product_id` and the reference alone; the other fields were seen in the
wild, and what is not named here stays in `extra`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightscreen.schemas.answers import Count, Flag, Number, Record, Text


class LoanProduct(Record):
    """A product the organisation offers (specification, loan product)."""

    product_id: Text = None
    name: Text = None
    description: Text = None
    disburse_to: Text = None
    collection_method: Text = None
    interest_rate: Number = None
    interest_period: Text = None
    min_amount: Number = None
    max_amount: Number = None
    min_tenor_value: Count = None
    min_tenor_period: Text = None
    max_tenor_value: Count = None
    max_tenor_period: Text = None
    require_guarantor: Flag = None


@dataclass(frozen=True, slots=True)
class LoanProducts:
    """The list of products; an empty one says that nothing is active."""

    products: tuple[LoanProduct, ...]

    def is_blank(self) -> bool:
        """Return whether nothing was read; an empty list says something."""
        return False


class LoanStarted(Record):
    """The short link to an application form, and the reference to follow it by."""

    reference: Text = None
    url: Text = None


class LoanState(Record):
    """A loan or loan request; the nested status is laid flat."""

    reference: Text = None
    status: Text = None  # the service's own word; PENDING, RUNNING, SETTLED and CANCELLED were seen
    can_request: Flag = None
    can_cancel: Flag = None
    loan_amount: Number = None
    amount_disbursed: Number = None
    paid: Number = None
    reject_reason: Text = None
