"""Conditions: SQL text in, one harmless scalar expression out, or what is wrong with it and where.

DuckDB's own parser reads the text; the parsed tree is checked against a list of what is allowed,
and the SQL that is run later is written from that tree. This module evaluates nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.policy import MOST_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    Node = dict[str, Any]

_OPENING = "SELECT (\n"
_MOST_NODES = 400
_MOST_DEPTH = 60
_MOST_PATTERN = 200
_MOST_REPEATS = 500

_OPERATORS = frozenset(
    {
        "OPERATOR_NOT",
        "OPERATOR_IS_NULL",
        "OPERATOR_IS_NOT_NULL",
        "OPERATOR_COALESCE",
        "OPERATOR_NULLIF",
        "OPERATOR_TRY",
        "COMPARE_IN",
        "COMPARE_NOT_IN",
        "STRUCT_EXTRACT",
        "ARRAY_EXTRACT",
    }
)
TYPES = frozenset(
    {
        "BOOLEAN",
        "BOOL",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "INT",
        "BIGINT",
        "HUGEINT",
        "DECIMAL",
        "NUMERIC",
        "DOUBLE",
        "FLOAT",
        "REAL",
        "VARCHAR",
        "TEXT",
        "STRING",
        "DATE",
        "TIMESTAMP",
    }
)
LIKES = frozenset({"~~", "!~~", "~~*", "!~~*"})
REGULAR = frozenset({"regexp_matches", "regexp_full_match"})
PATHS = frozenset({"json_extract_string", "->>"})
LISTS = frozenset({"list_value"})
_FUNCTIONS = (
    LIKES
    | REGULAR
    | PATHS
    | LISTS
    | frozenset(
        {
            "+",
            "-",
            "*",
            "/",
            "//",
            "%",
            "abs",
            "round",
            "floor",
            "ceil",
            "ceiling",
            "sign",
            "trunc",
            "greatest",
            "least",
            "nullif",
            "lower",
            "upper",
            "trim",
            "ltrim",
            "rtrim",
            "length",
            "len",
            "starts_with",
            "ends_with",
            "prefix",
            "suffix",
            "contains",
            "substring",
            "substr",
            "left",
            "right",
            "strip_accents",
            "list_contains",
            "list_has",
            "array_contains",
            "list_has_any",
            "list_has_all",
            "list_filter",
            "list_any_value",
            "list_min",
            "list_max",
            "list_sum",
            "list_count",
            "array_length",
            "date_diff",
            "datediff",
            "date_part",
            "datepart",
            "date_trunc",
            "datetrunc",
            "year",
            "month",
            "day",
            "to_days",
            "to_weeks",
            "to_months",
            "to_years",
            "to_hours",
        }
    )
)
_CLOCKS = frozenset(
    {
        "now",
        "today",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "age",
        "random",
        "uuid",
    }
)
_REFUSED = {
    "SUBQUERY": "a query inside a condition",
    "WINDOW": "a window over rows",
    "STAR": "a star or COLUMNS()",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its number",
    "COLLATE": "COLLATE",
    "DEFAULT": "DEFAULT",
}


@dataclass(frozen=True, slots=True)
class SyntaxFinding:
    """One thing wrong with a condition, and at which character of it."""

    at: int
    message: str


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column a condition names, and at which character."""

    name: str
    at: int


@dataclass(slots=True)
class Condition:
    """A condition as it was read.

    Attributes:
        tree: the expression as DuckDB's parser has it; empty if it could not be read.
        sql: the expression, written from the tree.
        columns: every column named, in order, repeated where named again.
        findings: what is wrong with it; where there is anything, it must not be run.
    """

    tree: Node = field(default_factory=dict)
    sql: str = ""
    columns: list[ColumnUse] = field(default_factory=list)
    findings: list[SyntaxFinding] = field(default_factory=list)


def read_condition(connection: DuckDBPyConnection, text: str) -> Condition:
    """Read a condition without evaluating any of it.

    Args:
        connection: a locked one, see `engine`.
        text: the SQL of the condition.
    """
    condition = Condition()
    if len(text) > MOST_CHARACTERS:
        condition.findings.append(SyntaxFinding(0, f"is longer than {MOST_CHARACTERS} characters"))
        return condition
    try:
        _read(connection, text, condition)
    except RecursionError:
        condition.findings.append(SyntaxFinding(0, "is nested too deep"))
    return condition


