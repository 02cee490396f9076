"""The page of columns: the columns of each output, with their Parquet types."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.config.settings import NIGHTLY_MARGIN, cash_flow_age, max_ages
from nightscreen.operations.bvn_table import BVNS
from nightscreen.operations.loans import LOANS, OFFERS
from nightscreen.operations.pulled_records import load_fields
from nightscreen.report.calls import CALLS
from nightscreen.results.backtest import SHADOW_COLUMNS
from nightscreen.results.decision_list import list_schema
from nightscreen.results.enriched import enriched_schema
from nightscreen.results.notices import NOTICE_COLUMNS
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.consented import PulledKind
from nightscreen.schemas.decisions import CHANGES
from nightscreen.schemas.enriched import CASHFLOW_SCHEMA
from nightscreen.schemas.rows import SourceColumn
from tests.docs.pages import code, meaning, page, table

CHECKED = {
    column.name: column.meaning for check in CHECKS.values() for column in check.every_column
}
"""The declared meanings of the columns of checks."""


def schemas() -> dict[str, tuple[str, pa.Schema]]:
    """Return each output's title and schema, by the group of its meanings."""
    every = [SourceColumn(name, name, name) for name in KNOWN_COLUMNS]
    return {
        "enriched": ("`enriched/part-*.parquet`", enriched_schema(every, merged=True)),
        "decisions": ("`decisions.csv` and `decisions.xlsx`", list_schema()),
        "notices": (
            "`notices.csv`",
            pa.schema([pa.field(name, pa.string()) for name in NOTICE_COLUMNS]),
        ),
        "shadow": (
            "`shadow.csv`",
            pa.schema([pa.field(name, pa.string()) for name in SHADOW_COLUMNS]),
        ),
        "changes": ("`changes.parquet`", CHANGES),
        "calls": ("`calls.parquet`", CALLS),
        "offers": ("`offers.parquet` and `offers.csv`", OFFERS.schema),
        "loans": ("`loans.parquet`", LOANS.schema),
        "bvn": ("`bvn/part-*.parquet`", BVNS),
        **{
            kind.folder: (f"`{kind.folder}/pulled_on=DATE/*.parquet`", load_fields(kind).schema)
            for kind in PulledKind
        },
        "cashflow": ("`cashflow.parquet`", CASHFLOW_SCHEMA),
    }


_NOTES = {
    "enriched": "Your file's columns come first, in its order; the known ones are listed here. "
    "Every other column is copied as text; one with the name of an output column is renamed "
    "`input_<name>`. Identifiers are not masked.",
    "decisions": "Types are those of the workbook. The CSV is text: read it as text "
    "([in pandas](../analyse.md#the-decision-list)).",
    "notices": "All columns are text. The only identifier is the customer's id.",
    "shadow": "Only with a shadow policy. Customers' ids are not masked.",
    "changes": "It contains no identifiers.",
    "calls": "It contains no identifiers.",
    "offers": "Names, contacts and links are not masked.",
    "loans": "Customers' ids and references are not masked.",
    "bvn": "Identifiers are not masked, and present only while consent is valid.",
    "transactions": "Account numbers are not masked.",
    "accounts": "Account numbers and names are not masked.",
    "profiles": "Names and contacts are not masked.",
    "cashflow": "Customers' ids are not masked; accounts are shown by their last four digits. "
    "[Cash flow](../cash-flow.md) describes how each figure is calculated.",
}


def columns_page() -> str:
    intro = [
        "Money is exact decimal naira, never a binary fraction. Instants are UTC to microseconds;",
        "dates are dates. Values from a fixed set are *categories* (dictionary-encoded). To open",
        "the files, see [In pandas and DuckDB](../analyse.md).",
        "",
    ]
    return page("Columns", intro, *map(_section, schemas()), _ages())


def _section(group: str) -> Iterator[str]:
    title, schema = schemas()[group]
    yield f"## {title}"
    yield ""
    yield _NOTES[group]
    yield ""
    yield from table(
        ("column", "type", "meaning"),
        ((code(each.name), type_words(each.type), _meaning(group, each)) for each in schema),
    )


def _meaning(group: str, column: pa.Field[pa.DataType]) -> str:
    declared = CHECKED.get(column.name) if group == "enriched" else None
    says = str(meaning(group, column.name)) if declared is None else declared
    if not (pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)):
        return says
    return f"{says} Each has " + ", ".join(code(each.name) for each in column.type.value_type) + "."


def type_words(kind: pa.DataType) -> str:
    """Return the name of a type in plain words."""
    if pa.types.is_dictionary(kind):
        return "category"
    if pa.types.is_decimal(kind):
        return f"decimal, {kind.scale} places"
    if pa.types.is_timestamp(kind):
        return "instant, UTC"
    if pa.types.is_list(kind):
        inner = kind.value_type
        return "list of records" if pa.types.is_struct(inner) else f"list of {type_words(inner)}"
    words = {"string": "text", "date32[day]": "date", "bool": "yes or no", "double": "number"}
    return words.get(str(kind), "whole number")


def _ages() -> Iterator[str]:
    yield "## How long an answer is fresh"
    yield ""
    yield f"For nightly runs, each age is shortened by {NIGHTLY_MARGIN.seconds // 3600} hours."
    yield ""
    ages = {purpose: max_ages(purpose, {}) for purpose in Purpose}
    yield from table(
        ("check", "answer", "days at origination", "days in a portfolio"),
        (
            (
                code(check),
                code(outcome),
                *(
                    str((ages[purpose][check, outcome] + NIGHTLY_MARGIN).days)
                    for purpose in (Purpose.ORIGINATION, Purpose.PORTFOLIO)
                ),
            )
            for check, outcome in ages[Purpose.PORTFOLIO]
        ),
    )
    days = [
        (cash_flow_age(purpose, {}) + NIGHTLY_MARGIN).days
        for purpose in (Purpose.ORIGINATION, Purpose.PORTFOLIO)
    ]
    yield ""
    yield f"Cash-flow figures (`cash_flow.pulled`): {days[0]} days at origination,"
    yield f"{days[1]} in a portfolio."
