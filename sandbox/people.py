"""The people of the sandbox: what a test asks to know the right answer beforehand.

A front door only: each function is defined in the module of its subject. All are pure; the same
identifier has the same life on every machine and in every run.
"""

from nightscreen.sandbox.accounts import (
    account_name,
    account_of,
    bvn_accounts,
    bvn_details,
    contacts_of,
    holder_of,
    masked_bvn,
    otp_of,
)
from nightscreen.sandbox.blacklist import identity_kind, karma_of, karma_record
from nightscreen.sandbox.history import ecosystem_of
from nightscreen.sandbox.likeness import selfie_of
from nightscreen.sandbox.lives import Account, Person, person_of_bvn
from nightscreen.sandbox.oddities import listed_of
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    changes_between,
    person_of_customer,
    profile_of,
    transactions_of,
)

__all__ = [
    "Account",
    "Person",
    "account_name",
    "account_of",
    "bank_accounts_of",
    "bvn_accounts",
    "bvn_details",
    "changes_between",
    "contacts_of",
    "ecosystem_of",
    "holder_of",
    "identity_kind",
    "karma_of",
    "karma_record",
    "listed_of",
    "masked_bvn",
    "otp_of",
    "person_of_bvn",
    "person_of_customer",
    "profile_of",
    "selfie_of",
    "transactions_of",
]
