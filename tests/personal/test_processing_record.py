"""The papers say what the settings say, leave blanks for the rest, and give no secret away."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.config.declarations import DECLARABLE, Declarations
from nightscreen.config.settings import GROUNDS, Settings, read_settings
from nightscreen.privacy.processing_record import (
    BLANK,
    assessment_page,
    processing_record,
    record_page,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a lender who has much of it."""
    return read_settings(
        base_url="https://api.service.example/v2",
        api_key="sk-very-secret",
        home=tmp_path,
        journal_url="postgresql+psycopg://owner:pw-secret@db.lender.example/journal",
        proxy="http://user:pw-secret@proxy.lender.example:3128",
        portal_name="Oak | Lending",
        portal_contact="help@oak.example",
        retention={"applicants_days": 90, "audit_days": 4000},
    )


def test_every_period_of_the_settings_is_in_the_record(settings: Settings) -> None:
    """Each ground once, with its days and the name to change them by; hosts, and no secret."""
    kept = {each["setting"]: each["days"] for each in processing_record(settings)["kept"]}
    names = {f"NIGHTSCREEN_RETENTION__{ground.upper()}_DAYS" for ground in GROUNDS}
    assert kept.keys() == names
    assert kept["NIGHTSCREEN_RETENTION__APPLICANTS_DAYS"] == 90
    assert kept["NIGHTSCREEN_RETENTION__AUDIT_DAYS"] == 4000
    page = record_page(processing_record(settings)) + assessment_page(settings)
    for host in ("api.service.example", "db.lender.example", "outgoing proxy"):
        assert host in page
    assert "secret" not in page
    assert "owner" not in page


def test_what_settings_cannot_tell_is_a_blank(settings: Settings, tmp_path: Path) -> None:
    """The officer and the country always; controller and basis where nobody named them."""
    word = {"by": "Ada Eze", "on": "2026-02-01", "ground": "a contract, by counsel's note 7"}
    basis = {"basis": "contract", "reference": "note 3", "assessed_on": "2026-01-05"}
    bases = [{"check": check, **basis} for check in DECLARABLE]
    declared = Declarations.model_validate({"lawful_basis": bases, "policy_decides_alone": word})
    told = processing_record(settings, declared)
    assert "karma, every purpose: contract (note 3, assessed 2026-01-05)" in record_page(told)
    assert "declared by Ada Eze on 2026-02-01" in assessment_page(settings, declared)
    assert told["controller"]["name"] == "Oak | Lending"
    assert {"data_protection_officer", "where"} <= set(told["blanks"])
    assert "lawful_bases" not in told["blanks"]
    bare = processing_record(read_settings(home=tmp_path))
    assert {"name", "contact", "lawful_bases"} <= set(bare["blanks"])
    assert BLANK in assessment_page(settings)
