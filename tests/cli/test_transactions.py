"""`nightscreen transactions`: mistakes told, nobody shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.operations.pulls_in_a_test import Lender


@pytest.fixture
def lender(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lender:
    """A lender of whom one customer consented to another scope, and one took it back."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    found = Lender(folder)
    found.consent(["LIVE-1", "BACK-2"])
    found.consent(["OTHER-3"], "profile:view")
    with found.consents() as consents:
        consents.revoke("BACK-2", "customer asked")
    return found


def test_customer_without_a_usable_consent_is_told_by_place(lender: Lender, here: Here) -> None:
    """What to do next is said, and no id stands in the message."""
    for customer, says in (
        ("NEVER-4", "never consented"),
        ("BACK-2", "has a grant that is revoked"),
        ("OTHER-3", "did not grant transaction:list"),
    ):
        ended = here("transactions", "pull", "--customer", "LIVE-1", "--customer", customer)
        assert ended.status == 2
        assert f"customer number 2 of those given {says}" in ended.err
        assert "nightscreen consent link" in ended.err
        assert customer not in ended.err
        assert not (lender.folder / "out").exists()
