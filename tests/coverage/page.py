"""Writing of the page `docs/coverage.md`, from the table and from the code.

What is in the table is written as it is; operations, scopes, rules of reading, the sandbox's
switches and the columns of the output are taken from the code, so that none can be left out.
"""

from __future__ import annotations

import ast
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, get_args, get_type_hints

from nightscreen.client.aggregator import SCOPE_OF
from nightscreen.client.classify import Break, Classifier, Exchange
from nightscreen.client.prices import load_prices
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.wire import Request
from nightscreen.schemas.checks import HITS, Check, Operation, family_of
from nightscreen.schemas.enriched import BVN_FIELDS, CHECK_FIELDS
from nightscreen.schemas.money import from_micro
from tests.coverage.references import ROOT, routes, rules, shown, switches
from tests.coverage.table import load as load_parts
from tests.examples import MARKS, Example
from tests.examples import load as load_examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.coverage.table import FieldTable, Part, Row

PAGE = ROOT / "docs" / "coverage.md"
BUILDERS = ("nightscreen.client.wire", "nightscreen.client.aggregator", "nightscreen.client.loans")
HEAD = """# Coverage of the specification

Each item of the service's specification, part by part: where it lives in the code, and which test
holds it. Where the specification says that something is not shown, what we take to be so stands
there with the place to change it.

This page is generated: `python -m tests.coverage.write` writes it from the table in
`tests/coverage/table/` and from the code itself. `tests/coverage/test_coverage.py` fails where a
name of the table is gone, where an operation, a field, a scope, a rule of reading, a route or a
switch of the sandbox is missing from it, and where this page is not what it would be. Tests are
named from `tests/` on; a *rule* is a line of `data/manners.toml`, a *setting* stands in `.env`, a
*switch* is one of the sandbox's manners, an *exchange* a file of `tests/exchanges/`.
"""
KINDS = {
    str: "text",
    Decimal: "exact number",
    int: "whole number",
    bool: "yes or no",
    date: "day",
    datetime: "instant, UTC",
}
PARTS = 9
"""Parts of the specification; what follows them was seen on the wire."""


def page() -> str:
    """Return the page."""
    parts, examples = load_parts(), load_examples()
    sections = [
        HEAD,
        _counts(parts, examples),
        _operations(examples),
        _scopes(),
        *(_part(part) for part in parts),
        _rules(examples, parts),
        _switches(parts),
        _columns(),
    ]
    return "\n".join(sections)


def builder_of(operation: Operation) -> str:
    """Return the function of the client that builds an operation's request."""
    for module in BUILDERS:
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
        for each in ast.parse(source).body:
            if isinstance(each, ast.FunctionDef) and _names(each, operation):
                return f"{module}:{each.name}"
    raise LookupError(f"nothing builds {operation}")


def route_of(example: Example) -> str:
    """Return the route of the sandbox that an example is asked at; empty where there is none."""
    asked = example.request["path"].split("/")
    best = ""
    for route in routes():
        method, _, path = route.partition(" ")
        parts = path.split("/")
        fits = len(parts) == len(asked) and all(
            part == here or part.startswith("{") for part, here in zip(parts, asked, strict=True)
        )
        if fits and method == example.request["method"] and (not best or "{" not in path):
            best = route
    return best


def _names(function: ast.FunctionDef, operation: Operation) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "Operation"
        and each.attr == operation.name
        for each in ast.walk(function)
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _counts(parts: Sequence[Part], examples: Sequence[Example]) -> str:
    items = sum(len(part.row) + len(part.record) for part in parts)
    fields = sum(len(table.fields) for part in parts for table in part.record)
    silent = sum(bool(row.assume) for part in parts for row in part.row)
    people = sum(bool(row.people) for part in parts for row in part.row)
    return (
        f"{items} items and {fields} fields; {silent} points on which the specification is silent; "
        f"{people} that are for people, or have nothing to call; {len(examples)} exchanges in "
        "`tests/exchanges/`.\n"
    )


def _operations(examples: Sequence[Example]) -> str:
    prices = load_prices()
    rows = []
    for operation in Operation:
        shown_by = [one for one in examples if one.operation == operation]
        marks = Counter(one.mark for one in shown_by)
        route = next(filter(None, (route_of(one) for one in shown_by if one.ours)))
        rows.append(
            (
                f"`{operation}`",
                f"`{route}`",
                f"`{builder_of(operation)}`",
                f"`{_answer(shown_by)}`",
                f"`{_family(operation)}`",
                f"{from_micro(prices[operation]).normalize():f}",
                " ".join(f"{marks[mark]} {mark}" for mark in MARKS if marks[mark]),
            )
        )
    heads = ("operation", "request", "built by", "read as", "cap and time", "naira", "exchanges")
    legend = ", ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
    return (
        f"## Operations\n\n{_table(heads, rows)}\n"
        "Cap and time are the settings `NIGHTSCREEN_MAX_IN_FLIGHT__…` and "
        f"`NIGHTSCREEN_TIMEOUT_S__…` of that name; naira is where a first quote starts; marks of "
        f"exchanges: {legend}.\n"
    )


def _answer(examples: Sequence[Example]) -> str:
    """Name the records that an operation's answers are read as."""
    found: dict[str, None] = {}
    for one in examples:
        if one.reading["outcome"] in HITS:
            answer = parse_answer(Operation(one.operation), one.answered())
            if isinstance(answer, tuple):
                found[f"list of {type(answer[0]).__name__}"] = None
            else:
                found[type(answer).__name__] = None
    return ", ".join(found)


