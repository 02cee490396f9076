"""The page of coverage has no gap, names nothing that is gone, and is what the code makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.client import aggregator, loans, wire
from nightscreen.client.aggregator import SCOPE_OF, Scope
from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.openapi import document
from nightscreen.schemas.answers import Record
from nightscreen.schemas.checks import Operation
from tests.coverage.page import PAGE, builder_of, page, route_of
from tests.coverage.references import (
    columns,
    commands,
    is_there,
    routes,
    rules,
    switches,
    test_is_there,
)
from tests.coverage.table import Part, Row, load
from tests.examples import load as load_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = load()
ROWS = [row for part in PARTS for row in part.row]
TABLES = [table for part in PARTS for table in part.record]
EXAMPLES = {one.name: one for one in load_examples()}
FILES = {one.file for one in EXAMPLES.values()}
DOCUMENT: dict[str, Any] = document()


def test_the_page_is_what_it_would_be() -> None:
    """The page that is kept is the one that table and code make."""
    kept = PAGE.read_text("utf-8")
    assert kept == page(), "docs/coverage.md is old: run python -m tests.coverage.write"


def test_all_nine_parts_are_there() -> None:
    """Every part of the specification has its file, in order."""
    assert [part.number for part in PARTS][:9] == list(range(1, 10))
    assert all(part.row for part in PARTS)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.title)
def test_everything_named_is_there(part: Part) -> None:
    """Functions, fields, settings, rules, routes, tests and exchanges named still exist."""
    gone = [
        f"{row.item}: {reference}"
        for row in part.row
        for reference in (*row.code, *row.change)
        if not is_there(reference)
    ]
    gone += [
        f"{entry.item}: {node}"
        for entry in (*part.row, *part.record)
        for node in entry.tests
        if not test_is_there(node)
    ]
    gone += [
        f"{row.item}: exchange {name}"
        for row in part.row
        for name in row.examples
        if name not in FILES
    ]
    assert not gone


def test_no_two_items_are_one() -> None:
    """Within an area an item stands once."""
    items = [(entry.area, entry.item) for entry in (*ROWS, *TABLES)]
    assert len(items) == len(set(items))


def test_a_gap_is_refused() -> None:
    """An item without code, without a test, or without the place to change it, is no item."""
    whole = {
        "area": "B",
        "item": "An item",
        "code": ["nightscreen.client.wire:karma"],
        "tests": ["a::b"],
    }
    assert Row.model_validate(whole)
    for wrong in (
        {**whole, "code": []},
        {**whole, "tests": []},
        {**whole, "assume": "something"},
        {**whole, "people": "somebody"},
    ):
        with pytest.raises(ValueError, match="An item"):
            Row.model_validate(wrong)


def test_what_is_gone_is_noticed() -> None:
    """A name that nothing has any more is found out, whatever it names."""
    for gone in (
        *(
            "nightscreen.client.wire:karmas",
            "nightscreen.client.wires",
            "nightscreen.schemas.bvn:BvnState.LOST",
            "setting:API_KEYS",
        ),
        *("rule:key refused twice", "switch:karma", "route:GET /v2/loans", "command:bvn"),
        *("column:karma", "file:data/none.toml", "magic:nothing", "what:ever"),
        "nightscreen.schemas.answers:KarmaListing.fingerprint",
    ):
        assert not is_there(gone), gone
    assert not test_is_there("client/test_wire.py::test_nothing_at_all")
    assert not test_is_there("client/test_nothing.py::test_nothing")


def test_every_operation_is_built_asked_and_priced() -> None:
    """Each operation has one builder, a route of the sandbox that only it or its twin has."""
    met: dict[str, set[str]] = {}
    for operation in Operation:
        assert is_there(builder_of(operation))
        for one in EXAMPLES.values():
            if one.operation == operation and one.ours and not one.address:
                met.setdefault(route_of(one), set()).add(operation.value)
    assert set(met) == set(routes())
    twins = {"aggregator_exchange", "aggregator_refresh"}
    assert all(len(each) == 1 or each == twins for each in met.values())


def test_every_builder_route_rule_and_switch_is_in_the_table() -> None:
    """Nothing of client and sandbox that concerns the specification is left out of it."""
    named = {reference for row in ROWS for reference in (*row.code, *row.change)}
    held = {reference for row in ROWS for reference in row.code}
    missing = {f"route:{route}" for route in routes()} - held
    missing |= {f"switch:{name}" for name in switches()} - held
    missing |= {f"rule:{name}" for name in rules()} - named
    missing |= {builder_of(operation) for operation in Operation} - named
    assert not missing


def test_every_exchange_is_in_the_table() -> None:
    """No file of `tests/exchanges/` stands there without an item."""
    named = {name for row in ROWS for name in row.examples} | {each.example for each in TABLES}
    assert named == FILES


def test_every_record_and_field_is_in_the_table() -> None:
    """Each record has its table, and each of its fields stands in it once."""
    tables = {table.record(): table for table in TABLES}
    assert set(tables) == set(_records(Record))
    for record in _records(Record):
        table = tables[record]
        ours = list(table.fields.values())
        assert len(ours) == len(set(ours))
        assert set(table.beyond) <= set(ours)
        assert set(ours) == record.specified, table.item


def test_fields_reach_sandbox_exchange_and_output() -> None:
    """Each field is in the sandbox's document, in an exchange, and in the column it has."""
    for table in TABLES:
        body = EXAMPLES[table.example].response["body"]
        schema = DOCUMENT["components"]["schemas"][table.openapi]
        for theirs, ours in table.fields.items():
            path = ".".join(filter(None, (table.at, theirs)))
            assert has_path(body, path), (table.item, path)
            assert is_described(schema, path), (table.item, path)
            column = table.column_of(ours)
            assert not column or column in columns(), (table.item, column)


