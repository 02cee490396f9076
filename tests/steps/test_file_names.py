"""Names of files: what they give away is kept neither by the journal nor by outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from nightscreen.schemas.bvn import RequestBvns
from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.steps.privacy.erasure import Whom, erase, look
from nightscreen.steps.values.file_names import (
    batch_of,
    forget_names,
    names_somebody,
    without_names,
)
from nightscreen.storage.journal import open_journal
from nightscreen.storage.journal.customers import Customers
from tests.screening import World, customer


@pytest.mark.parametrize(
    ("name", "somebody"),
    [
        ("portfolio-2026-03-01.csv", False),
        ("grace_period.csv", False),
        ("loans may musa.csv", False),
        ("22212345678.csv", True),
        ("customer 0803 123 4567.xlsx", True),
        ("ade@example.ng.csv", True),
        ("Ibrahim Musa.csv", True),
        ("kyc_olumide-adewale_final.csv", True),
    ],
)
def test_a_name_that_is_somebodys_is_known(name: str, *, somebody: bool) -> None:
    """Numbers, addresses and two names of a person; one name alone may be anything."""
    assert names_somebody(name) is somebody


def test_a_batch_name_is_nobodys() -> None:
    """What is left of a file's name says what the list is, not whose."""
    assert batch_of(Path("portfolio-2026-03-01.csv")) == "portfolio"
    assert batch_of(Path("kyc_olumide-adewale_final.csv")) == "kyc-final"
    assert batch_of(Path("Ibrahim Musa.csv")) == "batch"
    for kind in (ScreenBatch, RequestBvns):
        with pytest.raises(ValidationError, match="customer's number or email address"):
            kind(input="x.csv", batch="kyc 22212345678")


def test_the_engine_is_given_a_link_that_says_nothing(tmp_path: Path) -> None:
    """The same file has the same link; one that names nobody goes by its own name."""
    named = tmp_path / "Ibrahim Musa 22212345678.csv"
    named.write_text("customer_id,bvn\n1,2\n")
    given = without_names(ScreenBatch(input=str(named)), tmp_path / "home")
    again = without_names(ScreenBatch(input=str(named)), tmp_path / "home")
    assert given == again
    assert without_names(given, tmp_path / "home") == given
    told = given.model_dump_json()
    assert not [part for part in ("Musa", "musa", "222") if part in told]
    assert Path(given.input).read_text() == named.read_text()
    assert Path(given.input).suffix == ".csv"
    plain = ScreenBatch(input=str(tmp_path / "portfolio.csv"))
    assert without_names(plain, tmp_path / "home") == plain
    named.unlink()
    assert forget_names(tmp_path / "home") == 1
    assert not Path(given.input).is_symlink()


def test_a_run_leaves_no_name_of_its_file_behind(tmp_path: Path) -> None:
    """Neither the journal nor any output holds the number that the file is called by."""
    world = World(tmp_path)
    rows = [customer(number, customer_id=f"C{number}") for number in (1, 2)]
    path = world.write(rows, "customer 0809 555 4433.csv")
    night = world.screen(input=str(path), checks=["karma"])
    files = [each for each in night.folder.rglob("*") if each.is_file()]
    files += [each for each in (tmp_path / "home").glob("journal*") if each.is_file()]
    for file in files:
        content = file.read_bytes()
        assert b"555 4433" not in content
        assert b"0809" not in content, file.name
    assert json.loads((night.folder / "manifest.json").read_text())["input"]["name"].startswith(
        "file-"
    )


def test_erasing_takes_a_person_out_of_names_that_earlier_versions_kept(tmp_path: Path) -> None:
    """A run whose journal and manifest know its input by a BVN knows it by a link afterwards."""
    world = World(tmp_path)
    rows = [customer(number, customer_id=f"C{number}") for number in (1, 2)]
    night = world.screen(rows, checks=["karma"], batch="kyc")
    bvn = rows[0]["bvn"]
    manifest = night.folder / "manifest.json"
    document = json.loads(manifest.read_text())
    document["input"]["name"] = f"{bvn}.csv"
    manifest.write_text(json.dumps(document))
    with open_journal(tmp_path / "home") as journal:
        journal.runs.moved_input(night.report["run_id"], str(tmp_path / f"{bvn}.csv"))
        erase(journal, look(journal, Customers.of(journal), Whom(bvn=bvn)))
        (run,) = journal.runs.newest()
        assert bvn not in json.dumps(run.parameters)
    assert bvn not in manifest.read_text()
