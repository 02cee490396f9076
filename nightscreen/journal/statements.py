"""Writes of many rows, in SQLAlchemy Core once and compiled once for each database; and blocks.

SQLAlchemy's own way costs 20 µs a row more, which is what the journal's own work on a lookup costs.
What the statements say is in the modules that use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, Dialect, Table
    from sqlalchemy.sql.dml import UpdateBase

_POSTGRESQL = "postgresql"
T = TypeVar("T")


_BLOCK = 500  # values of one query: far fewer parameters than the 32,766 that SQLite takes


def blocks(found: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield so many of something at a time as one query names."""
    for start in range(0, len(found), _BLOCK):
        yield found[start : start + _BLOCK]


class Many:
    """A write that is executed with many rows at once.

    Args:
        make: gives the statement for a dialect's name.
        names: the statement's parameters, in the order in which rows give them.
    """

    def __init__(self, make: Callable[[str], UpdateBase], names: Sequence[str]) -> None:
        self._make = make
        self._names = tuple(names)
        self._compiled: dict[str, tuple[str, tuple[int, ...]]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute the statement once for each row; PostgreSQL's driver sends them all at once."""
        if not rows:
            return
        dialect = connection.dialect.name
        if dialect not in self._compiled:
            self._compiled[dialect] = self._compile(dialect)
        sql, order = self._compiled[dialect]
        connection.exec_driver_sql(sql, [tuple(row[index] for index in order) for row in rows])

    def _compile(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return SQL with positional parameters, and where they lie in a row."""
        dialect: Dialect = sqlite.dialect()
        if name == _POSTGRESQL:
            dialect = psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # there
        compiled = self._make(name).compile(dialect=dialect, column_keys=list(self._names))
        order = tuple(map(self._names.index, compiled.positiontup or ()))
        return compiled.string, order


def insert_into(dialect: str, table: Table) -> Any:  # noqa: ANN401 - two dialects' own types
    """Return an insert that may say what happens on conflict, in a dialect's own form."""
    return (postgresql if dialect == _POSTGRESQL else sqlite).insert(table).inline()


def inserting(table: Table, names: Sequence[str]) -> Many:
    """Return a plain write of rows."""
    return Many(lambda dialect: insert_into(dialect, table), names)


def adding_up(table: Table, columns: Sequence[str]) -> Many:
    """Return a write of whole rows that adds the named columns where the key exists."""

    def upsert(dialect: str) -> UpdateBase:
        statement = insert_into(dialect, table)
        added = {name: table.c[name] + statement.excluded[name] for name in columns}
        keys = list(table.primary_key.columns)
        made: UpdateBase = statement.on_conflict_do_update(index_elements=keys, set_=added)
        return made

    return Many(upsert, table.c.keys())