def _family(operation: Operation) -> str:
    return family_of(operation).upper()


def _scopes() -> str:
    of_operation = {scope: operation for operation, scope in SCOPE_OF.items()}
    rows = [
        (
            f"`{scope}`",
            f"`{operation}`",
            f"`{builder_of(operation)}`",
            f"`{_sandbox_name(scope)}`",
        )
        for scope, operation in of_operation.items()
    ]
    return f"## Scopes\n\n{_table(('scope', 'operation', 'built by', 'in the sandbox'), rows)}"


def _sandbox_name(scope: str) -> str:
    wanted = f"aggregator_{scope.replace(':', '_')}"
    known = "aggregator_transactions" if scope == "transaction:list" else wanted
    if known not in routes().values():
        raise LookupError(f"the sandbox has no operation for {scope}")
    return known


def _part(part: Part) -> str:
    lived = [row for row in part.row if not row.people]
    heading = f"## {part.number}. {part.title}\n"
    if part.number > PARTS:
        heading = f"## {part.title}\n"
    blocks = [heading]
    if lived:
        rows = [(row.area, row.item, _several(map(shown, row.code)), _tests(row)) for row in lived]
        blocks.append(_table(("area", "item", "lives in", "held by"), rows))
    silent = [row for row in lived if row.assume]
    if silent:
        assumed = [
            (row.item, row.assume, _several(map(shown, row.change)), _several(_code(row.examples)))
            for row in silent
        ]
        heads = ("where the specification is silent", "assumed", "change it in", "exchanges")
        blocks.append(_table(heads, assumed))
    people = [(row.area, row.item, row.people) for row in part.row if row.people]
    if people:
        blocks.append(_table(("area", "item", "not applicable, because"), people))
    blocks += [_fields(table) for table in part.record]
    return "\n".join(blocks)


def _tests(row: Row) -> str:
    shown_by = [] if row.assume else list(row.examples)
    return _several([*_code(row.tests), *(f"exchange `{name}`" for name in shown_by)])


def _fields(table: FieldTable) -> str:
    module, _, name = table.of.partition(":")
    rows = []
    for theirs, ours in table.fields.items():
        column = table.column_of(ours)
        rows.append(
            (
                f"`{theirs}`",
                f"`{name}.{ours}`",
                _type(table.record(), ours),
                f"`{column}`" if column else "",
                "seen only" if ours in table.beyond else "specified",
            )
        )
    held = _several(_code(table.tests))
    return (
        f"### {table.item}\n\nArea {table.area}. Record `{module}:{name}`, in the sandbox "
        f"`{table.openapi}`, exchange `{table.example}`. Held by {held}.\n\n"
        + _table(("on the wire", "ours", "read as", "column of a run", ""), rows)
    )


def _type(record: type, name: str) -> str:
    """Name in a word what a field is read as."""
    annotation = get_type_hints(record)[name]
    kind = next(each for each in get_args(annotation) if each is not type(None))
    return KINDS[kind]


def _rules(examples: Sequence[Example], parts: Sequence[Part]) -> str:
    named: dict[str, list[str]] = {name: [] for name in rules()}
    for part in parts:
        for row in part.row:
            for reference in dict.fromkeys((*row.code, *row.change)):
                kind, _, name = reference.partition(":")
                if kind == "rule":
                    named[name].append(row.item)
    rows = [
        (f"`{name}`", _several(dict.fromkeys(items)), _several(_code(decided(examples, name))))
        for name, items in named.items()
    ]
    heads = ("rule of `data/manners.toml`", "item above", "exchanges it decides")
    return f"## How answers are read\n\n{_table(heads, rows)}"


def decided(examples: Sequence[Example], rule: str) -> list[str]:
    """Return the examples that a rule decides."""
    return [one.name for one in examples if _rule_of(one) == rule]


@cache
def _reader() -> Classifier:
    return Classifier()


def _rule_of(example: Example) -> str:
    """Return the rule that decides an example."""
    shown = example.request
    request = Request(
        Operation(example.operation), shown["method"], shown["path"], None, asked=_asked(example)
    )
    if example.broken:
        return _reader().read(request, Exchange(broken=Break(example.broken))).rule
    whole = Exchange(example.response["status"], example.answered())
    return _reader().read(request, whole).rule


def _asked(example: Example) -> str:
    given = example.arguments
    names = ("identity", "bvn", "account_number")
    return next((given[name] for name in names if name in given), "")


def _switches(parts: Sequence[Part]) -> str:
    rows = []
    for name in switches():
        items = [row.item for part in parts for row in part.row if f"switch:{name}" in row.code]
        rows.append((f"`{name}`", _several(items)))
    return f"## What the sandbox can do otherwise\n\n{_table(('switch', 'item above'), rows)}"


def _columns() -> str:
    rows = [
        (f"`{check}`", _several(f"`{name}`" for name, _ in CHECK_FIELDS[check])) for check in Check
    ]
    rows.append(("BVN consent", _several(f"`{name}`" for name, _ in BVN_FIELDS)))
    return f"## Columns of a run\n\n{_table(('check', 'columns of `enriched`'), rows)}"


def _code(names: Iterable[str]) -> Iterator[str]:
    return (f"`{name}`" for name in names)


def _several(words: Iterable[str]) -> str:
    return "<br>".join(words)
