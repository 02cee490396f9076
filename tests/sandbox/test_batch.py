"""Sample batches: repeatable, counted, and damaged as asked."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from nightscreen.sandbox.batch import COLUMNS, KINDS, BatchFacts, make_batch
from nightscreen.sandbox.people import is_digits, person_of_bvn
from tests.sandbox.test_process import run

if TYPE_CHECKING:
    from pathlib import Path

TODAY = date(2026, 3, 1)
LAGOS = ZoneInfo("Africa/Lagos")


def batch(
    folder: Path, rows: int, damage_pct: float = 2.0, seed: int = 1
) -> tuple[BatchFacts, list[list[str]]]:
    """Make a batch and read it back as lines of fields."""
    path = folder / "batch.csv"
    facts = make_batch(path, rows=rows, seed=seed, damage_pct=damage_pct, today=TODAY)
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == list(COLUMNS)
    return facts, lines[1:]


def test_same_seed_makes_the_same_file(tmp_path: Path) -> None:
    """Seed, size, damage and day decide every byte; another seed makes another file."""
    first, second, third = (tmp_path / name for name in "abc")
    for path, seed in ((first, 1), (second, 1), (third, 2)):
        make_batch(path, rows=300, seed=seed, damage_pct=5, today=TODAY)
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()


def test_undamaged_rows_are_the_sandboxes_people(tmp_path: Path) -> None:
    """Without damage every row bears a person's own BVN, account, birthday and email."""
    facts, lines = batch(tmp_path, 500, damage_pct=0)
    for line in lines:
        row = dict(zip(COLUMNS, line, strict=True))
        person = person_of_bvn(row["bvn"])
        assert row["account_number"] == person.account_number
        assert row["email"] == person.email
        assert row["date_of_birth"] == person.date_of_birth.isoformat()
        assert bool(row["bank_code"]) != bool(row["bank_name"])
        assert row["phone"].replace(" ", "").replace("-", "")[-10:] == person.phone[-10:]
    ids = [line[0] for line in lines]
    assert len(set(ids)) == facts.rows == 500
    assert facts.people + facts.duplicates == 500
    assert len({line[4] for line in lines}) == facts.people


def test_facts_count_the_damage(tmp_path: Path) -> None:
    """Broken lines, missing and repeated ids, and bad BVNs are as many as the facts say."""
    facts, lines = batch(tmp_path, 3000, damage_pct=20)
    assert set(facts.damaged) == set(KINDS)
    assert 500 < sum(facts.damaged.values()) < 700
    whole = [line for line in lines if len(line) == len(COLUMNS)]
    broken = facts.damaged["too_few_fields"] + facts.damaged["too_many_fields"]
    assert len(lines) - len(whole) == broken
    ids = [line[0] for line in whole]
    assert ids.count("") == facts.damaged["customer_id_missing"]
    named = [one for one in ids if one]
    assert len(named) - len(set(named)) == facts.damaged["customer_id_duplicate"]
    bad = [line for line in whole if not is_digits(line[4], 11)]
    expected = sum(facts.damaged[kind] for kind in KINDS if kind.startswith("bvn_"))
    assert expected <= len(bad) <= expected + facts.damaged["absent_value"]
    short = [line for line in whole if len(line[5]) == 9]
    assert len(short) == facts.damaged["account_short"]
    assert facts.refused == broken + ids.count("") + facts.damaged["customer_id_duplicate"]


def consent_state(row: dict[str, str]) -> str:
    """Judge a consent at noon of the batch's day, twelve months where no end is given."""
    now = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC)

    def moment(name: str) -> datetime | None:
        text = row[name]
        if not text:
            return None
        read = datetime.fromisoformat(text)
        return read if read.tzinfo else read.replace(tzinfo=LAGOS)

    given, ends = moment("consented_at"), moment("consent_expires_at")
    withdrawn = moment("consent_withdrawn_at")
    if not row["consent_reference"] or given is None:
        return "none"
    if given > now:
        return "future"
    if withdrawn and withdrawn <= now:
        return "withdrawn"
    return "expired" if (ends or given + timedelta(days=365)) <= now else "valid"


def test_consents_are_as_counted(tmp_path: Path) -> None:
    """About 70 % are valid, and each state is as frequent as the facts say."""
    facts, lines = batch(tmp_path, 2000, damage_pct=0)
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
    counted = dict.fromkeys(facts.consents, 0)
    for row in rows:
        counted[consent_state(row)] += 1
    assert counted == dict(facts.consents)
    assert 0.66 < facts.consents["valid"] / 2000 < 0.74


@pytest.mark.parametrize(("rows", "damage_pct"), [(-1, 2), (1, 101), (1, -1)])
def test_impossible_wishes_are_refused(tmp_path: Path, rows: int, damage_pct: float) -> None:
    """Fewer than no rows, or more damage than rows, is an error."""
    with pytest.raises(ValueError, match="percent"):
        make_batch(tmp_path / "x.csv", rows=rows, seed=1, damage_pct=damage_pct)


def test_command_line_writes_the_file_and_prints_the_facts(tmp_path: Path) -> None:
    """`batch` writes the rows asked for and prints the counts as JSON."""
    path = tmp_path / "out.csv"
    done = run("batch", "--rows", "50", "--seed", "3", "--damage-pct", "0", str(path))
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"] == 50
    assert len(path.read_text(encoding="utf-8").splitlines()) == 51
