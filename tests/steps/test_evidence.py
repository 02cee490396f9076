"""Evidence kept from night to night: it saves time and changes nothing, whatever happens to it."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.files.evidence import drop_evidence
from nightscreen.journal import open_journal
from nightscreen.journal.customers import Customers
from nightscreen.journal.rotation import rotate_key
from nightscreen.privacy.erasure import Whom, erase, look
from nightscreen.schemas.checks import Check, Purpose
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.screening import Night, World, days_ago
from tests.steps.nights_that_change import ROWS, Clock, changed, person

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

CHECKS = [check.value for check in Check]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose clock can be put forward."""
    return World(tmp_path, clock=Clock())


def evidence(world: World) -> Path:
    """Return where evidence lies."""
    return world.folder / "home" / "evidence"


def pieces(world: World) -> set[str]:
    """Return the names of the pieces that lie there."""
    return {file.name for file in evidence(world).glob("*/*-*.sealed")}


def night_of(world: World, rows: list[dict[str, str]], **options: Any) -> Night:  # noqa: ANN401 - a run's parameters
    """Screen rows under one batch name."""
    return world.screen(rows, batch="b", **options)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Return whether two nights wrote the very same rows, types and all."""
    return bool(one.schema.equals(other.schema, check_metadata=True) and one.equals(other))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_rows_are_the_same_with_new_old_and_no_evidence(world: World, seed: int) -> None:
    """Over nights in which anything may change, evidence never changes a cell."""
    rng = random.Random(seed)
    rows = [person(number) for number in range(1, ROWS + 1)]
    earlier = world.folder / "earlier"
    for _ in range(3):
        kinds = rng.choice((["bvn"], ["bvn", "phone"], ["bvn", "phone", "email", "nuban"]))
        options = {
            "checks": rng.sample(CHECKS, rng.randrange(1, 5)) if rng.random() < 0.3 else CHECKS,
            "karma_identities": kinds,
            "purpose": rng.choice(list(Purpose)).value,
        }
        had_evidence = evidence(world).exists()
        if had_evidence:
            shutil.copytree(evidence(world), earlier, dirs_exist_ok=True)
        night_of(world, rows, **options)
        warm = night_of(world, rows, **options).table
        if had_evidence:
            shutil.rmtree(evidence(world))
            shutil.copytree(earlier, evidence(world))
            assert same(night_of(world, rows, **options).table, warm)
        drop_evidence(world.folder / "home")
        assert same(night_of(world, rows, **options).table, warm)
        rows = changed(rows, rng)
        assert isinstance(world.clock, Clock)
        world.clock.days += rng.choice((0, 1, 6, 20, 35, 90))


def test_a_night_without_changes_writes_no_evidence_anew(world: World) -> None:
    """What served whole stays as it is."""
    rows = [person(number) for number in range(1, 20)]
    night_of(world, rows, checks=CHECKS[:3])
    before = pieces(world)
    night_of(world, rows, checks=CHECKS[:3])
    assert pieces(world) == before
    assert len(before) == 2


def test_evidence_goes_with_the_rows_it_was_of(world: World) -> None:
    """A later night leaves nothing that rests on rows of an earlier one only."""
    night_of(world, [person(number) for number in range(1, 20)])
    before = pieces(world)
    night_of(world, [person(number) for number in range(10, 30)])
    assert not pieces(world) & before


def damage(file: Path, how: str) -> None:
    """Spoil a file of evidence."""
    content = file.read_bytes()
    match how:
        case "cut short":
            file.write_bytes(content[: len(content) // 2])
        case "emptied":
            file.write_bytes(b"")
        case "a byte changed":
            file.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
        case _:
            file.unlink()


@pytest.mark.parametrize(
    ("which", "how"),
    [
        ("index.sealed", "cut short"),
        ("*-*.sealed", "a byte changed"),
        ("*-*.sealed", "lost"),
        *(
            pytest.param(which, how, marks=pytest.mark.long)
            for which, how in (
                *(("index.sealed", how) for how in ("emptied", "a byte changed", "lost")),
                *(("*-*.sealed", how) for how in ("cut short", "emptied")),
            )
        ),
    ],
)
def test_spoilt_evidence_is_worked_out_anew(world: World, how: str, which: str) -> None:
    """Nothing about a spoilt file is believed, and nobody is troubled by it."""
    rows = [person(number) for number in range(1, 12)]
    night_of(world, rows)
    clean = night_of(world, rows).table
    for file in evidence(world).glob(f"*/{which}"):
        damage(file, how)
    assert same(night_of(world, rows).table, clean)
    assert same(night_of(world, rows).table, clean)


def test_one_batch_never_sees_the_evidence_of_another(world: World) -> None:
    """A folder of evidence that is put in another batch's place does not open."""
    night_of(world, [person(1), person(2)])
    world.screen([person(3), person(4)], batch="other")
    one, two = sorted(evidence(world).iterdir())
    shutil.rmtree(two)
    shutil.copytree(one, two)
    for batch, rows in (("b", [person(1), person(2)]), ("other", [person(3), person(4)])):
        names = world.screen(rows, batch=batch).column("bank_account_name")
        for row, name in zip(rows, names, strict=True):
            assert name is None or row["last_name"].upper() in name


