"""Both stages of BVN consent in a test, without Prefect, against a sandbox in the same process.

There are no sockets. Customers read their passwords from the sandbox.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.journal import open_journal
from nightscreen.operations.bvn import (
    BvnConfirmations,
    BvnRequests,
    LinkView,
    accept_otp,
    resolve_link,
)
from nightscreen.operations.person_run import PersonRun
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from tests.screening import CONSENT, World, csv_rows, customer


def asked(number: int, **changes: str) -> dict[str, str]:
    """Return a fictional customer who consented, with data to compare with a BVN record."""
    person = person_of_bvn(f"22{number:09d}")
    return {
        **customer(number),
        "phone": person.phone,
        "date_of_birth": person.date_of_birth.isoformat(),
        **CONSENT,
        **changes,
    }


@dataclass(frozen=True)
class BvnResult:
    """The folder and the report of a run."""

    folder: Path
    report: dict[str, Any]

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        parts = sorted((self.folder / "bvn").glob("part-*.parquet"))
        table = pa.concat_tables([pq.read_table(part) for part in parts])
        return {row["customer_id"]: row for row in table.to_pylist()}

    @property
    def problems(self) -> list[tuple[str, str]]:
        return [(row["line"], row["code"]) for row in csv_rows(self.folder / "problems.csv")]

    @property
    def states(self) -> dict[str, int]:
        states: dict[str, int] = self.report["states"]
        return states


@dataclass
class BvnWorld(World):
    """A world for requests and confirmations of BVN consent."""

    def __post_init__(self) -> None:
        """Allow many calls at a time."""
        self.settings = {"max_in_flight": {"bvn": 16}, **self.settings}

    def request(
        self,
        rows: Sequence[Mapping[str, str]] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> BvnResult:
        if rows is not None:
            options["input"] = str(self.write(rows))
        return self._run(BvnRequests, RequestBvns(**{"output": self.out, **options}))

    def confirm(self, otps: Mapping[str, str] | Path, **options: Any) -> BvnResult:  # noqa: ANN401
        """Confirm with passwords, passed by customer or as a file."""
        path = otps if isinstance(otps, Path) else self.write_otps(otps)
        parameters = ConfirmBvns(**{"output": self.out, "input": str(path), **options})
        return self._run(BvnConfirmations, parameters)

    def _run(self, kind: type[PersonRun[Any, Any]], parameters: Any) -> BvnResult:  # noqa: ANN401 - the kind's own
        report = self.run_persons(kind, parameters)
        return BvnResult(self.folder / "out" / report["run_id"], report)

    def write_otps(self, otps: Mapping[str, str], name: str = "otps.csv") -> Path:
        path = self.folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("customer_id", "otp"), *otps.items()])
        return path

    def otp(self, row: Mapping[str, str]) -> str | None:
        """Return the password that a customer was sent; None if there is none."""
        sent = self.sandbox.otps.as_json(self.sandbox.now(), row["bvn"])
        return sent[0]["otp"] if sent else None

    def type_otp(self, link: str, otp: str) -> LinkView:
        arguments = (self.read_settings(), link.rpartition("/")[2], otp)
        return asyncio.run(accept_otp(*arguments, clock=self.clock, transport=self.transport()))

    def look(self, link: str) -> LinkView:
        with open_journal(self.folder / "home", clock=self.clock) as journal:
            return resolve_link(journal, self.read_settings(), link.rpartition("/")[2])
