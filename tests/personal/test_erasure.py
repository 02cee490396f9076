"""Erasing one person end to end: nothing of them stays, nothing of anyone else is touched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.files.run_folder import NOTE, RunFiles
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.audit import Audit
from nightscreen.journal.schema import TOMBSTONE
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import (
    ERASURE_BEGUN,
    ERASURE_ENDED,
    ErasureTarget,
    erase,
    find_person_data,
)
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.purging import hold, release, repair_manifests
from nightscreen.schemas.errors import InputError, OutputError
from tests.begun import begin_run
from tests.journal.conftest import sealed_starts
from tests.left_behind import everything
from tests.screening import CONSENT, Night, Screened, World, customer

OPTIONS = {"checks": ["bank_account", "karma", "ecosystem"], "batch": "borrowers"}
ERASED = customer(
    3, customer_id="CUST-3", phone="08031234567", email="erased@example.ng", **CONSENT
)
OTHERS = [
    customer(number, customer_id=f"CUST-{number}", **CONSENT) for number in (1, 2, 4, 5, 6, 7)
]
for _each in OTHERS[:2]:  # not their own account: somebody has to look at them
    _each["account_number"], _each["bank_code"] = (
        customer(int(_each["customer_id"][5:]) + 20)[name]
        for name in ("account_number", "bank_code")
    )
BROKEN = {"customer_id": "CUST-3", "bvn": "12", "first_name": "Repeated"}
NAMELESS = {**ERASED, "customer_id": "", "first_name": "Nameless"}
REFUSED = {"customer_id": "", "bvn": "22000000099", "first_name": "Other"}
ROWS = [*OTHERS[:3], ERASED, *OTHERS[3:], BROKEN, NAMELESS, REFUSED]


SECOND_POLICY = """
name = "strict"
version = "2"