def test_withdrawn_consent_hides_what_evidence_has(world: World) -> None:
    """The evidence of an ecosystem answer is at hand; without consent it is not shown."""
    rows = [person(number) for number in range(1, 40)]
    found = [status == "found" for status in night_of(world, rows).column("ecosystem_status")]
    assert any(found)
    for row in rows:
        row["consent_withdrawn_at"] = days_ago(59)
    night = night_of(world, rows)
    assert set(night.column("ecosystem_status")) == {"refused"}
    assert set(night.column("ecosystem_loans")) == {None}


def test_no_identifier_lies_in_evidence_in_clear(world: World) -> None:
    """Neither contents nor names of its files tell who is in it."""
    rows = [person(number) for number in range(1, 12)]
    night = night_of(world, rows)
    words = [row[name] for row in rows for name in ("bvn", "account_number", "last_name")]
    words += [name for name in night.column("bank_account_name") if name]
    files = [file for file in evidence(world).rglob("*") if file.is_file()]
    assert len(files) == 3
    for file in files:
        content = file.read_bytes()
        assert not any(word.encode() in content or word in str(file.name) for word in words)
        assert file.stat().st_mode & 0o777 == 0o600


def test_erasing_a_person_drops_all_evidence(world: World) -> None:
    """No file of it is left; evidence put back from before is not believed either."""
    rows = [person(number) for number in range(1, 12)]
    night_of(world, rows)
    shutil.copytree(evidence(world), world.folder / "earlier")
    with open_journal(world.folder / "home") as journal:
        erase(journal, look(journal, Customers.of(journal), Whom(customer_id="C3")))
    assert not evidence(world).exists()
    shutil.copytree(world.folder / "earlier", evidence(world))
    before = pieces(world)
    night_of(world, [row for row in rows if row["customer_id"] != "C3"])
    assert not pieces(world) & before


def test_rotating_the_key_drops_all_evidence(world: World) -> None:
    """Nothing that was sealed under the old key stays, and the next night seals anew."""
    rows = [person(number) for number in range(1, 12)]
    clean = night_of(world, rows) and night_of(world, rows).table
    with open_journal(world.folder / "home") as journal:
        rotate_key(journal)
    assert not evidence(world).exists()
    assert same(night_of(world, rows).table, clean)
    assert pieces(world)


def test_retention_drops_what_rests_on_old_answers(world: World) -> None:
    """A piece goes once its oldest answer is older than may be kept; others stay."""
    night_of(world, [person(number) for number in range(1, 12)])
    now = system_clock()
    drop_evidence(world.folder / "home", before=now - DAY_MICROS)
    assert pieces(world)
    drop_evidence(world.folder / "home", before=now + DAY_MICROS)
    assert not pieces(world)


def test_test_mode_and_quotes_leave_evidence_alone(world: World) -> None:
    """What is not to be believed, or only asked in advance, neither writes nor removes any."""
    rows = [person(number) for number in range(1, 12)]
    night_of(world, rows)
    before = pieces(world)
    world.sandbox.test_mode = "mock"
    rows += [person(number) for number in range(30, 40)]
    night = night_of(world, rows)
    assert night.report["state"] == "test_mode"
    assert pieces(world) == before
