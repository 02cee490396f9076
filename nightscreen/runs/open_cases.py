"""Publishing a run opens a case for each customer whom the policy does not approve.

A held run is published once somebody releases it.

Cases are records of the journal, so that the work list over all batches is one query. A run
replaces the cases of its customers and ends those of customers who are gone. A customer on whom a
person has decided gets no case until the evidence changes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import MANIFEST, NOTICES_FILE, REPORT, enriched_parts
from nightscreen.files.run_folder import RunFolder
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.actor import RELEASE
from nightscreen.journal.cases import Cases
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.report.anomaly_check import HELD, RELEASED
from nightscreen.report.facts import GROUPS, group_columns
from nightscreen.report.page import report_page
from nightscreen.results.enriched import columns_of_parts, read_customers
from nightscreen.results.final_decision import standing_reviews
from nightscreen.results.notices import rewrite_notices
from nightscreen.results.wording import NAMES
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.decisions import LISTED
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import NAIRA
from nightscreen.values.issues import first_present, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.config.declarations import Declarations
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord

_BLOCK_ROWS = 8_192
_RUNS_SEARCHED = 60
"""The newest runs of a batch among which runs newer than a released one are searched."""
_LISTED = pa.array([word.value for word in LISTED])
_STATUSES = tuple(declared.status for declared in CHECKS.values())
CLAIMED: Final = "karma_amount_in_contention"
CUSTOMERS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("customer_id", "decision", "policy", *_STATUSES)),
        *((name, pa.string()) for name in ("name", *GROUPS, "account_last4")),
        ("reasons", pa.list_(pa.string())),
        ("exposure", NAIRA),
        (CLAIMED, NAIRA),
        ("place", pa.int64()),
    ]
)
"""The columns of a run's customers in lists; `place` is the row's number in the run, from 1."""


def publish_cases(journal: Journal, run: RunRecord, folder: Path) -> None:
    """Open a case for each customer of a publishable run on whom a person must decide.

    If a held run is released late, customers of newer runs keep the cases of those runs.
    """
    store = Records(journal, OpenCase)
    existing = store.keys(batch=run.batch)
    settled, newer = standing_reviews(journal, run.batch), _newer(journal, run)
    now = journal.clock()
    ended = existing & {key.hex() for key in Customers(journal).gone(run.batch)}
    for rows in customers_of(folder):
        keys = np.array(_keys(journal, run, rows), dtype=object)
        needs = np.array([key not in newer and key not in settled for key in keys], dtype=bool)
        needs &= pc.is_in(rows["decision"], value_set=_LISTED).to_numpy()
        some = zip(keys[needs], rows.filter(pa.array(needs)).to_pylist(), strict=True)
        cases = [_case(run, key, row, now) for key, row in some]
        store.merge(cases, lambda before, case: case.held_as(before), now)
        if existing:
            others = {key.hex() for key in keys[~needs] if key not in newer}
            ended |= others & existing
    Cases(journal).settle([bytes.fromhex(key) for key in ended])


def _keys(journal: Journal, run: RunRecord, rows: pa.Table) -> list[bytes]:
    return pieces_of(journal.pseudonyms.customers(run.batch, rows["customer_id"].to_pylist()))


def customers_of(folder: Path) -> Iterator[pa.Table]:
    """Yield a run's customers in blocks with the columns `CUSTOMERS`, in the run's order."""
    place, parts = 1, enriched_parts(folder)
    groups = group_columns(columns_of_parts(parts))
    wanted = {*CUSTOMERS.names, "full_name", *NAMES, "account_number", *groups.values()}
    for block in read_customers(parts, wanted, _BLOCK_ROWS):
        values = dict(zip(block.column_names, block.columns, strict=True))
        values |= {group: values[name] for group, name in groups.items()}
        no_text = pa.nulls(block.num_rows, pa.string())
        full_name, *names = (
            values.get(name, no_text).cast(pa.string()) for name in ("full_name", *NAMES)
        )
        values["name"] = first_present([full_name, joined(names, " ")])
        if (account := values.get("account_number")) is not None:
            is_whole = pc.match_substring_regex(account, "^[0-9]{10}$")
            last = pc.utf8_slice_codeunits(account, 6)
            values["account_last4"] = pc.if_else(is_whole, last, None)
        values["place"] = pa.array(range(place, place + block.num_rows))
        place += block.num_rows
        columns = [_column(values.get(each.name), each, block) for each in CUSTOMERS]
        yield pa.table(columns, CUSTOMERS)


def _column(values: pa.ChunkedArray | None, field: pa.Field, block: pa.Table) -> pa.ChunkedArray:
    """Return a column of a list; null if the file lacks it or its cell is empty."""
    if values is None:
        return pa.nulls(block.num_rows, field.type)
    column = values.cast(field.type)
    if field.name not in {"name", *GROUPS}:
        return column
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, field.type), column)


def _case(run: RunRecord, key: bytes, row: dict[str, Any], now: int) -> OpenCase:
    return OpenCase(
        key=key.hex(),
        customer=key,
        batch=run.batch,
        run_id=run.run_id,
        at=now,
        customer_id=row["customer_id"],
        name=row["name"],
        decision=row["decision"],
        reasons=tuple(row["reasons"] or ()),
        policy=row["policy"],
        purpose=run.purpose or "",
        branch=row["branch"],
        officer=row["officer"],
        account_last4=row["account_last4"],
        exposure=row["exposure"],
        claimed=row[CLAIMED],
        statuses={name: row[name] for name in _STATUSES},
        place=row["place"],
    )


def _newer(journal: Journal, run: RunRecord) -> set[bytes]:
    """Return the customers of the batch's publishable runs that started after a run."""
    customers = set[bytes]()
    for other in journal.runs.newest(batch=run.batch, limit=_RUNS_SEARCHED):
        if other.started_at > run.started_at and (other.report or {}).get("publishable"):
            for rows in customers_of(Path(other.folder)):
                customers.update(_keys(journal, run, rows))
    return customers


