"""Lets all engines of a process share the SQL that was compiled for one of them.

Each test opens journals of its own, and compiling the same statements for each of them took a tenth
of the processor time of a night. SQLAlchemy keeps what it compiled by engine, and finds it again by
dialect: here dialects of one kind are equal, and keep it together.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


def _is_same_kind(self: object, other: object) -> bool:
    return type(self) is type(other)


def _hash_of_kind(self: object) -> int:
    return hash(type(self))


class _SharedCache:
    """In place of an engine's own cache."""

    def __init__(self) -> None:
        self._caches: dict[Any, Any] = {}

    def __get__(self, engine: Engine | None, _: type[Engine]) -> Any:  # noqa: ANN401 - SQLAlchemy's own
        if engine is None:
            return self
        return self._caches[engine.dialect]

    def __set__(self, engine: Engine, cache: Any) -> None:  # noqa: ANN401
        self._caches.setdefault(engine.dialect, cache)


def share_compiled_sql() -> None:
    """Share what is compiled from now on."""
    for dialect in (SQLiteDialect_pysqlite, PGDialect_psycopg):
        dialect.__eq__ = _is_same_kind  # type: ignore[method-assign]  # of all of one kind
        dialect.__hash__ = _hash_of_kind  # type: ignore[method-assign]
    Engine._compiled_cache = _SharedCache()  # type: ignore[assignment]  # it has no public name
