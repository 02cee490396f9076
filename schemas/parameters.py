"""Parameters of a screening run: what the form in the Prefect UI and the command line ask for.

They are stored in clear by the engine and the journal: paths and choices only, never rows or keys.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

CheckName = Literal["bank_account", "karma", "ecosystem", "selfie"]
KarmaIdentity = Literal["bvn", "phone", "email", "domain", "nuban"]
PurposeName = Literal["portfolio", "origination"]

_DATE_IN_NAME = re.compile(r"[-_. ]*\d{4}[-_.]?\d{2}[-_.]?\d{2}([-_.T ]?\d{4,6})?[-_. ]*")


class ScreenBatch(BaseModel):
    """What to screen, how far to go and what it may cost."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    input: str = Field(
        "",
        title="Input file",
        description="Path of the CSV, XLSX, Parquet or JSON Lines file on the worker's machine; of "
        "a pattern such as inbox/portfolio-*.csv the newest file. May be left out where an earlier "
        "run is resumed.",
    )
    batch: str = Field(
        "",
        title="Batch name",
        description="Nights of the same batch name are compared with each other. "
        "Default: the file's name without a date.",
        max_length=80,
    )
    purpose: PurposeName = Field(
        "portfolio",
        title="Purpose",
        description="Portfolio reuses answers for longer; origination asks applicants afresh.",
    )
    checks: list[CheckName] = Field(
        ["bank_account", "karma", "ecosystem"],
        title="Checks",
        description="Ecosystem and selfie are asked only for customers with valid consent.",
        min_length=1,
    )
    karma_identities: list[KarmaIdentity] = Field(
        [],
        title="Karma identities",
        description="What the karma blacklist is asked by. Default: BVN; at origination BVN, "
        "phone and email.",
    )
    karma_stop_at_first: bool = Field(
        default=False,
        title="Stop karma at the first listing",
        description="Ask a customer's karma identities one after the other, in the order above, "
        "and no further once one is listed. It saves money; further listings stay unknown.",
    )
    freshness: list[str] = Field(
        [],
        title="Freshness",
        description="How old an answer may be in this run where it is not as in the settings: "
        "karma.clear=1 is a day, ecosystem.found=PT12H twelve hours.",
    )
    mapping: str = Field(
        "", title="Mapping file", description="TOML file that renames, merges or defaults columns."
    )
    policy: str = Field(
        "", title="Policy file", description="TOML file with the rules; default: the built-in one."
    )
    max_spend: Annotated[str, Field(pattern=r"^(\d{1,12}(\.\d{1,6})?)?$")] = Field(
        "",
        title="Spend at most (naira)",
        description="The run never passes it. Empty: no cap of its own.",
        examples=["250000", "99.50"],
    )
    deadline: Annotated[str, Field(pattern=r"^(\d{2}:\d{2}|\d{4}-\d{2}-\d{2}T[\d:.+Z-]+)?$")] = (
        Field(
            "",
            title="Deadline",
            description="Nothing is asked after it: a time of day in Lagos such as 06:00, or an "
            "ISO instant.",
            examples=["06:00"],
        )
    )
    quote_only: bool = Field(
        default=False, title="Quote only", description="Say what it would cost, and stop there."
    )
    run: str = Field(
        "",
        title="Resume run",
        description="Id of an earlier run to take up again: only what is missing is asked.",
        pattern=r"^[A-Za-z0-9-]*$",
    )
    output: str = Field(
        "out", title="Output folder", description="Results go into a folder of the run's id there."
    )
    yes: bool = Field(
        default=False, title="Approved", description="Spending was approved beforehand: do not ask."
    )

    @field_validator("karma_identities", mode="before")
    @classmethod
    def _no_image(cls, given: object) -> object:
        """Refuse an identity without a known transport (specification, area B, rule 5)."""
        if isinstance(given, list | tuple) and "image" in given:
            raise ValueError(
                "karma cannot be asked by image: the service does not say how an image is sent; "
                "choose among bvn, phone, email, domain and nuban"
            )
        return given

    @property
    def cap(self) -> Decimal | None:
        """Return the run's own cap in naira."""
        return Decimal(self.max_spend) if self.max_spend else None


def batch_name(path: Path) -> str:
    """Return a file's stem without a date, so that each night's file belongs to one batch."""
    bare = _DATE_IN_NAME.sub("-", path.name.split(".")[0]).strip("-_ ")
    return bare or path.stem


def new_run_id(at: datetime, salt: str) -> str:
    """Return an id that sorts by time and says nothing of any person."""
    return f"{at:%Y%m%d-%H%M%S}-{salt}"
