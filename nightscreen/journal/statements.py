"""Statements that are written in SQLAlchemy Core once and compiled once for each database.

The journal's many small writes would otherwise spend more time in preparing than in writing. What
the statements say is in the modules that use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    LargeBinary,
    any_,
    bindparam,
    column,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg

from nightscreen.files.sealing import SUBJECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import (
        Column,
        ColumnElement,
        Connection,
        CursorResult,
        Dialect,
        Table,
        TableValuedAlias,
        TextClause,
    )
    from sqlalchemy.sql.dml import UpdateBase

_POSTGRESQL = "postgresql"


class Many:
    """A write that is executed with many rows at once.

    Args:
        make: gives the statement for a dialect's name.
        names: the statement's parameters, in the order in which rows give them.
        at_once: the same for all rows at once, as `given` has them, where the database has arrays:
            one message to it in place of one for each row.
    """

    def __init__(
        self,
        make: Callable[[str], UpdateBase],
        names: Sequence[str],
        at_once: Callable[[], UpdateBase] | None = None,
    ) -> None:
        self._make = make
        self._names = tuple(names)
        self._at_once = at_once
        self._compiled: dict[str, tuple[str, tuple[int, ...]]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute the statement once for each row."""
        if not rows:
            return
        dialect = connection.dialect.name
        if dialect not in self._compiled:
            self._compiled[dialect] = self._compile(dialect)
        sql, order = self._compiled[dialect]
        if dialect == _POSTGRESQL and self._at_once is not None:
            values = [list(column) for column in zip(*rows, strict=True)]
            connection.exec_driver_sql(sql, tuple(values[index] for index in order))
        elif order == tuple(range(len(order))):
            connection.exec_driver_sql(sql, list(rows))
        else:
            connection.exec_driver_sql(sql, [tuple(row[index] for index in order) for row in rows])

    def _compile(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return SQL with positional parameters, and where they lie in a row."""
        dialect: Dialect = sqlite.dialect()
        if name == _POSTGRESQL:
            dialect = psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # there
        if name == _POSTGRESQL and self._at_once is not None:
            compiled = self._at_once().compile(dialect=dialect)
        else:
            compiled = self._make(name).compile(dialect=dialect, column_keys=list(self._names))
        positions = tuple(compiled.positiontup or ())
        order = tuple(self._names.index(position) for position in positions)
        sql = compiled.string
        if name == _POSTGRESQL and self._at_once is not None:
            sql = sql.replace("%s", "%b")  # as text each element of an array would be quoted
        return sql, order


def among(dialect: str, column: Column[Any], name: str) -> ColumnElement[bool]:
    """Return the condition that a column has one of the values of a list.

    Where the database has arrays it is one parameter: the statement is the same for every number,
    and prepared once.
    """
    if dialect == _POSTGRESQL:
        return column == any_(bindparam(name, type_=postgresql.ARRAY(column.type)))
    return column.in_(bindparam(name, expanding=True))


def among_joined(dialect: str, column: str, name: str) -> TextClause:
    """Return the condition that a column has one of some pseudonyms, given joined as one value.

    Bound one by one they cost five times as much as the reading.
    """
    if dialect == _POSTGRESQL:
        pieces = (
            f"ANY(ARRAY(SELECT substr(:{name}, place, {SUBJECT_BYTES})"  # noqa: S608 - names of ours
            f" FROM generate_series(1, length(:{name}), {SUBJECT_BYTES}) AS place))"
        )
        return text(f"{column} = {pieces}").bindparams(bindparam(name, type_=LargeBinary))
    pieces = (
        "(WITH RECURSIVE pieces(place) AS (SELECT 1 UNION ALL"  # noqa: S608 - names of ours
        f" SELECT place + {SUBJECT_BYTES} FROM pieces"
        f" WHERE place + {SUBJECT_BYTES} < length(:{name}))"
        f" SELECT substr(:{name}, place, {SUBJECT_BYTES}) FROM pieces)"
    )
    return text(f"{column} IN {pieces}").bindparams(bindparam(name, type_=LargeBinary))


def insert_into(dialect: str, table: Table) -> Any:  # noqa: ANN401 - two dialects' own types
    """Return an insert that may say what happens on conflict, in a dialect's own form."""
    return (postgresql if dialect == _POSTGRESQL else sqlite).insert(table).inline()


def given(table: Table, names: Sequence[str], columns: Sequence[str] = ()) -> TableValuedAlias:
    """Return rows that a statement is given as an array for each column.

    Args:
        table: has columns of the same types.
        names: the statement's parameters.
        columns: the columns of `table` they are for, where their names differ.
    """
    types = [table.c[each].type for each in columns or names]
    arrays = [
        bindparam(name, type_=postgresql.ARRAY(type_))
        for name, type_ in zip(names, types, strict=True)
    ]
    made = [column(name, type_) for name, type_ in zip(names, types, strict=True)]
    return func.unnest(*arrays).table_valued(*made).render_derived(name="given")


def inserting(table: Table, names: Sequence[str]) -> Many:
    """Return a plain write of rows."""
    return Many(
        lambda dialect: insert_into(dialect, table), names, lambda: _insert_given(table, names)
    )


def _insert_given(table: Table, names: Sequence[str]) -> Any:  # noqa: ANN401 - a dialect's own type
    rows = select(*given(table, names).c)
    return insert_into(_POSTGRESQL, table).from_select(list(names), rows, include_defaults=False)


def adding_up(table: Table, columns: Sequence[str]) -> Many:
    """Return a write of whole rows that adds the named columns where the key exists."""

    def upsert(statement: Any) -> UpdateBase:  # noqa: ANN401 - two dialects' own types
        added = {name: table.c[name] + statement.excluded[name] for name in columns}
        keys = list(table.primary_key.columns)
        made: UpdateBase = statement.on_conflict_do_update(index_elements=keys, set_=added)
        return made

    names = table.c.keys()
    return Many(
        lambda dialect: upsert(insert_into(dialect, table)),
        names,
        lambda: upsert(_insert_given(table, names)),
    )


def fetched(result: CursorResult[Any]) -> list[tuple[Any, ...]]:
    """Return all rows of a result as the driver has them, past SQLAlchemy's, which cost more."""
    cursor = result.cursor
    rows = [] if cursor is None else [tuple(row) for row in cursor.fetchall()]
    result.close()
    return rows
