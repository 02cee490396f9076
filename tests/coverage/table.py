"""The table behind the page: one file for each part of the specification, read and checked.

The files name things and tests; whether those are there is found out in `references`.
"""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

FOLDER = Path(__file__).parent / "table"

Area = Literal["A", "B", "C", "all"]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    area: Area
    item: str = Field(min_length=3)
    tests: tuple[str, ...] = ()


class Row(_Entry):
    """One item of the specification.

    Attributes:
        area: area of the specification.
        item: what it is, in our own words.
        code: where it lives.
        tests: what holds it, as `folder/test_file.py::test_name`.
        examples: exchanges of `tests/exchanges/` that show it.
        assume: where the specification is silent, what we take to be so.
        change: where that can be changed.
        people: why no code is due: people do it, or there is nothing to call.
    """

    code: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    assume: str = ""
    change: tuple[str, ...] = ()
    people: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> Row:
        if self.people and (self.code or self.tests):
            raise ValueError(f"{self.item}: either code and tests, or why there are none")
        if not self.people and not (self.code and self.tests):
            raise ValueError(f"{self.item}: a gap; name the code and a test")
        if bool(self.assume) != bool(self.change):
            raise ValueError(f"{self.item}: what is assumed needs the place to change it")
        return self


class FieldTable(_Entry):
    """The fields of one record of the specification.

    Attributes:
        of: our record, as `module:Class`.
        openapi: the answer's name in the sandbox's document.
        at: where in an answer the record lies; `[]` is an item of a list.
        example: an exchange that has it.
        fields: the name of each field on the wire, and ours.
        beyond: those of ours that the specification does not show.
        columns: column of the enriched rows that a field of ours reaches.
        columns_prefix: where each field has a column of its own, what its name begins with.
        tests: what holds it.
    """

    of: str
    openapi: str
    at: str
    example: str
    fields: dict[str, str]
    beyond: tuple[str, ...] = ()
    columns: dict[str, str] = Field(default_factory=dict)
    columns_prefix: str = ""
    tests: tuple[str, ...] = Field(min_length=1)

    def record(self) -> type:
        """Import our record."""
        module, _, name = self.of.partition(":")
        found: type = getattr(importlib.import_module(module), name)
        return found

    def column_of(self, ours: str) -> str:
        """Return the column that a field reaches; empty where it reaches none."""
        if self.columns_prefix:
            return self.columns_prefix + ours
        return self.columns.get(ours, "")


class Part(BaseModel):
    """One part of the specification."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    title: str
    row: tuple[Row, ...]
    record: tuple[FieldTable, ...] = ()


def load() -> tuple[Part, ...]:
    """Read every part, in order."""
    parts = (
        Part(number=int(path.stem.partition("_")[0]), **tomllib.loads(path.read_text("utf-8")))
        for path in FOLDER.glob("*.toml")
    )
    return tuple(sorted(parts, key=lambda part: part.number))
