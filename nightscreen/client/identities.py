"""Whose record an answer is, for whatever operation.

A check says it of its own records; a BVN record may hold accounts alone and name nobody, which
contradicts nothing.
"""

from __future__ import annotations

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import IdentityKind
from nightscreen.values.whose import names_the_same


def is_of_another_person(operation: str, asked: str, record: object) -> bool:
    """Return whether a record is about another identifier than the one asked about.

    Args:
        operation: what was asked.
        asked: the identifier as it was asked by; for an account `bank_code-account_number`, or
            the number alone.
        record: the typed record in the answer.
    """
    if not asked:
        return False
    if (declared := CHECKS.get(operation)) is not None:
        return declared.is_another(asked, record)
    if isinstance(record, BvnDetails):
        return not names_the_same(IdentityKind.BVN, asked, record.bvn)
    return False


def names_somebody(operation: str, record: object) -> bool:
    """Return whether a record says whose it is: a score, a token or an offer does not."""
    if (declared := CHECKS.get(operation)) is not None:
        return declared.names_somebody
    return isinstance(record, BvnDetails) and record.bvn is not None
