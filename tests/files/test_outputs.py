"""The declarations of output files: each says enough for erasure, purge, access and the desk."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.config.settings import GROUNDS
from nightscreen.files.outputs import OUTPUTS, Output, Whose, declaration_of
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.run_folder import RowFilter, RunFiles, RunFolder
from tests.laws import undeclared_files

PERSONAL = [each for each in OUTPUTS if each.whose is not Whose.NOBODY]


@pytest.mark.parametrize("declared", PERSONAL, ids=lambda each: each.pattern)
def test_a_file_about_people_is_erased_and_has_a_period(declared: Output) -> None:
    """Nothing that names a person stays for good, or whatever is erased."""
    has_rows = declared.pattern.endswith((".csv", ".parquet"))
    assert declared.erased_whole or (has_rows and declared.whose is not Whose.AS_GIVEN)
    assert declared.ground in GROUNDS
    assert declared.of_branches
    in_clear = declared.whose in {Whose.IN_CLEAR, Whose.LISTED, Whose.AS_GIVEN}
    assert not in_clear or declared.right == "export"


def test_what_is_about_nobody_is_neither_erased_nor_purged() -> None:
    """Reports, manifests and findings stay, so that every naira still adds up."""
    kept = {each.pattern for each in OUTPUTS if not each.ground}
    assert {"report.json", "report-*.json", "manifest.json", "problems.csv"} <= kept
    assert all(each.whose is Whose.NOBODY for each in OUTPUTS if each.pattern in kept)


def test_costs_are_for_those_who_may_see_money() -> None:
    """Of an earlier session too."""
    for name in ("report.json", "report-1.json", "report.html", "calls.parquet"):
        declared = declaration_of(name)
        assert declared is not None
        assert declared.right == "money"


def test_a_file_that_nobody_declared_is_found(tmp_path: Path) -> None:
    """The law by which every night is judged names it."""
    make_private_folder(tmp_path / "enriched")
    tmp_path.chmod(0o700)
    for name in ("report.json", "report-1.json", "enriched/part-00000.parquet"):
        write_private(tmp_path / name, b"{}")
    assert undeclared_files(tmp_path) == []
    write_private(tmp_path / "extras.csv", b"customer_id\n")
    assert undeclared_files(tmp_path) == ["extras.csv is declared nowhere"]


def test_a_resumed_run_removes_the_partial_files_of_the_killed_one(tmp_path: Path) -> None:
    """They have rows of customers. The inbox's texts and all whole files stay."""
    folder = RunFolder.make(tmp_path, "20260101-000000-abcdef")
    make_private_folder(folder.path / "enriched")
    whole = {"decisions.csv", "enriched/part-00000.parquet", "read-me.txt"}
    partial = {".decisions.xlsx.7-0a1b2c3d.part", "enriched/.part-00001.parquet.7-0a1b2c3d.part"}
    for name in whole | partial:
        write_private(folder.path / name, b"x")
    folder.begin()
    files = (path for path in folder.path.rglob("*") if path.is_file())
    assert {path.relative_to(folder.path).as_posix() for path in files} == whole


def test_rows_are_found_alike_in_text_and_in_parquet(tmp_path: Path) -> None:
    """By one column or by two together; a file without the columns has no such row."""
    path = tmp_path / "list.csv"
    path.write_text('batch,customer_id,note\na,1,x\nb,1,"two\nlines"\na,2,\'=x\n')
    both = RowFilter([(("batch", "customer_id"), {("a", "1"), ("b", "2")}), (("bvn",), {("1",)})])
    assert [row["note"] for row in both.found(path)] == ["x"]
    one = RowFilter([(("customer_id",), {("1",)})])
    assert RunFiles(tmp_path, "test").drop(path, one) == 2
    assert path.read_text() == "batch,customer_id,note\na,2,'=x\n"
    part = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"customer_id": ["1", "2"]}), part)
    assert (both.count(part), one.count(part)) == (0, 1)
