"""`nightscreen transactions`: mistakes told, nobody shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nightscreen.cli.main import app
from nightscreen.schemas.errors import InputError
from tests.operations.pulls_in_a_test import Lender


@pytest.fixture
def lender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lender:
    """A lender of whom one customer consented to another scope, and one took it back."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NIGHTSCREEN_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NIGHTSCREEN_API_KEY", "sandbox-key")
    monkeypatch.chdir(tmp_path)
    found = Lender(tmp_path)
    found.consent(["LIVE-1", "BACK-2"])
    found.consent(["OTHER-3"], "profile:view")
    with found.consents() as consents:
        consents.revoke("BACK-2", "customer asked")
    return found


def test_customer_without_a_usable_consent_is_told_by_place(lender: Lender) -> None:
    """What to do next is said, and no id stands in the message."""
    for customer, says in (
        ("NEVER-4", "never consented"),
        ("BACK-2", "has a grant that is revoked"),
        ("OTHER-3", "did not grant transaction:list"),
    ):
        words = ["transactions", "pull", "--customer", "LIVE-1", "--customer", customer]
        ended = CliRunner().invoke(app, words)
        assert isinstance(ended.exception, InputError)
        assert f"customer number 2 of those given {says}" in str(ended.exception)
        assert "nightscreen consent link" in str(ended.exception)
        assert customer not in str(ended.exception)
        assert not (lender.folder / "out").exists()