def test_scopes_are_those_of_the_sandbox() -> None:
    """Client and sandbox know the same ten scopes, and each opens one operation."""
    assert {scope.value for scope in Scope} == set(SCOPES)
    assert set(SCOPE_OF.values()) == set(Scope)
    assert len(SCOPE_OF) == len(Scope) == 10


def test_every_path_bears_the_version() -> None:
    """No request of ours goes anywhere but beneath the version."""
    assert {each.partition("/v2/")[0] for each in (wire.VERIFICATION, aggregator.AGGREGATOR)} == {
        ""
    }
    assert loans.LOANS.startswith("/v2/")
    assert all(one.request["path"].startswith("/v2/") for one in EXAMPLES.values())


def test_commands_that_are_named_are_all_that_speak_to_the_service() -> None:
    """Every command that asks the service something is in the table."""
    named = {reference for row in ROWS for reference in row.code if reference.startswith("command")}
    pulls = ("transactions ", "accounts ")
    asking = ("screen", "bvn ", "consent link", "consent redeem", *pulls, "loans ")
    speak = {f"command:{each}" for each in commands() if each.startswith(asking)}
    assert speak == named


def _records(kind: type[Record]) -> Iterator[type[Record]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("nightscreen.schemas."):
            yield each
        yield from _records(each)


def has_path(value: object, path: str) -> bool:
    """Return whether a document has a value at a path; `[]` is the first item of a list."""
    head, _, rest = path.partition(".")
    name = head.removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return False
    found = value[name]
    if head.endswith("[]"):
        if not isinstance(found, list) or not found:
            return False
        found = found[0]
    return not rest or has_path(found, rest)


def is_described(schema: dict[str, Any], path: str) -> bool:
    """Return whether a schema of the sandbox's document describes a path."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return is_described(DOCUMENT["components"]["schemas"][name], path)
    if "anyOf" in schema:
        return any(is_described(each, path) for each in schema["anyOf"])
    if not path:
        return True
    head, _, rest = path.partition(".")
    if head == "[]":
        return "items" in schema and is_described(schema["items"], rest)
    name = head.removesuffix("[]")
    below = schema.get("properties", {}).get(name)
    if below is None:
        return False
    return is_described(below, f"[].{rest}".rstrip(".") if head.endswith("[]") else rest)
