"""Loan products of the sandbox's organisation, and what a loan of one costs.

A fixed list. Who is offered which, and what became of it, is told by `sandbox.loan_book`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

DAYS: Final = {"day": 1, "month": 30}
"""Length of a period in days of the simulated world."""

_KOBO: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Product:
    """One loan product (service.md, "Loan product").

    Attributes:
        product_id: its identifier.
        name: what customers call it.
        description: one sentence for them.
        disburse_to: where the money goes.
        collection_method: how it is paid back.
        interest_rate: percent for each `period`, on the amount lent.
        period: `day` or `month`, of interest and tenor.
        min_amount: smallest loan in naira.
        max_amount: largest loan in naira.
        tenors: the choices of length, in periods, shortest first.
        guarantor: whether a guarantor is needed.
        shows_period: whether the list says of which period interest and tenors are.
        active: whether it is offered now.
    """

    product_id: str
    name: str
    description: str
    disburse_to: str
    collection_method: str
    interest_rate: Decimal
    period: str
    min_amount: int
    max_amount: int
    tenors: tuple[int, ...]
    guarantor: bool = False
    shows_period: bool = True
    active: bool = True

    def as_json(self) -> dict[str, object]:
        """Return the product as the list of products shows it."""
        period = self.period if self.shows_period else None
        return {
            "product_id": self.product_id,
            "name": self.name,
            "description": self.description,
            "disburse_to": self.disburse_to,
            "collection_method": self.collection_method,
            "interest_rate": self.interest_rate,
            "interest_period": period,
            "min_amount": self.min_amount,
            "max_amount": self.max_amount,
            "min_tenor_value": self.tenors[0],
            "min_tenor_period": period,
            "max_tenor_value": self.tenors[-1],
            "max_tenor_period": period,
            "require_guarantor": int(self.guarantor),
            "allows_early_settlement": 1,
            "is_active": int(self.active),
        }

    def instalments(self, tenor: int) -> int:
        """Tell in how many parts a loan is paid back: monthly, or at once if shorter."""
        return tenor if self.period == "month" else 1

    def repayable(self, amount: Decimal, tenor: int) -> Decimal:
        """Tell what is paid back in all, in naira."""
        return (amount * (1 + self.interest_rate * tenor / 100)).quantize(_KOBO)

    def tenor_text(self, tenor: int) -> str:
        """Write a length for people."""
        return f"{tenor} {self.period}{'' if tenor == 1 else 's'}"


PRODUCTS: Final = (
    Product(
        "LP1001",
        "Salary advance",
        "Part of your next salaries, today.",
        disburse_to="bank_account",
        collection_method="direct_debit",
        interest_rate=Decimal(4),
        period="month",
        min_amount=5_000,
        max_amount=150_000,
        tenors=(1, 2, 3),
    ),
    Product(
        "LP1002",
        "Quick loan",
        "A small loan for a few weeks.",
        disburse_to="bank_account",
        collection_method="card",
        interest_rate=Decimal("0.5"),
        period="day",
        min_amount=2_000,
        max_amount=50_000,
        tenors=(7, 14, 21, 30),
    ),
    Product(
        "LP1003",
        "School fees",
        "Fees paid at the start of term, repaid over it.",
        disburse_to="school",
        collection_method="direct_debit",
        interest_rate=Decimal("2.75"),
        period="month",
        min_amount=20_000,
        max_amount=500_000,
        tenors=(3, 4, 5, 6),
    ),
    Product(
        "LP1004",
        "Device finance",
        "A phone or a computer, paid for month by month.",
        disburse_to="merchant",
        collection_method="card",
        interest_rate=Decimal("3.5"),
        period="month",
        min_amount=50_000,
        max_amount=1_500_000,
        tenors=(3, 6, 9, 12),
        guarantor=True,
        shows_period=False,
    ),
    Product(
        "LP1005",
        "Harvest loan",
        "Seed and fertiliser, repaid after the harvest.",
        disburse_to="wallet",
        collection_method="direct_debit",
        interest_rate=Decimal(2),
        period="month",
        min_amount=30_000,
        max_amount=800_000,
        tenors=(6, 9),
        active=False,
    ),
)
"""Every product; those that are not active are neither listed nor offered."""

_BY_ID: Final = {one.product_id: one for one in PRODUCTS}


def active_products() -> list[Product]:
    """List the products offered now."""
    return [one for one in PRODUCTS if one.active]


def product_of(product_id: str) -> Product | None:
    """Find an active product."""
    product = _BY_ID.get(product_id)
    return product if product and product.active else None