[[rules]]
code = "BIG"
effect = "decline"
when = "exposure >= 2000"
team = "Too much is owed."
customer = "You owe too much for now."
"""


def _screen(world: World) -> list[Night]:
    (world.folder / "strict.toml").write_text(SECOND_POLICY)
    world.settings["shadow"] = world.folder / "strict.toml"
    return [world.screen(ROWS, **OPTIONS) for _ in range(2)]


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Screened:
    """Two nights in which everybody was screened, a second policy beside, to be put back."""
    return Screened(tmp_path_factory.mktemp("screened"), _screen)


@pytest.fixture
def nights(world: World, screened: Screened) -> list[Night]:
    return screened.put_back(world)


@pytest.fixture
def journal(world: World, nights: list[Night]) -> Iterator[Journal]:
    with open_journal(world.folder / "home") as opened:
        yield opened


def erased(journal: Journal, **whom: str) -> dict[str, Any]:
    return erase(journal, find_person_data(journal, ErasureTarget(**whom)))


def audited(journal: Journal) -> list[dict[str, Any]]:
    """Return what the audit says of erasures, newest first."""
    return [
        each for each in Audit(journal).find() if each["action"] in {ERASURE_BEGUN, ERASURE_ENDED}
    ]


def needles(journal: Journal) -> list[bytes]:
    """Return everything by which the erased person would be recognised."""
    found = find_person_data(journal, ErasureTarget(customer_id="CUST-3"))
    pseudonyms = found.pseudonyms().all
    words = (ERASED["bvn"], ERASED["account_number"], "8031234567", "erased@example.ng", "CUST-3")
    hexes = [each.hex().encode() for each in pseudonyms]
    return [*pseudonyms, *hexes, *(word.encode() for word in words)]


def require_digests(night: Night) -> dict[str, Any]:
    """Hold every file to what the manifest says of it, and return the manifest."""
    manifest = night.manifest
    for name, told in manifest["files"].items():
        held = (night.folder / name).read_bytes()
        assert told["sha256"] == hashlib.sha256(held).hexdigest(), name
        assert told["bytes"] == len(held)
    return manifest


def test_nothing_of_the_person_is_left_anywhere(
    world: World, journal: Journal, nights: list[Night]
) -> None:
    """Neither identifiers nor pseudonyms, in the raw bytes of journal, log and outputs.

    Nobody finds the person any more; only theirs is asked anew where the file has them again.
    """
    sealed = sealed_starts(journal)
    wanted = needles(journal)
    before = b"".join(each for _, each in everything(world.folder))
    done = erased(journal, customer_id="CUST-3")
    assert done["log_emptied"]
    wanted += sealed - sealed_starts(journal)
    assert sum(needle in before for needle in wanted) >= 20
    for path, held in everything(world.folder):
        assert not [needle for needle in wanted if needle in held], path
    with pytest.raises(InputError, match="no such customer"):
        lookup_subject(journal, "CUST-3")
    with pytest.raises(InputError, match="nothing is held"):
        erased(journal, customer_id="CUST-3")
    ended, begun = audited(journal)
    assert (begun["action"], ended["action"]) == (ERASURE_BEGUN, ERASURE_ENDED)
    assert (begun["detail"]["answers"], begun["detail"]["calls"]) == (3, 3)
    assert ended["detail"]["files"]
    journal.close()
    asked = len(world.calls())
    third = world.screen(ROWS, **OPTIONS)
    assert len(world.calls()) == asked + 3
    assert third.column("karma_source").count("asked") == 1


def test_the_books_still_add_up_and_others_stay_as_they_were(
    journal: Journal, nights: list[Night], world: World
) -> None:
    """Calls become tombstones, every naira stays; other rows are the same in the same order.

    The manifest has new digests, sizes and row counts, and says why.
    """
    first = nights[0]
    spent = journal.money.of_run(first.report["run_id"])
    tables = [night.table for night in nights]
    lists = {
        name: (first.folder / name).read_bytes().splitlines(keepends=True)
        for name in ("decisions.csv", "shadow.csv")
    }
    assert any(b"CUST-3" in line for line in lists["shadow.csv"])
    done = erased(journal, customer_id="CUST-3")
    assert verify_journal(journal) == []
    assert journal.money.of_run(first.report["run_id"]) == spent
    assert (done["answers"], done["calls"]) == (3, 3)
    calls = pq.read_table(first.folder / "calls.parquet")
    mine = [row for row in calls.to_pylist() if row["pseudonym"] == TOMBSTONE.hex()]
    assert len(mine) == 3
    assert sum(row["cost"] for row in mine) == Decimal(done["cost"])
    assert all(row["consent_reference"] is None for row in mine)
    assert sum(calls["cost"].to_pylist()) == Decimal(world.charged)
    assert json.loads((first.folder / "report.json").read_text("utf-8")) == first.report
    for name, lines in lists.items():
        left = [line for line in lines if b"CUST-3" not in line]
        assert (first.folder / name).read_bytes() == b"".join(left)
    for night, table in zip(nights, tables, strict=True):
        rest = [row for row in table.to_pylist() if row["customer_id"] != "CUST-3"]
        assert len(rest) == len(OTHERS)
        assert night.rows == rest
        assert night.table.schema.equals(table.schema, check_metadata=True)
        manifest = require_digests(night)
        assert manifest["files"]["enriched/part-00000.parquet"]["rows"] == len(OTHERS)
        (note,) = manifest["rewritten"]
        assert note["reason"] == "erasure"
        assert "quarantine.csv" in note["files"]
        assert not (night.folder / NOTE).exists()


def test_a_bvn_erases_every_row_that_has_it(world: World) -> None:
    """Under whatever customer ids, in quarantine too; others stay.

    Of a household's account the answer goes, the other customer's row stays and is asked again.
    """
    twin = {**ERASED, "customer_id": "CUST-33"}
    spouse = customer(8, customer_id="CUST-8", **CONSENT)
    spouse |= {name: ERASED[name] for name in ("account_number", "bank_code")}
    night = world.screen([spouse, *OTHERS, ERASED, twin, NAMELESS], **OPTIONS)
    with open_journal(world.folder / "home") as journal:
        erased(journal, bvn=ERASED["bvn"])
        assert verify_journal(journal) == []
    assert night.column("customer_id") == [each["customer_id"] for each in (spouse, *OTHERS)]
    second = world.screen([spouse, *OTHERS], **OPTIONS)
    assert second.column("bank_account_source") == ["asked"] + ["reused"] * len(OTHERS)
    assert second.column("karma_source") == ["reused"] * (len(OTHERS) + 1)
    for _, held in everything(world.folder):
        assert ERASED["bvn"].encode() not in held


def test_erasing_again_finishes_after_a_crash(
    journal: Journal,
    nights: list[Night],
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cut short at each file in turn, it goes on where it stopped."""
    wanted = needles(journal)
    whole = RunFiles.touch
    for crash_at in range(1, 12):
        seen: list[object] = []

        def touch(
            self: RunFiles, file: Path, limit: int = crash_at, seen: list[object] = seen
        ) -> None:
            seen.append(file)
            if len(seen) > limit:
                raise OutputError("the disk is full")
            whole(self, file)

        monkeypatch.setattr(RunFiles, "touch", touch)
        try:
            erased(journal, customer_id="CUST-3")
        except OutputError:
            continue
        except InputError:
            break
    monkeypatch.setattr(RunFiles, "touch", whole)
    for path, held in everything(world.folder):
        assert not [needle for needle in wanted if needle in held], path
    for night in nights:
        require_digests(night)


