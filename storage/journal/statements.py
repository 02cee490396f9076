"""Statements that are written in SQLAlchemy Core once and compiled once for each database.

The journal's many small writes would otherwise spend more time in preparing than in writing. What
the statements say is in the modules that use them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import case
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, CursorResult, Dialect, Table
    from sqlalchemy.sql.dml import UpdateBase

_POSTGRESQL = "postgresql"


class Many:
    """A write that is executed with many rows at once.

    Args:
        make: gives the statement for a dialect's name.
        names: the statement's parameters, in the order in which rows give them.
    """

    def __init__(self, make: Callable[[str], UpdateBase], names: Sequence[str]) -> None:
        self._make = make
        self._names = tuple(names)
        self._compiled: dict[str, tuple[str, tuple[int, ...] | None]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute the statement once for each row."""
        if not rows:
            return
        dialect = connection.dialect.name
        if dialect not in self._compiled:
            self._compiled[dialect] = self._compile(dialect)
        sql, order = self._compiled[dialect]
        if order is not None:
            rows = [tuple(row[index] for index in order) for row in rows]
        connection.exec_driver_sql(sql, list(rows))

    def _compile(self, name: str) -> tuple[str, tuple[int, ...] | None]:
        """Return SQL with positional parameters, and where they lie in a row if not in order."""
        dialect: Dialect = sqlite.dialect()
        if name == _POSTGRESQL:
            dialect = psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # there
        compiled = self._make(name).compile(dialect=dialect, column_keys=list(self._names))
        positions = tuple(compiled.positiontup or ())
        order = tuple(self._names.index(position) for position in positions)
        return compiled.string, None if order == tuple(range(len(self._names))) else order


def insert_into(dialect: str, table: Table) -> Any:  # noqa: ANN401 - two dialects' own types
    """Return an insert that may say what happens on conflict, in a dialect's own form."""
    return (postgresql if dialect == _POSTGRESQL else sqlite).insert(table).inline()


def adding_up(table: Table, columns: Sequence[str]) -> Many:
    """Return a write of whole rows that adds the named columns where the key exists."""

    def make(dialect: str) -> UpdateBase:
        statement = insert_into(dialect, table)
        added = {name: table.c[name] + statement.excluded[name] for name in columns}
        keys = list(table.primary_key.columns)
        upsert: UpdateBase = statement.on_conflict_do_update(index_elements=keys, set_=added)
        return upsert

    return Many(make, table.c.keys())


def keeping_highest(table: Table, column: str) -> Many:
    """Return a write of whole rows that replaces all but the named column, which never falls."""

    def make(dialect: str) -> UpdateBase:
        statement = insert_into(dialect, table)
        keys = list(table.primary_key.columns)
        new = {name: statement.excluded[name] for name in table.c.keys()}  # noqa: SIM118 - a collection of columns
        for key in keys:
            del new[key.name]
        old = table.c[column]
        new[column] = case((old > new[column], old), else_=new[column])
        upsert: UpdateBase = statement.on_conflict_do_update(index_elements=keys, set_=new)
        return upsert

    return Many(make, table.c.keys())


@lru_cache(maxsize=64)
def marks(number: int) -> str:
    """Return so many of SQLite's question marks, for a list of values."""
    return ",".join("?" * number)


def fetched(result: CursorResult[Any]) -> list[tuple[Any, ...]]:
    """Return all rows of a result as the driver has them, past SQLAlchemy's, which cost more."""
    cursor = result.cursor
    rows = [] if cursor is None else [tuple(row) for row in cursor.fetchall()]
    result.close()
    return rows
