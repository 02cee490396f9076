"""What the lender declares: lawful bases on every call, nothing prefilled, mistakes told."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.declarations import DECLARABLE, Declarations, LawfulBasis, read_declarations
from nightscreen.config.settings import read_settings
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import SettingsError
from tests.screening import World, customer

BASES = """
[[lawful_basis]]
check = "karma"
purpose = "portfolio"
basis = "legitimate interest"
reference = "LIA-7"
assessed_on = 2026-02-01

[[lawful_basis]]
check = "karma"
basis = "contract"
reference = "MEMO-2"
assessed_on = 2026-01-01
"""


def test_every_call_bears_what_is_declared_for_its_check_and_purpose(tmp_path: Path) -> None:
    """The basis of the purpose goes before the one for all; a check without any is undeclared."""
    world = World(tmp_path)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "declarations.toml").write_text(BASES, "utf-8")
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    for purpose, row in (("portfolio", customer(1)), ("origination", customer(2))):
        night = world.screen(
            [row], checks=["karma", "bank_account"], purpose=purpose, batch=purpose
        )
        found |= {
            (call["check"], purpose): (
                call["lawful_basis"],
                call["basis_reference"],
                call["basis_assessed_on"],
            )
            for call in pq.read_table(night.folder / "calls.parquet").to_pylist()
        }
    assert found["karma", "portfolio"] == ("legitimate interest", "LIA-7", date(2026, 2, 1))
    assert found["karma", "origination"] == ("contract", "MEMO-2", date(2026, 1, 1))
    assert found["bank_account", "portfolio"] == ("undeclared", None, None)


def test_every_operation_can_be_declared() -> None:
    for operation in Operation:
        covering = [
            name
            for name in DECLARABLE
            if Declarations(
                lawful_basis=(
                    LawfulBasis(check=name, basis="b", reference="r", assessed_on=date(2026, 1, 1)),
                )
            ).basis_of(operation.value, "any_flow")
        ]
        assert len(covering) == 1, operation


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lawful_basis = 3", "lawful_basis"),
        ("colour = 1", "colour"),
        (BASES + BASES, "declared twice"),
        (BASES.replace('"karma"', '"kharma"'), "check is one of"),
        (BASES.replace('reference = "LIA-7"', ""), "reference"),
        ("[policy_decides_alone]\nby = 'Ngozi'\non = 2026-01-01", "ground"),
        ("a b", "is no TOML"),
        ("colour = " + "9" * 10_000, "is no TOML"),
    ],
)
def test_a_mistaken_declaration_is_told_by_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "declared.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=says):
        read_declarations(read_settings(home=tmp_path, declarations_file=path))
    (tmp_path / "declarations.toml").write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=r"; correct it as docs/notices\.md shows"):
        read_declarations(read_settings(home=tmp_path))
    with pytest.raises(
        SettingsError, match=r"cannot be read.*correct NIGHTSCREEN_DECLARATIONS_FILE"
    ):
        read_declarations(read_settings(home=tmp_path, declarations_file=tmp_path / "none.toml"))
