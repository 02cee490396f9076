"""One condition checked against what it may name: columns, types, words, and what is sensitive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from nightscreen.policy.columns import (
    CARRIED_TYPES,
    PURPOSE,
    SENSITIVE,
    check_columns,
    is_sensitive,
    known_columns,
    outputs_of_a_decision,
    suggestion,
    words,
)
from nightscreen.policy.engine import bounded
from nightscreen.policy.sql import (
    PATHS,
    TYPES,
    Condition,
    SyntaxFinding,
    children,
    expressions,
    place,
    read_condition,
    text,
)
from nightscreen.schemas.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duckdb import DuckDBPyConnection

    from nightscreen.policy.sql import Node
    from nightscreen.schemas.policy import CarriedKind

_EXTRA = "ecosystem_extra"
_PLAIN_KINDS = {
    "BIGINT": "whole number",
    "INTEGER": "whole number",
    "DECIMAL": "amount",
    "DOUBLE": "number",
    "VARCHAR": "text",
    "TIMESTAMP": "time",
}
_NULL_TESTS = frozenset({"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"})
_EQUALS = frozenset({"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN", "COMPARE_NOT_IN"})
_TYPE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class CheckedCondition:
    """A condition ready to be evaluated, or what is wrong with it.

    Attributes:
        sql: the expression; must not be run where there are findings.
        tree: the expression as DuckDB's parser has it.
        columns: the columns it names, each once, under their own names.
        findings: what is wrong, and at which character.
    """

    sql: str
    tree: Node
    columns: tuple[str, ...]
    findings: tuple[SyntaxFinding, ...]

    def checks(self) -> frozenset[str]:
        """Return the checks whose columns the condition names."""
        known = check_columns()
        return frozenset(known[name] for name in self.columns if name in known)


def column_types(carried: Mapping[str, CarriedKind]) -> dict[str, pa.DataType]:
    """Return every column conditions may name, those the policy says the input carries included."""
    own = {name: CARRIED_TYPES[kind] for name, kind in carried.items()}
    return {**own, **known_columns()}


def empty_rows(carried: Mapping[str, CarriedKind]) -> pa.Table:
    """Return a table of all columns without a row, to find the types of conditions with."""
    return pa.schema(list(column_types(carried).items())).empty_table()


def check_condition(
    connection: DuckDBPyConnection,
    when: str,
    *,
    carried: Mapping[str, CarriedKind],
    allow_sensitive: bool,
) -> CheckedCondition:
    """Check one condition.

    Args:
        connection: a locked one, on which `empty_rows` is registered as `rows`.
        when: the condition's SQL.
        carried: columns of the input that the policy may name.
        allow_sensitive: conditions on sensitive columns are wanted.
    """
    condition = read_condition(connection, when)
    types = column_types(carried)
    by_folded = {name.casefold(): name for name in types}
    named = {use.name: by_folded.get(use.name.casefold()) for use in condition.columns}
    findings = list(condition.findings)
    findings += _unknown(condition, named, types)
    if not allow_sensitive:
        findings += _sensitive(when, condition)
    if condition.tree:
        findings += _wrong_words(when, condition.tree)
        findings += _wrong_constants(connection, when, condition.tree, types)
    if condition.sql and None not in named.values():
        findings += _wrong_type(connection, condition.sql)
    columns = tuple(dict.fromkeys(name for name in named.values() if name is not None))
    return CheckedCondition(condition.sql, condition.tree, columns, tuple(findings))


def _unknown(
    condition: Condition, named: Mapping[str, str | None], types: Mapping[str, pa.DataType]
) -> Iterator[SyntaxFinding]:
    for use in condition.columns:
        if named[use.name] is not None:
            continue
        if use.name.casefold() in outputs_of_a_decision():
            yield SyntaxFinding(
                use.at, f"{use.name} is what the policy decides and cannot be named here"
            )
        elif is_sensitive(use.name):
            continue
        else:
            hint = suggestion(use.name, types) or (
                "; a column that only your input has must be listed under carried"
            )
            yield SyntaxFinding(use.at, f"there is no column {use.name}{hint}")


def _sensitive(when: str, condition: Condition) -> Iterator[SyntaxFinding]:
    """Yield every way to what is sensitive: by column, by path, by a whole record."""
    for use in condition.columns:
        if is_sensitive(use.name):
            yield SyntaxFinding(use.at, _forbidden(use.name))
    if not any(use.name.casefold() == _EXTRA for use in condition.columns) or not condition.tree:
        return
    at = next(use.at for use in condition.columns if use.name.casefold() == _EXTRA)
    for node in expressions(condition.tree):
        written = text(node)
        if written is not None and is_sensitive(written):
            yield SyntaxFinding(at, _forbidden(f"{_EXTRA} with {written}"))
    for node in _bare_extras(condition.tree):
        yield SyntaxFinding(place(when, node), _bare_message())


def _bare_message() -> str:
    return (
        f"{_EXTRA} may hold {', '.join(SENSITIVE[:-1])} or {SENSITIVE[-1]}: name one field of it, "
        f"as in json_extract_string({_EXTRA}, '$.employer'), or say allow_sensitive = true"
    )


def _forbidden(name: str) -> str:
    return (
        f"{name} is sensitive ({', '.join(SENSITIVE)}): deciding by it is refused unless the "
        "policy says allow_sensitive = true"
    )


def _is_extra(node: Node) -> bool:
    return node.get("class") == "COLUMN_REF" and node["column_names"][-1].casefold() == _EXTRA


def _bare_extras(node: Node) -> Iterator[Node]:
    """Yield each use of the whole of `ecosystem_extra`, which might show any field of it."""
    for child in children(node):
        if not _is_extra(child):
            yield from _bare_extras(child)
        elif not (node.get("type") in _NULL_TESTS or _reads_one_field(node)):
            yield child


def _reads_one_field(node: Node) -> bool:
    """Return whether a call reads one named field, not a wildcard and not the whole record."""
    if node.get("class") != "FUNCTION" or str(node["function_name"]).lower() not in PATHS:
        return False
    path = text(node["arguments"][1]["expression"]) or ""
    steps = path.removeprefix("$").removeprefix(".").split(".")
    return all(step.replace("_", "").replace("-", "").isalnum() for step in steps)


def _wrong_words(when: str, tree: Node) -> Iterator[SyntaxFinding]:
    """Yield comparisons of a column with a word it never has, which would never hold."""
    known = words()
    for node in expressions(tree):
        if node.get("type") not in _EQUALS:
            continue
        parts = list(children(node))
        named = [part for part in parts if part.get("class") == "COLUMN_REF"]
        columns = [part["column_names"][0].casefold() for part in named]
        allowed = known.get(columns[0]) if len(columns) == 1 else None
        for part in parts:
            written = text(part)
            if allowed is not None and written is not None and written not in allowed:
                hint = suggestion(written, allowed)
                listed = ", ".join(allowed)
                message = f"{columns[0]} is never '{written}'{hint} (its words are {listed})"
                yield SyntaxFinding(place(when, part), message)


def _wrong_constants(
    connection: DuckDBPyConnection, when: str, tree: Node, types: Mapping[str, pa.DataType]
) -> Iterator[SyntaxFinding]:
    """Yield texts that should be a number, date or flag and are not: they would fail every row."""
    for node in expressions(tree):
        parts = list(children(node))
        kind = None
        if node.get("class") == "CAST":
            named_type = str(node["type_expr"]["type_name"])
            kind = named_type if named_type.upper() in TYPES else None  # any other is refused
        elif node.get("class") in {"COMPARISON", "BETWEEN"} or node.get("type") in _EQUALS:
            named = [part["column_names"][0] for part in parts if part["class"] == "COLUMN_REF"]
            kind = _sql_type(types.get(named[0])) if named else None
        for part in parts:
            written = text(part)
            if (
                kind is not None
                and written is not None
                and not _reads_as(connection, written, kind)
            ):
                yield SyntaxFinding(place(when, part), f"'{written}' is no {_kind_words(kind)}")


def _sql_type(kind: pa.DataType | None) -> str | None:
    """Return DuckDB's name of a column type that a text in a comparison is converted to."""
    names = {
        pa.int64(): "BIGINT",
        pa.bool_(): "BOOLEAN",
        pa.date32(): "DATE",
        pa.float64(): "DOUBLE",
        pa.timestamp("us"): "TIMESTAMP",
    }
    if kind is not None and pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return names.get(kind)