def test_a_manifest_is_mended_after_a_crash_behind_the_files(
    journal: Journal, nights: list[Night], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file was rewritten and nobody is found any more, yet the manifest still tells it."""

    def crash(self: RunFiles, at: int) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            erased(journal, customer_id="CUST-3")
    assert repair_manifests(journal) == len(nights)
    assert repair_manifests(journal) == 0
    for night in nights:
        require_digests(night)
        assert not (night.folder / NOTE).exists()


def test_a_run_taken_up_again_meanwhile_is_told(
    journal: Journal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are its own then; the erasure is not passed off as done."""
    found = find_person_data(journal, ErasureTarget(customer_id="CUST-3"))
    run = found.runs[0]
    same = ("flow", "batch", "purpose", "input_digest", "folder", "parameters")
    with open_journal(world.folder / "home") as other, monkeypatch.context() as patched:

        def resumes(_: Journal) -> bool:
            begin_run(other, run.run_id, **{name: getattr(run, name) for name in same})
            return False

        patched.setattr("nightscreen.privacy.erasure.scrub_database", resumes)
        with pytest.raises(InputError, match="resumed meanwhile"):
            erase(journal, found)
        with pytest.raises(InputError, match="is under way"):
            erase(journal, found)
    assert erased(journal, customer_id="CUST-3")["rows"]
    assert [entry["action"] for entry in audited(journal)] == [
        ERASURE_ENDED,
        ERASURE_BEGUN,
        ERASURE_BEGUN,
        ERASURE_BEGUN,
    ]


def test_a_legal_hold_goes_first(journal: Journal, nights: list[Night], world: World) -> None:
    """A held run's person is not erased before the hold is released.

    Nor while a run is under way: whatever it works on, nothing is changed before it has ended.
    """
    run_id = nights[0].report["run_id"]
    live = str(world.folder / "out" / "run-live")
    with open_journal(world.folder / "home") as other:
        begin_run(other, "run-live", batch="borrowers", folder=live)
        with pytest.raises(InputError, match="run-live is under way"):
            erased(journal, customer_id="CUST-3")
    hold(journal, run_id, "claim 7")
    with pytest.raises(InputError, match="legal hold"):
        erased(journal, customer_id="CUST-3")
    assert lookup_subject(journal, "CUST-3")
    release(journal, run_id)
    assert erased(journal, customer_id="CUST-3")["answers"] == 3


def test_workbook_and_quarantine_that_name_the_person_go_and_are_told_first(
    world: World, journal: Journal, nights: list[Night]
) -> None:
    """They go whole, whatever reviewers wrote into them; those of a night without them stay.

    So does the workbook of a night that only refused the person: it has no line of theirs. Approved
    customers are on a sheet of it, and not on the list beside it.
    """
    other = world.screen([*OTHERS, REFUSED], **OPTIONS)
    refused = world.screen([*OTHERS, NAMELESS], **OPTIONS)
    gone = ("quarantine.csv", "decisions.xlsx")
    places = {f"{night.report['run_id']}/{name}" for name in gone for night in nights}
    places.add(f"{refused.report['run_id']}/quarantine.csv")
    found = find_person_data(journal, ErasureTarget(customer_id="CUST-3"))
    assert {*found.document()["removed_whole"]} == places
    assert {*erase(journal, found)["removed_whole"]} == places
    for name in gone:
        for night in nights:
            assert not (night.folder / name).exists()
            assert name not in night.manifest["files"]
        assert (other.folder / name).exists()
    assert [(refused.folder / name).exists() for name in gone] == [False, True]
    approved = next(row["customer_id"] for row in refused.rows if row["decision"] == "approve")
    assert approved not in (refused.folder / "decisions.csv").read_text("utf-8")
    done = erased(journal, customer_id=approved)
    assert f"{refused.report['run_id']}/decisions.xlsx" in done["removed_whole"]
    for path, held in everything(world.folder):
        assert approved.encode() not in held, path
