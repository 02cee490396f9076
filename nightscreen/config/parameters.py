"""Parameters of a screening run: the form in Prefect's UI, the command's options, the reference.

The engine and the journal store them in plain text: paths and choices only, never rows or keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.api_runs import Option, RunLimits
from nightscreen.schemas.naming import refuse_identifiers, refuse_named_after_somebody

if TYPE_CHECKING:
    CheckName = str
else:
    CheckName = Literal[tuple(CHECKS)]  # checks of other packages are known only at run time
USUAL_CHECKS = [name for name, check in CHECKS.items() if check.is_default]
"""The checks of a run that names none."""
KarmaIdentity = Literal["bvn", "phone", "email", "domain", "nuban"]
PurposeName = Literal["portfolio", "origination"]

SCREEN_FLOW = "screen_batch"  # the flow of a screening run in the journal

_FORM = (
    *("input", "checks", "purpose", "max_spend", "deadline", "quote_only", "run", "batch"),
    *("karma_identities", "karma_stop_at_first", "freshness", "policy", "shadow"),
    *("mapping", "merge_rows", "date_order", "output", "yes", "workers"),
)
"""The order of the form: fields of every run first, seldom used ones last."""


def _in_order(schema: dict[str, Any]) -> None:
    """Put the fields of a form in the order of `_FORM`; other fields come first, in their order."""
    fields = schema["properties"]
    for name in _FORM:
        if name in fields:
            fields[name] = fields.pop(name)


class _Screening(RunLimits):
    """Parameters common to a screening run and the inbox."""

    model_config = ConfigDict(json_schema_extra=_in_order)

    purpose: PurposeName = Field(
        "portfolio",
        title="Purpose",
        description="portfolio: customers you have; answers are reused for longer. origination: "
        "people who apply now; answers must be newer.",
    )
    checks: list[CheckName] = Field(
        USUAL_CHECKS,
        title="Checks",
        description="The lookups for each customer. Ecosystem and selfie are asked only for "
        "customers with valid consent; selfie needs an image address.",
        min_length=1,
    )
    karma_identities: list[KarmaIdentity] = Field(
        [],
        title="Karma identities",
        description="Identities that karma is asked about; each is a separate call. None chosen: "
        "BVN; at origination BVN, phone and email.",
    )
    karma_stop_at_first: Annotated[
        bool, Option(names=("--karma-stop-at-first-listing", "--karma-stop-at-first"))
    ] = Field(
        default=False,
        title="Stop karma at the first listing",
        description="Ask a customer's karma identities one after the other, in the order above, "
        "and no further once one is listed. It saves money; further listings stay unknown.",
    )
    freshness: list[str] = Field(
        [],
        title="How old answers may be",
        description="Only if different from the settings. karma.clear=1 is a day, "
        "ecosystem.found=PT12H twelve hours.",
    )
    mapping: str = Field(
        "",
        title="Mapping file",
        description="Path of a TOML file that renames, merges or defaults columns. Empty: columns "
        "are matched by their headings alone.",
    )
    policy: str = Field(
        "",
        title="Policy file",
        description="Path of a TOML file with the rules for decisions. Empty: the policy in force, "
        "or the default one.",
    )
    merge_rows: bool = Field(
        default=False,
        title="Merge rows",
        description="The rows of one customer_id are one customer, as in a loan book with one row "
        "per loan: screened once, with the exposure of all open loans. Every row stays "
        "in the output.",
    )
    shadow: str = Field(
        "",
        title="Policy to try",
        description="Path of a second policy that is applied too, without effect: the report says "
        "which decisions would change. Empty: that of the settings, or none.",
    )

    _no_identifier = field_validator("batch", check_fields=False)(refuse_identifiers)

    @field_validator("karma_identities", mode="before")
    @classmethod
    def _no_image(cls, value: object) -> object:
        """Refuse an identity without a known transport (specification, area B, rule 5)."""
        if isinstance(value, list | tuple) and "image" in value:
            raise ValueError(
                "karma cannot be asked by image: the service does not say how an image is sent; "
                "choose among bvn, phone, email, domain and nuban"
            )
        return value


class ScreenBatch(_Screening):
    """Parameters of a screening run."""

    input: Annotated[str, Option(argument="INPUT", help="CSV, XLSX or Parquet file.")] = Field(
        "",
        title="Input file",
        description="Path of the CSV, XLSX or Parquet file on the worker's machine; of a pattern "
        "such as inbox/portfolio-*.csv the newest file. Files on your own machine: drop them into "
        "the inbox instead. Empty only if a run is resumed.",
    )
    batch: str = Field(
        "",
        title="Batch name",
        description="Runs with the same batch name are compared with each other. Empty: the "
        "file's name without its date. It is shown everywhere: no customer's name or number.",
        max_length=80,
    )
    quote_only: bool = Field(
        default=False,
        title="Quote only",
        description="Only say what the run would cost and how long it would take.",
    )
    run: Annotated[
        str, Option(help="Id of an earlier run to resume; INPUT may be left out then.")
    ] = Field(
        "",
        title="Resume run",
        description="Id of an earlier run to resume, such as 20260301-220000-a1b2c3: only "
        "what is missing is asked. Leave Input file empty then.",
        pattern=r"^[A-Za-z0-9-]*$",
    )
    date_order: Annotated[
        Literal["", "dmy", "mdy", "ymd"],
        Option(
            help="Order of numeric dates if the file does not show it: dmy is day first, mdy month "
            "first. Empty: a screening takes the last answer for the batch name."
        ),
    ] = Field(
        "",
        title="Order of dates",
        description="Of numeric dates if the file does not show it: dmy is day first, mdy month "
        "first. Empty: the last answer for this batch name.",
    )
    output: Annotated[
        str, Option(help="Where to write results: a folder, or a URL such as s3://bucket/path.")
    ] = Field(
        "out",
        title="Output folder",
        description="Results are written to a folder named by the run's id there, on the worker's "
        "machine or at a URL such as s3://bucket/path.",
    )
    workers: int = Field(
        1,
        title="Workers",
        description="Processes that make calls at the same time; above 1 each is a separate flow "
        "run on the work pool.",
        ge=1,
        le=64,
    )
    yes: bool = Field(
        default=False,
        title="Spending is approved",
        description="Unusual spending was approved in advance: the run does not wait for it.",
    )
    _no_identifier_in_name = field_validator("input")(refuse_named_after_somebody)


class WatchInbox(_Screening):
    """How files dropped into the inbox are screened, and for how long the inbox is watched."""

    minutes: int = Field(
        0,
        title="Watch for (minutes)",
        description="How long to wait for files; files that arrived by then are still screened. "
        "0: only the files that are there now.",
        ge=0,
        le=24 * 60,
    )

    def screening(self) -> dict[str, Any]:
        """Return the parameters that each file is screened with."""
        return self.model_dump(include=set(_Screening.model_fields))
