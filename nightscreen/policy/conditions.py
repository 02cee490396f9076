"""A condition's text becomes one safe expression over known columns, or a list of issues.

DuckDB does the work: its parser reads the text, its catalogue says which functions are
deterministic and of bounded size, its binder finds the types, and an empty row is judged to see
whether a literal in the condition fits the type it is compared with. The SQL that runs is written
from the same tree that was checked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from nightscreen.policy.engine import bounded, locked_connection
from nightscreen.policy.vocabulary import (
    SENSITIVE,
    check_columns,
    is_sensitive,
    outputs_of_a_decision,
    suggestion,
    words,
)
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import MOST_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    Node = dict[str, Any]

# choices that bound the cost of judging a row; docs/policy.md documents them
_MOST_PARTS = 400
_MOST_PATTERN = 200  # characters
_MOST_REPEATS = 500  # the product of all counts, since RE2 writes repeats out
_JUDGING_S = 10.0  # on one empty row: a slower condition cannot judge a file's rows

_FIXED_SIZE = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE"),
    *("FLOAT", "DATE", "TIMESTAMP", "INTERVAL"),
)
"""Values of these types have a fixed size, whatever function makes them."""
_TYPES = frozenset(
    (*_FIXED_SIZE, *("BOOL", "INT", "NUMERIC", "REAL", "VARCHAR", "TEXT", "STRING"))
) - {"INTERVAL"}
_PATTERNS = frozenset(
    {"~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "not_like_escape", "ilike_escape"}
    | {"not_ilike_escape", "regexp_matches", "regexp_full_match"}
)
_PATHS = frozenset({"json_extract_string", "->>"})
_CLOCKS = frozenset({"now", "today", "current_date", "current_timestamp", "get_current_timestamp"})
_NO_CLOCK = ": a decision must be repeatable; use a *_checked_at column or a fixed date"
_BY_NAME = _PATHS | frozenset(
    # texts no longer than their arguments
    {"lower", "upper", "trim", "ltrim", "rtrim", "left", "right", "substring", "substr"}
    | {"strip_accents"}
    # return an argument, or part of one
    | {"greatest", "least", "list_filter", "list_value"}
    # macros; others could do anything
    | {"nullif", "list_any_value", "list_min", "list_max", "list_sum", "list_count"}
)
_NOT_THESE = frozenset(
    # The catalogue calls these consistent, but they read the clock or the session's time zone.
    {"age", "current_localtime", "current_localtimestamp", "timezone", "timezone_hour"}
    | {"timezone_minute"}
    # Their cost is the product of the lengths of two texts.
    | {"levenshtein", "damerau_levenshtein", "editdist3", "jaccard", "jaro_similarity"}
    | {"jaro_winkler_similarity"}
)
_OPERATORS = frozenset(
    {"OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_COALESCE"}
    | {"OPERATOR_NULLIF", "OPERATOR_TRY", "COMPARE_IN", "COMPARE_NOT_IN", "STRUCT_EXTRACT"}
    | {"ARRAY_EXTRACT"}
)
_EQUALS = frozenset({"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN", "COMPARE_NOT_IN"})
_EXTRA = "ecosystem_extra"
_WHOLE_RECORD = (
    f"{_EXTRA} may hold {', '.join(SENSITIVE[:-1])} or {SENSITIVE[-1]}: name one field of it, as "
    f"in json_extract_string({_EXTRA}, '$.employer'), or say allow_sensitive = true"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition after reading."""

    sql: str = ""  # the expression, written from the checked tree; empty if there are issues
    columns: tuple[
        str, ...
    ] = ()  # the columns it names, each once, as they are spelt in `enriched`
    issues: tuple[str, ...] = ()  # what is wrong

    def checks(self) -> frozenset[str]:
        """Return the checks whose columns the condition names."""
        known = check_columns()
        return frozenset(known[name] for name in self.columns if name in known)


@cache
def _functions() -> frozenset[str]:
    """Return the functions that conditions may call: deterministic ones, for repeatable decisions.

    They have at least one consistent overload that returns a type of fixed size. Another overload
    may join lists or texts, but these grow no faster than the condition's length, since nothing
    allowed here repeats them.
    """
    fixed = ", ".join(f"'{kind}'" for kind in _FIXED_SIZE)
    with locked_connection() as connection:
        rows = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "  # noqa: S608 - constants
            "WHERE function_type = 'scalar' AND stability = 'CONSISTENT' "
            f"AND return_type IN ({fixed}) AND NOT starts_with(function_name, '__')"
        ).fetchall()
    return frozenset(name for (name,) in rows) - _NOT_THESE | _BY_NAME


