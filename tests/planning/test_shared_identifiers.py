"""Signals of a batch: who shares what, counted as the plain rule says, in any portions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.files.frame import Frame
from nightscreen.files.sealed_file import Workspace
from nightscreen.files.sealing import Pseudonyms, Sealer
from nightscreen.journal import open_journal
from nightscreen.journal.customers import BLOCK, Sightings
from nightscreen.planning.customers import gather_customers, planning_queries
from nightscreen.planning.shared_identifiers import (
    COUNTED,
    count_shared,
    keep_sightings,
    signals,
)
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import row_schema
from tests.how_many import examples

KEY = Pseudonyms(b"k" * 32)
some = st.sampled_from([None, "1", "2", "3"])
rows_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "bvn": some,
            "bank_code": st.sampled_from([None, "058", "044"]),
            "account_number": some,
            "phone": some,
            "image_url": some,
            "flaws": st.sampled_from([0, int(Flaw.BVN), int(Flaw.ACCOUNT), int(Flaw.PHONE)]),
        }
    ),
    max_size=30,
)


def table(rows: list[dict[str, Any]], first: int = 0) -> pa.Table:
    """Return rows in the shape of intake, each of a customer of its own."""
    whole = [
        {"flaws": 0, "line": number + 2, "customer_id": f"C{number}", **row}
        for number, row in enumerate(rows, first)
    ]
    return pa.Table.from_pylist(whole, schema=row_schema())


def plainly(rows: list[dict[str, Any]]) -> list[dict[str, int | None]]:
    """Return the signals of each row by the rule as it is said."""

    def sound(row: dict[str, Any], name: str, flaw: Flaw) -> str | None:
        value: str | None = row[name]
        return None if row["flaws"] & flaw else value

    def account(row: dict[str, Any]) -> object:
        named = sound(row, "account_number", Flaw.ACCOUNT)
        return None if None in (named, row["bank_code"]) else (row["bank_code"], named)

    keys: dict[str, list[Any]] = {
        "batch_same_bvn": [sound(row, "bvn", Flaw.BVN) for row in rows],
        "batch_same_account": [account(row) for row in rows],
        "batch_same_phone": [sound(row, "phone", Flaw.PHONE) for row in rows],
        "batch_same_image": [sound(row, "image_url", Flaw.IMAGE) for row in rows],
    }
    found: list[dict[str, int | None]] = [{} for _ in rows]
    for name, values in keys.items():
        counts = Counter(values)
        for place, value in enumerate(values):
            found[place][name] = None if value is None else counts[value] - 1
    pairs = set(zip(keys["batch_same_account"], keys["batch_same_bvn"], strict=True))
    for place, value in enumerate(keys["batch_same_account"]):
        bvns = [bvn for one, bvn in pairs if one == value and bvn is not None]
        found[place]["batch_account_bvns"] = None if value is None else len(bvns)
    return found


def gathered(frame: Frame, chunks: list[pa.Table]) -> tuple[int, ...]:
    """Put chunks of rows into a frame, with every kind of identifier."""
    return gather_customers(frame, chunks, KEY, kinds=COUNTED)


def shared(chunks: list[pa.Table]) -> list[pa.Table]:
    with Frame(planning_queries()) as frame:
        starts = gathered(frame, chunks)
        count_shared(frame)
        return list(signals(frame, starts))


@settings(max_examples=examples(60), deadline=None)
@given(rows_drawn, st.integers(1, 7))
def test_sharing_is_counted_as_said_in_any_portions(rows: list[dict[str, Any]], size: int) -> None:
    """Portions of any size give each row what the plain rule over the whole batch gives."""
    chunks = [table(rows[start : start + size], start) for start in range(0, len(rows), size)]
    tables = shared(chunks)
    assert [each.num_rows for each in tables] == [each.num_rows for each in chunks]
    found = [row for each in tables for row in each.to_pylist()]
    assert found == plainly(rows)


def test_a_phone_or_email_of_more_than_twenty_is_a_placeholder() -> None:
    """Twenty customers may share one, twenty-one cannot; a BVN is never a placeholder."""
    rows = [{"phone": "+2340000000000", "email": "a@b.ng", "bvn": "1"} for _ in range(20)]
    for more in (0, 1):
        batch = [*rows, *rows[:more], {"phone": "+2348031234567"}]
        with Frame(planning_queries()) as frame:
            gathered(frame, [table(batch)])
            problems = count_shared(frame)
        lines = range(2, 2 + 21 * more)
        assert [(problem.column, problem.line) for problem in problems] == [
            *(("phone", line) for line in lines),
            *(("email", line) for line in lines),
        ]


def test_all_sightings_of_a_large_batch_are_saved(tmp_path: Path) -> None:
    """They are sealed in portions of some thousand rows, of which none is lost or saved twice."""
    bvns = [f"22{number:09d}" for number in range(40_000)]
    with open_journal(tmp_path / "home") as journal, Frame(planning_queries()) as frame:
        workspace = Workspace.of(tmp_path, "run", Sealer(b"s" * 32))
        gathered(frame, [table([{"bvn": bvn} for bvn in bvns])])
        count_shared(frame, workspace=workspace)
        sightings = Sightings(journal)
        for _ in range(2):  # a run that crashed saves them again
            keep_sightings(workspace, sightings, batch="borrowers", at=1)
        subjects = sorted(KEY.subject("bvn", bvn) for bvn in bvns)
        for start in range(0, len(subjects), BLOCK):
            some_subjects = subjects[start : start + BLOCK]
            seen = sightings.seen_with("bvn", some_subjects, "another")
            assert [each.identifier for each in seen] == some_subjects