def _reads_as(connection: DuckDBPyConnection, written: str, kind: str) -> bool:
    """Return whether a text can be converted to a type."""
    query = f"SELECT TRY_CAST(? AS {kind}) IS NOT NULL"
    row = connection.execute(query, [written]).fetchone()
    return bool(row and row[0])


def _wrong_type(connection: DuckDBPyConnection, sql: str) -> Iterator[SyntaxFinding]:
    """Yield what DuckDB says of the types of a condition; it sees no row."""
    try:
        query = f"SELECT ({sql}) FROM rows"  # noqa: S608 - written from an allowed tree
        described = bounded(connection, query, _TYPE_TIMEOUT_S).description
    except PolicyError as error:
        yield SyntaxFinding(0, str(error))
        return
    except duckdb.Error as error:
        yield SyntaxFinding(0, _first_line(error))
        return
    kind = str(described[0][1]) if described else ""
    if kind != "BOOLEAN":
        yield SyntaxFinding(0, f"is {_kind_words(kind)}, not true or false")


def _kind_words(kind: str) -> str:
    if "NULL" in kind:
        return "nothing at all"
    bare = kind.strip('"').split("(")[0].upper()
    return _PLAIN_KINDS.get(bare, bare.lower())


def _first_line(error: duckdb.Error) -> str:
    """Return what DuckDB says in its first sentence, without its name for the kind of error."""
    line = str(error).splitlines()[0]
    return line.split(" Error: ", 1)[-1].strip()


__all__ = ["PURPOSE", "CheckedCondition", "check_condition", "column_types", "empty_rows"]
