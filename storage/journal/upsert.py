"""Insert-or-update in the one form that SQLite and PostgreSQL share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Table


def _insert(connection: Connection, table: Table) -> Any:  # noqa: ANN401 - two dialects' own types
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def add_up(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    adding: Sequence[str],
) -> None:
    """Insert rows; where the key exists, add the named columns to what is there."""
    if not rows:
        return
    statement = _insert(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: table.c[name] + statement.excluded[name] for name in adding},
    )
    connection.execute(statement, list(rows))


def put(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row; where the key exists, replace the other columns."""
    statement = _insert(connection, table)
    keys = {column.name for column in table.primary_key.columns}
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in row if name not in keys},
    )
    connection.execute(statement, dict(row))
