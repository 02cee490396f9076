"""Parameters that runs share: spending limit, deadline, output folder.

The engine and the journal store them in plain text: paths and choices only, never rows or keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

ContactName = Literal["phone", "email"]

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""An address such as s3://bucket; `Path` may have removed one of its slashes."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a parameter is typed on the command line, if that does not follow from the field."""

    names: tuple[str, ...] = ()  # the option's names; `--field-name` if empty
    argument: str = ""  # name of the positional argument, if it is one
    help: str = ""  # replaces the field's description, which is written for the form


class RunLimits(BaseModel):
    """How much a run may spend, and until when."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    max_spend: Annotated[str, Field(pattern=r"^(\d{1,12}(\.\d{1,6})?)?$")] = Field(
        "",
        title="Spend at most (naira)",
        description="Spending limit for this run: digits only, such as 250000. Empty: none for "
        "this run; the caps of the day and month still apply.",
        examples=["250000", "99.50"],
    )
    deadline: Annotated[str, Field(pattern=r"^(\d{2}:\d{2}|\d{4}-\d{2}-\d{2}T[\d:.+Z-]+)?$")] = (
        Field(
            "",
            title="Deadline",
            description="No call is made after it: a time of day in Lagos such as 06:00, or a day "
            "and time such as 2026-03-01T06:00. Empty: none.",
            examples=["06:00"],
        )
    )

    @property
    def cap(self) -> Decimal | None:
        """Return the run's own cap in naira, if any."""
        return Decimal(self.max_spend) if self.max_spend else None


class ApiRunParameters(RunLimits):
    """Parameters of every run besides screening: pulls, BVN consents, loan offers and tracking."""

    run: str = Field(
        "",
        title="Resume run",
        description="Id of an earlier run to resume: only what is missing is done.",
        pattern=r"^[A-Za-z0-9-]*$",
    )
    output: str = Field(
        "out",
        title="Output folder",
        description="Results are written to a folder named by the run's id there.",
    )
    quote_only: bool = Field(
        default=False, title="Quote only", description="Only say what the run would cost."
    )
    yes: bool = Field(
        default=False,
        title="Spending is approved",
        description="Its spending was approved in advance: the run does not wait for it.",
    )

    @field_validator("output")
    @classmethod
    def _a_folder(cls, output: str) -> str:
        """Refuse an address: only screening runs copy their results to one."""
        if _ADDRESS.match(output):
            raise ValueError("must be a folder on this machine, not an address")
        return output