# --- of a held run ---


def release(
    journal: Journal, actor: Actor, run_id: str, reason: str, declared: Declarations
) -> dict[str, Any]:
    """Release a held run in journal, report, page and manifest; return the report.

    Its cases are opened and its notices written, which a held run does not have.

    The reason is stored unencrypted, so it must not contain personal data.

    Raises:
        NotAllowedError: the actor may not release it.
        InputError: there is no such run, it is not held, or the reason is blank.
    """
    actor.require(journal, RELEASE, run_id=run_id)
    run = journal.runs.get(run_id)
    if not reason.strip():
        raise InputError("say why the run may be published, with --reason")
    report = run.report or {}
    if not report.get(HELD) or report.get(RELEASED):
        raise InputError(
            f"run {run_id} is not held: nothing about it was implausible, or it was released before"
        )
    at = instant_text(journal.clock())
    released = {"at": at, "reason": reason.strip()}
    report = {**report, "publishable": report["state"] == "completed", RELEASED: released}
    folder = RunFolder(Path(run.folder))
    if report["publishable"]:
        publish_cases(journal, run, folder.path)
        if enriched_parts(folder.path):
            released_run = replace(run, _report=json.dumps(report))
            counts = rewrite_notices(journal, released_run, declared)
            files = {**report["files"], NOTICES_FILE: counts["to_send"]}
            report |= {"customer_notices": counts, "files": files}
    if (folder.path / REPORT).exists():
        folder.write_json(REPORT, report)
        folder.write_text("report.html", report_page(report))
        if (folder.path / MANIFEST).exists():
            manifest = json.loads((folder.path / MANIFEST).read_text("utf-8"))
            fresh = folder.files()
            manifest["files"] |= {name: fresh[name] for name in (REPORT, "report.html")}
            manifest["publishable"] = report["publishable"]
            folder.write_json(MANIFEST, manifest)
            folder.publish()
    journal.runs.keep_report(run_id, report)
    actor.note(journal, "run released", run_id=run_id, reason=reason.strip())
    return report