def _read(connection: DuckDBPyConnection, text: str, condition: Condition) -> None:
    query = f"{_OPENING}{text}\n)"
    found = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    document: Node = json.loads(found[0] if found else "{}")
    if document.get("error", True):
        condition.findings.append(_syntax(document, text))
        return
    tree = _only_expression(document)
    if tree is None:
        condition.findings.append(SyntaxFinding(0, "is not one condition, but a whole statement"))
        return
    walk = _Walk(text, condition)
    walk.go(tree, depth=0, bound=frozenset())
    condition.tree = {} if walk.too_much else tree
    if not condition.findings:
        condition.sql = write_sql(connection, tree)


def write_sql(connection: DuckDBPyConnection, tree: Node) -> str:
    """Return an expression's SQL, written by DuckDB from its tree."""
    found = connection.execute("SELECT json_deserialize_sql(?::JSON)", [_statement(tree)])
    row = found.fetchone()
    return str(row[0]).removeprefix("SELECT ") if row else ""


def _statement(tree: Node) -> str:
    """Return a statement that selects an expression and nothing else, as DuckDB's JSON."""
    node: Node = {
        "type": "SELECT_NODE",
        "modifiers": [],
        "cte_map": {"map": []},
        "select_list": [tree],
        "from_table": {"type": "EMPTY", "alias": "", "sample": None},
        "where_clause": None,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }
    statement = {"node": node, "named_param_map": []}
    return json.dumps({"error": False, "statements": [statement]})


