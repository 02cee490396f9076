"""Names of persons in records."""

from __future__ import annotations

import pytest

from nightscreen.journal.audit import named_by_account, same_person


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ada Eze", "ADA  eze", True),
        ("Ada Eze (account root)", "Ada Eze", True),
        ("Ada Eze (account bem)", "Bem", True),
        ("Ada Eze (account root)", "Ngozi (account root)", False),
        ("Ada Eze", "Bem", False),
        ("Ada", "", False),
    ],
)
def test_a_person_is_known_by_name_and_by_the_account_of_a_command(
    one: str, other: str, *, same: bool
) -> None:
    """One account serves several named people; a name alone may be that account's."""
    assert same_person(one, other) is same
    assert same_person(other, one) is same


def test_a_command_is_recorded_under_the_machines_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is named stands before it; nobody named leaves the account alone."""
    monkeypatch.setattr("getpass.getuser", lambda: "bem")
    assert named_by_account(" Ada  Eze ") == "Ada Eze (account bem)"
    assert named_by_account("Bem") == named_by_account(" ") == "bem"
