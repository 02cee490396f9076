"""The version of a journal: a digest of the schema that the program declares.

A journal is used by a program that declares the same tables, columns and indexes. Any other is
refused and left as it is. The tables are declared in the modules that are imported here.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from nightscreen.journal import (
    approvals,  # noqa: F401 - declares tables
    askers,  # noqa: F401 - declares tables
    customer_tables,  # noqa: F401 - declares tables
    disputes,  # noqa: F401 - declares tables
    grant_tables,  # noqa: F401 - declares tables
    identifier_history,  # noqa: F401 - declares tables
    lookups,  # noqa: F401 - declares tables
    records,  # noqa: F401 - declares tables
)
from nightscreen.journal.tables import metadata
from nightscreen.schemas.errors import JournalDamagedError, JournalVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Table

VERSION = "schema"


@cache
def declared_version() -> str:
    """Return the version of the journals that this program makes and uses."""
    lines = (line for table in metadata.sorted_tables for line in sorted(_declared(table)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _declared(table: Table) -> Iterator[str]:
    for column in table.columns:
        rules = (column.type, column.nullable, column.primary_key, column.autoincrement)
        yield f"{table.name}.{column.name} {rules}"
    for index in table.indexes:
        names = [column.name for column in index.columns]
        where = index.dialect_options["sqlite"]["where"]
        yield f"{table.name} {index.name} {names} {index.unique} {where}"


def require_declared(facts: Mapping[str, str]) -> None:
    """Refuse a journal of another version.

    Args:
        facts: what the journal's table `meta` holds.

    Raises:
        JournalDamagedError: it does not say which version it has.
        JournalVersionError: another version of the program made it.
    """
    found = facts.get(VERSION)
    if found is None:
        raise JournalDamagedError(
            "the journal does not say which version it has; it was left untouched: restore it from "
            "a backup"
        )
    if found != declared_version():
        raise JournalVersionError(
            f"the journal was made by another version of nightscreen (its schema is {found}, this "
            f"program's {declared_version()}): use that version, or set NIGHTSCREEN_HOME and "
            "NIGHTSCREEN_JOURNAL_URL to a place for a new journal"
        )