@cache
def _plain() -> tuple[list[Node], Node]:
    """Return the parsed statement `SELECT (1)`, and its expression."""
    with locked_connection() as connection:
        ((read,),) = connection.execute("SELECT json_serialize_sql('SELECT (1)')").fetchall()
    statements = json.loads(read)["statements"]
    return statements, statements[0]["node"]["select_list"][0]


def _around(statements: list[Node], expression: Node) -> object:
    """Return the statements without one expression, except for its alias."""
    first = statements[0]["node"]
    selected = [{"alias": expression.get("alias")}, *first.get("select_list", [])[1:]]
    return [{**statements[0], "node": {**first, "select_list": selected}}, *statements[1:]]


def one_empty_row(types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a row of nulls; each list has one null, so that conditions on its items are judged."""
    return pa.table(
        {
            name: pa.array([[None] if pa.types.is_list(kind) else None], kind)
            for name, kind in types.items()
        }
    )


def read_conditions(
    connection: DuckDBPyConnection,
    written: Iterable[str],
    types: Mapping[str, pa.DataType],
    *,
    allow_sensitive: bool,
) -> tuple[Condition, ...]:
    """Read conditions, which may name the columns in `types`.

    The connection is a locked one, with `one_empty_row` as `rows`.
    """
    read = tuple(
        _read(connection, when, types, allow_sensitive=allow_sensitive) for when in written
    )
    # one query for all takes a tenth of the time; who objects to it is found one by one
    if _objection(connection, [each.sql for each in read if each.sql]) is None:
        return read
    wrong = (_objection(connection, [each.sql] if each.sql else []) for each in read)
    return tuple(
        each if issue is None else Condition("", each.columns, (issue,))
        for each, issue in zip(read, wrong, strict=True)
    )


def _read(
    connection: DuckDBPyConnection,
    when: str,
    types: Mapping[str, pa.DataType],
    *,
    allow_sensitive: bool,
) -> Condition:
    """Read one condition, whose types and literals are still to be judged."""
    document, issue = _parsed(connection, when)
    tree = {} if issue else document["statements"][0]["node"]["select_list"][0]
    nodes = list(islice(_nodes(tree), _MOST_PARTS)) if tree else []
    if len(nodes) == _MOST_PARTS:
        issue = "has too many parts: split it into several rules"
    if issue:
        return Condition(issues=(issue,))
    reading = _Reading(nodes, types, allow_sensitive=allow_sensitive)
    columns = tuple(dict.fromkeys(reading.columns()))
    issues = tuple(dict.fromkeys(reading.issues()))
    if issues:
        return Condition(columns=columns, issues=issues)
    write = "SELECT json_deserialize_sql(?::JSON)"
    ((written,),) = connection.execute(write, [json.dumps(document)]).fetchall()
    return Condition(str(written).removeprefix("SELECT "), columns)


def _parsed(connection: DuckDBPyConnection, when: str) -> tuple[Node, str]:
    """Return DuckDB's parse of a statement that selects a condition, or an issue."""
    if len(when) > MOST_CHARACTERS:
        return {}, f"is longer than {MOST_CHARACTERS} characters"
    query = f"SELECT (\n{when}\n)"
    try:
        ((read,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        document: Node = json.loads(read)
    except RecursionError:
        return {}, "is nested too deep"
    if document.get("error", True):
        message = str(document.get("error_message", "cannot be read")).splitlines()[0]
        return {}, f"is no SQL condition: {message}"
    statements = document["statements"]
    tree = statements[0]["node"].get("select_list", [{}])[0]
    is_more = _around(statements, tree) != _around(*_plain())
    return document, "is not one condition, but a whole statement" if is_more else ""


def _objection(connection: DuckDBPyConnection, conditions: Sequence[str]) -> str | None:
    """Return DuckDB's objection to the types or literals of conditions, or None.

    On a row of nulls only the condition's own literals can fail: `date_of_birth > 'abc'` would fail
    for every row.
    """
    if not conditions:
        return None
    selected = ", ".join(f"({sql}) AS c{number}" for number, sql in enumerate(conditions))
    # as in a run, where no table has a name that a condition could use
    query = f"SELECT {selected} FROM (FROM rows)"  # noqa: S608 - written from allowed trees
    try:
        kinds = {str(kind).strip('"').split("(")[0] for kind in connection.sql(query).types}
        bounded(connection, query, _JUDGING_S)
    except PolicyError as error:
        return str(error)
    except duckdb.Error as error:
        message = str(error).splitlines()[0].split(" Error: ", 1)[-1].strip()
        message = message.split(" Use TRY(", 1)[0]  # DuckDB's advice; a condition may not follow it
        return message + ("; correct it" if isinstance(error, duckdb.ConversionException) else "")
    kinds.discard("BOOLEAN")
    if not kinds:
        return None
    kind = min(kinds)
    return f"is {'nothing' if 'NULL' in kind else kind}, not true or false"


class _Reading:
    """Checks the parts of one condition."""

    def __init__(
        self, nodes: list[Node], types: Mapping[str, pa.DataType], *, allow_sensitive: bool
    ) -> None:
        self._nodes, self._types, self._allow_sensitive = nodes, types, allow_sensitive
        self._own_names = {name.casefold(): name for name in types}
        self._of_lambdas = {
            id(part)
            for each in nodes
            if each["class"] == "LAMBDA"
            for part in _nodes(each)
            if _first_name(part) == _first_name(each.get("lhs") or {})
        }
        """A lambda's own name, which means nothing outside of it."""
        filters = [node for node in nodes if node.get("function_name") == "list_filter"]
        self._filters = {id(argument) for each in filters for argument in list(_children(each))[1:]}
        self._one_field = {
            id(part) for node in nodes if _reads_one_field(node) for part in _children(node)
        }
        """Parts of tests for null, and of reading one named field of a record."""

    def columns(self) -> Iterator[str]:
        """Yield each column that the condition names, as it is spelt in `types`."""
        for node in self._nodes:
            name = self._own_names.get(_first_name(node))
            if name is not None:
                yield name

    def issues(self) -> Iterator[str]:
        """Yield a message for each part that is not allowed."""
        for node in self._nodes:
            match node["class"]:
                case "COLUMN_REF":
                    message = self._column(node)
                case "FUNCTION":
                    message = self._call(node, list(_children(node)))
                case "CAST":
                    message = _cast(node["type_expr"])
                case "LAMBDA":
                    message = self._lambda(node)
                case "CONSTANT" | "COMPARISON" | "CONJUNCTION" | "CASE" | "BETWEEN":
                    message = None
                case "OPERATOR" if node["type"] in _OPERATORS:
                    message = None
                case other:
                    what = str(node["type"] if other == "OPERATOR" else other).lower()
                    message = f"a {what.replace('_', ' ')} is not allowed in a condition"
            if message is not None:
                yield message
            elif node["type"] in _EQUALS:
                yield from _wrong_words(list(_children(node)))

    def _column(self, node: Node) -> str | None:
        path = [str(name) for name in node["column_names"]]
        name, folded, message = path[0], path[0].casefold(), None
        if id(node) in self._of_lambdas:
            pass
        elif len(path) > 1:
            message = f"{'.'.join(path)}: write the name of a column alone"
        elif is_sensitive(name) and not self._allow_sensitive:
            message = _forbidden(name)
        elif folded in self._own_names:
            whole = folded == _EXTRA and id(node) not in self._one_field
            message = _WHOLE_RECORD if whole and not self._allow_sensitive else None
        elif folded in outputs_of_a_decision():
            message = f"{name} is what the policy decides and cannot be named here"
        else:
            more = suggestion(name, self._types)
            more = more or "; a column that only your input has must be listed under carried"
            more = _NO_CLOCK if folded in _CLOCKS else more
            message = f"there is no column {name}{more}"
        return message

    def _lambda(self, node: Node) -> str | None:
        """Allow a filter's condition; not one inside another, whose cost multiplies."""
        if id(node) not in self._filters:
            return "a lambda that is not the second argument of list_filter is not allowed"
        names = (node.get("lhs") or {}).get("column_names", [])
        if len(names) != 1 or any(part["class"] == "LAMBDA" for part in _nodes(node["expr"])):
            return "a list_filter takes one name and holds no other list_filter"
        column = self._own_names.get(names[0].casefold())
        return column and f"{column} is a column: give each of a list_filter another name"

    def _call(self, node: Node, arguments: list[Node]) -> str | None:
        name, message = str(node["function_name"]).lower(), None
        decorated = any(node.get(each) for each in ("filter", "distinct", "export_state", "schema"))
        ordered = (node.get("order_bys") or {}).get("orders")
        named = any(argument["name"] for argument in node["arguments"])
        qualified = node.get("catalog") or len(node["qualified_name"]["path"]) != 1
        if name not in _functions() or named or decorated or ordered or qualified:
            clock = _NO_CLOCK if name in _CLOCKS else ""
            message = f"the function {name} is not allowed in a condition{clock}"
        elif name == "list_value" and any(each["class"] != "CONSTANT" for each in arguments):
            message = "a list in a condition may hold constants only"
        elif name in _PATTERNS | _PATHS:
            wrong = (self._pattern(name, _text(argument)) for argument in arguments[1:])
            message = next(filter(None, wrong), None)
        return message

    def _pattern(self, name: str, pattern: str | None) -> str | None:
        """Return why a pattern or path is not allowed: it must be short, and cheap to match."""
        if pattern is None:
            return f"the pattern or path of {name} must be a text written in the condition"
        if len(pattern) > _MOST_PATTERN:
            return f"the pattern of {name} is longer than {_MOST_PATTERN} characters"
        if _repeats(pattern) > _MOST_REPEATS:
            return f"the pattern of {name} repeats too often: its counts multiply"
        forbidden = name in _PATHS and is_sensitive(pattern) and not self._allow_sensitive
        return _forbidden(f"{_EXTRA} with {pattern}") if forbidden else None


def _first_name(node: Node) -> str:
    return str(node.get("column_names", [""])[0]).casefold()


def _cast(kind: Node) -> str | None:
    name = str(kind["type_name"]).upper()
    sizes = all(child["class"] == "CONSTANT" for child in kind["children"])
    if name in _TYPES and not kind["catalog"] and not kind["schema"] and sizes:
        return None
    return f"a cast to {name or 'that type'} is not allowed in a condition"


def _wrong_words(parts: list[Node]) -> Iterator[str]:
    """Yield comparisons of a column with a value it never has, which would never hold."""
    named = [_first_name(part) for part in parts if part["class"] == "COLUMN_REF"]
    allowed = words().get(named[0], ()) if len(named) == 1 else ()
    for part in parts if allowed else ():
        written = _text(part)
        if written is not None and written not in allowed:
            hint = suggestion(written, allowed)
            listed = ", ".join(allowed)
            yield f"{named[0]} is never '{written}'{hint} (its words are {listed})"


def _reads_one_field(node: Node) -> bool:
    """Return whether a part tests for null, or reads one named field without a wildcard."""
    if node["type"] in {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"}:
        return True
    if str(node.get("function_name")).lower() not in _PATHS:
        return False
    path = _text(list(_children(node))[-1]) or ""
    steps = path.removeprefix("$").removeprefix(".").split(".")
    return all(step.replace("_", "").replace("-", "").isalnum() for step in steps)


def _forbidden(name: str) -> str:
    return (
        f"{name} is sensitive ({', '.join(SENSITIVE)}): deciding by it is refused unless the "
        "policy says allow_sensitive = true"
    )


def _repeats(pattern: str) -> int:
    """Return the product of all counts of a regular expression."""
    product = 1
    for least, most in re.findall(r"\{(\d{1,9})(?:,(\d{0,9}))?\}", pattern):
        product *= max(int(most or least), int(least), 1)
    return product


def _text(node: Node) -> str | None:
    """Return the text of a text constant, else None."""
    literal = node.get("literal") or {}
    is_text = node.get("class") == "CONSTANT" and literal.get("kind") == "STRING"
    return str(literal["text"]) if is_text else None


def _nodes(node: Node) -> Iterator[Node]:
    """Yield an expression and all its descendants."""
    waiting = [node]
    while waiting:
        yield (part := waiting.pop(0))
        waiting += _children(part)


def _children(node: Node) -> Iterator[Node]:
    """Yield the direct children of an expression, except those of a cast's type."""
    for name, value in node.items():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict) and name != "type_expr":
                if "class" in child:
                    yield child
                elif name in {"case_checks", "arguments"}:
                    yield from _children(child)