def _only_expression(document: Node) -> Node | None:
    """Return the one expression of `SELECT (…)`; None if the text was anything more."""
    statements = document.get("statements", [])
    if len(statements) != 1:
        return None
    node = statements[0].get("node", {})
    selected = node.get("select_list", [])
    empty = ("where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
    plain = (
        node.get("type") == "SELECT_NODE"
        and len(selected) == 1
        and node.get("from_table", {}).get("type") == "EMPTY"
        and not node.get("modifiers")
        and not node.get("cte_map", {}).get("map")
        and not any(node.get(name) for name in empty)
        and not selected[0].get("alias")
    )
    return selected[0] if plain else None


def _syntax(document: Node, text: str) -> SyntaxFinding:
    """Explain why a text is no SQL."""
    message = str(document.get("error_message", "cannot be read")).splitlines()[0]
    position = int(document.get("position") or len(_OPENING))
    return SyntaxFinding(_character(text, position), f"is no SQL condition: {message}")


def _character(text: str, byte: int) -> int:
    """Return which character of a condition a byte of the whole query falls on."""
    inner = max(byte - len(_OPENING), 0)
    return min(len(text.encode()[:inner].decode(errors="ignore")), max(len(text) - 1, 0))


def place(when: str, node: Node) -> int:
    """Return the character of a condition at which an expression starts."""
    byte = node.get("query_location")
    length = len(when.encode()) + len(_OPENING)
    return _character(when, byte) if isinstance(byte, int) and byte < length else 0


class _Walk:
    """Walks a tree against the list of what is allowed, noting columns and mistakes."""

    def __init__(self, text: str, condition: Condition) -> None:
        self._text = text
        self._condition = condition
        self._nodes = 0
        self.too_much = False

    def _wrong(self, node: Node, message: str) -> None:
        if all(finding.message != message for finding in self._condition.findings):
            self._condition.findings.append(SyntaxFinding(place(self._text, node), message))

    def go(self, node: Node, *, depth: int, bound: frozenset[str]) -> None:
        """Walk one expression; `bound` are the names that lambdas around it give."""
        self._nodes += 1
        if self._nodes == _MOST_NODES:
            self._wrong(node, "has too many parts: split it into several rules")
        if depth == _MOST_DEPTH:
            self._wrong(node, "is nested too deep")
        if self._nodes >= _MOST_NODES or depth >= _MOST_DEPTH:
            self.too_much = True
            return
        match node.get("class"):
            case "COLUMN_REF":
                self._column(node, bound)
            case "FUNCTION":
                self._function(node, depth, bound)
            case "LAMBDA":
                self._wrong(node, "a lambda may only be the second argument of list_filter")
            case "CAST":
                self._cast(node, depth, bound)
            case "OPERATOR" if node.get("type") in _OPERATORS:
                self._children(node, depth, bound)
            case "CONSTANT" | "COMPARISON" | "CONJUNCTION" | "CASE" | "BETWEEN":
                self._children(node, depth, bound)
            case other:
                what = _REFUSED.get(str(other), str(node.get("type", other)).lower())
                self._wrong(node, f"{what} is not allowed in a condition")

    def _children(self, node: Node, depth: int, bound: frozenset[str]) -> None:
        for child in children(node):
            self.go(child, depth=depth + 1, bound=bound)

    def _column(self, node: Node, bound: frozenset[str]) -> None:
        names = [str(name) for name in node["column_names"]]
        if names[0].casefold() in bound:
            return
        if len(names) > 1:
            self._wrong(node, f"{'.'.join(names)}: write the name of a column alone")
        elif names[0].casefold() in _CLOCKS:
            self._wrong(node, _clock(names[0]))
        else:
            self._condition.columns.append(ColumnUse(names[0], place(self._text, node)))

    def _cast(self, node: Node, depth: int, bound: frozenset[str]) -> None:
        kind = node.get("type_expr") or {}
        name = str(kind.get("type_name", "")).upper()
        plain = not kind.get("catalog") and not kind.get("schema")
        sizes = [child.get("class") == "CONSTANT" for child in kind.get("children", [])]
        if name not in TYPES or not plain or not all(sizes):
            self._wrong(node, f"a cast to {name or 'that type'} is not allowed in a condition")
        self.go(node["child"], depth=depth + 1, bound=bound)

    def _function(self, node: Node, depth: int, bound: frozenset[str]) -> None:
        name = str(node["function_name"]).lower()
        arguments = [argument["expression"] for argument in node["arguments"]]
        if problem := _function_problem(node, name, arguments):
            self._wrong(node, problem)
            return
        for position, argument in enumerate(arguments):
            filtering = name == "list_filter" and position == 1 and argument["class"] == "LAMBDA"
            if filtering:
                self._lambda(argument, depth, bound)
            else:
                self.go(argument, depth=depth + 1, bound=bound)

    def _lambda(self, node: Node, depth: int, bound: frozenset[str]) -> None:
        """Walk a filter's condition; one inside another is refused, for its cost multiplies."""
        names = node.get("lhs", {}).get("column_names", [])
        if bound or len(names) != 1:
            self._wrong(node, "a list_filter takes one name and holds no other list_filter")
            return
        self.go(node["expr"], depth=depth + 1, bound=frozenset({names[0].casefold()}))


def _clock(name: str) -> str:
    return (
        f"{name} is not allowed: a decision must come out the same when it is made again; "
        "use the *_checked_at columns or a fixed date"
    )


def _function_problem(node: Node, name: str, arguments: list[Node]) -> str | None:
    """Return why a call is not allowed, or None."""
    if name in _CLOCKS:
        return _clock(name)
    named = any(argument.get("name") for argument in node["arguments"])
    decorated = node.get("filter") or node.get("distinct") or node.get("export_state")
    ordered = (node.get("order_bys") or {}).get("orders")
    path = (node.get("qualified_name") or {}).get("path", [name])
    qualified = node.get("schema") or node.get("catalog") or len(path) != 1
    if name == "row":
        return "several values in a row are not one condition"
    if name not in _FUNCTIONS or named or decorated or ordered or qualified:
        return f"the function {name} is not allowed in a condition"
    if name in LISTS:
        constant = all(argument["class"] == "CONSTANT" for argument in arguments)
        return None if constant else "a list in a condition may hold constants only"
    if name in LIKES | REGULAR | PATHS:
        return _pattern_problem(name, arguments)
    return None


def _pattern_problem(name: str, arguments: list[Node]) -> str | None:
    """Return why a pattern or path is not allowed: it must be a short constant, cheap to match."""
    if any(text(argument) is None for argument in arguments[1:]):
        return f"the pattern or path of {name} must be a text written in the condition"
    for argument in arguments[1:]:
        pattern = text(argument) or ""
        if len(pattern) > _MOST_PATTERN:
            return f"the pattern of {name} is longer than {_MOST_PATTERN} characters"
        if name in REGULAR and _repeats(pattern) > _MOST_REPEATS:
            return f"the pattern of {name} repeats too often: its counts multiply"
    return None


def _repeats(pattern: str) -> int:
    """Return the product of all counts of a regular expression."""
    product = 1
    for least, most in re.findall(r"\{(\d{1,9})(?:,(\d{0,9}))?\}", pattern):
        product *= max(int(most or least), int(least), 1)
    return product


def text(node: Node) -> str | None:
    """Return the text of a constant of text, else None."""
    literal = node.get("literal") or {}
    if node.get("class") == "CONSTANT" and literal.get("kind") == "STRING":
        return str(literal["text"])
    return None


def children(node: Node) -> Iterator[Node]:
    """Yield the expressions right below one; those of a cast's type are none."""
    for name, value in node.items():
        if name == "type_expr":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, dict):
                if "class" in child:
                    yield child
                elif name in {"case_checks", "arguments"}:
                    yield from children(child)


def expressions(node: Node) -> Iterator[Node]:
    """Yield an expression and all below it."""
    yield node
    for child in children(node):
        yield from expressions(child)
