"""What customers' clients changed through the service: notes, and linked bank accounts.

The only part of area A's records that is not pure: it is remembered until the next reset. The
records it begins with come from `sandbox.transactions`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from nightscreen.sandbox.accounts import ACCOUNT_DIGITS, BANK_CODE_DIGITS, account_name, holder_of
from nightscreen.sandbox.lives import FIRST_DAY, is_digits
from nightscreen.sandbox.transactions import balance_on, bank_account, bank_accounts_of

if TYPE_CHECKING:
    from nightscreen.sandbox.transactions import Record


def noon(day: int) -> str:
    """Write the noon of a day of the simulated world as ISO 8601 with milliseconds."""
    return f"{(FIRST_DAY + timedelta(days=day)).isoformat()}T12:00:00.000Z"


class Linked:
    """Notes by customer and transaction, and the bank accounts of customers who were asked for."""

    def __init__(self) -> None:
        self.notes: dict[str, dict[str, Record]] = {}
        self._accounts: dict[str, dict[str, Record]] = {}

    def shown(self, customer: str, account: Record, day: int) -> Record:
        """Return an account with its balance of a day."""
        return {**account, **balance_on(customer, account, day)}

    def accounts(self, customer: str) -> dict[str, Record]:
        """Return a customer's bank accounts by id; what is changed in it stays changed."""
        known = self._accounts.get(customer)
        if known is None:
            known = {str(one["id"]): one for one in bank_accounts_of(customer)}
            self._accounts[customer] = known
        return known

    def add(self, customer: str, bank_code: str, number: str, day: int) -> Record:
        """Link another bank account.

        Raises:
            ValueError: no such account, or it is linked already; the text is for the caller.
        """
        right = is_digits(bank_code, BANK_CODE_DIGITS) and is_digits(number, ACCOUNT_DIGITS)
        holder = holder_of(bank_code, number, day=day) if right else None
        if holder is None:
            raise ValueError("Enter a valid account number and bank code.")
        record = bank_account(
            customer, bank_code, number, account_name(holder, bank_code, number), day
        )
        if str(record["id"]) in self.accounts(customer):
            raise ValueError("This bank account is linked already.")
        self.accounts(customer)[str(record["id"])] = record
        return record
