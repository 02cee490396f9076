"""The tables of magic identifiers and of manners, as rows and as Markdown for the documentation.

The tables themselves live in `sandbox.magic`, `sandbox.magic_customers` and `sandbox.manners`; the
landing page and `docs/sandbox.md` show them through this module, so that neither can fall behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import magic, magic_customers, manners

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAGIC_HEADINGS: Final = ("word", "what happens", "BVN", "account at 058", "phone")
CUSTOMER_HEADINGS: Final = ("word", "what happens")
MANNER_HEADINGS: Final = ("switch", "default", "meaning")


def magic_rows() -> list[tuple[str, ...]]:
    """List the magic identifiers; emails are `<word>@magic.example`, domains alike."""
    return [(row.word, row.meaning, row.bvn, row.account_number, row.phone) for row in magic.TABLE]


def customer_rows() -> list[tuple[str, ...]]:
    """List the magic customers of area A; the username is `<word>@magic.example`."""
    return [(row.word, row.meaning) for row in magic_customers.TABLE]


def manner_rows() -> list[tuple[str, ...]]:
    """List the switches with their defaults."""
    return list(manners.described())


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table as Markdown."""
    lines = [" | ".join(headings), " | ".join("---" for _ in headings)]
    lines += [" | ".join(row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def documentation() -> str:
    """Write all tables, as they stand in `docs/sandbox.md`."""
    return "\n".join(
        (
            markdown(MAGIC_HEADINGS, magic_rows()),
            markdown(CUSTOMER_HEADINGS, customer_rows()),
            markdown(MANNER_HEADINGS, manner_rows()),
        )
    )
