"""A finished run as data frames, for notebooks (`nightscreen.open_run`).

Identifiers are text, so that leading zeros stay; amounts are exact decimals in naira; instants are
in UTC; an absent count is `<NA>`. `docs/reference/columns.md` explains every column. `rows`,
`decisions` and `transactions` hold personal data in plain text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from nightscreen.files.quarantine import unescape_formula
from nightscreen.schemas.errors import InputError

_NAIRA = pa.decimal128(20, 2)
_LIST_TYPES = {
    "exposure": _NAIRA,
    "karma_amount": _NAIRA,
    "past_due_amount": _NAIRA,
    "running_loans": pa.int64(),
    "karma_default_date": pa.date32(),
    "evidence_as_of": pa.timestamp("us", "UTC"),
}
"""Columns of `decisions.csv` that are not text."""


@dataclass(frozen=True)
class RunResult:
    """The files of one run's folder; each is read at its first use."""

    folder: Path  # the run's folder, `OUTPUT/RUN_ID`

    @cached_property
    def report(self) -> dict[str, Any]:
        """Return `report.json`."""
        document: dict[str, Any] = json.loads(self._file("report.json").read_text("utf-8"))
        return document

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Return `enriched`: one row for each screened input row, in input order."""
        return _typed(pq.read_table(self._file("enriched")))

    @cached_property
    def decisions(self) -> pd.DataFrame:
        """Return `decisions.csv`: the list for operations, most urgent first.

        `evidence_as_of` is an instant in UTC; the guard against formulas is removed from cells.
        """
        path = self._file("decisions.csv")
        with path.open("rb") as file:
            names = pa_csv.open_csv(file).schema.names
        table = pa_csv.read_csv(
            path,
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: _LIST_TYPES.get(name, pa.string()) for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        frame = _typed(table)
        for name in names:
            if name not in _LIST_TYPES:
                frame[name] = frame[name].map(unescape_formula, na_action="ignore")
        return frame

    @cached_property
    def calls(self) -> pd.DataFrame:
        """Return `calls.parquet`: one row per call, by pseudonym."""
        return _typed(pq.read_table(self._file("calls.parquet")))

    @cached_property
    def changes(self) -> pd.DataFrame:
        """Return `changes.parquet`: what differs from each customer's last answered state."""
        return _typed(pq.read_table(self._file("changes.parquet")))

    @cached_property
    def transactions(self) -> pd.DataFrame:
        """Return the transactions that this pull wrote; for another run, all under the same OUTPUT.

        They are in `OUTPUT/transactions`; `pulled_on` is the day of the pull.
        """
        written = self.report.get("transactions", {}).get("file")
        root = self.folder.parent / "transactions"
        source = self.folder.parent / written if written else root
        if not source.exists():
            raise InputError(
                f"{root} is not there: no transactions have been pulled; "
                "pull them with: nightscreen transactions pull"
            )
        table = ds.dataset(source, partitioning="hive", partition_base_dir=str(root)).to_table()
        return _typed(table)

    def _file(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            raise InputError(
                f"{path} is not there: the run has no such file, or it was stopped before it was "
                "written; see its files in manifest.json"
            )
        return path


def open_run(folder: str | Path) -> RunResult:
    """Open a run's folder, such as `out/20260301-220000-a1b2c3`.

    Raises:
        InputError: it is not a run's folder.
    """
    path = Path(folder)
    if not (path / "report.json").is_file():
        raise InputError(
            f"{path} is no run's folder: name one that holds report.json, such as out/RUN_ID"
        )
    return RunResult(path)


def _typed(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame: dictionaries as pandas categories, other types as Arrow's."""
    frame: pd.DataFrame = table.to_pandas(
        types_mapper=lambda kind: None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)
    )
    return frame
