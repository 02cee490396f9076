"""A desk over two nights that were screened in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import folder, here
from tests.desk.office import Office, office_over
from tests.screening import CONSENT, World, customer

__all__ = ["folder", "here"]

BRANCHES = ("Lagos", "Kano", "Ibadan")


def borrowers(number: int) -> list[dict[str, str]]:
    """Return made-up borrowers of three branches; every second one consented."""
    return [
        customer(
            each,
            Branch=BRANCHES[each % 3],
            **{"Loan Officer": f"Officer {each % 4}"},
            **(CONSENT if each % 2 else {"consent_reference": "", "consented_at": ""}),
        )
        for each in range(1, number + 1)
    ]


def wait_for_approval(office: Office, by: str) -> None:
    """Have one quoted run of twenty applicants wait for somebody's approval."""
    given = {"batch": "applicants", "purpose": "origination", "max_spend": "400"}
    office.await_approval(by, borrowers(80)[60:], **given)  # of whom no night knows anything


@pytest.fixture(scope="session")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME and an output folder of two nights; copied by whoever changes it."""
    folder = tmp_path_factory.mktemp("screened")
    world = World(folder)
    world.screen(borrowers(60), batch="portfolio")
    world.screen(borrowers(60), batch="portfolio")
    return folder


@pytest.fixture(scope="session")
def quoted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME and an output folder where one run waits for approval, as asked for by Ada."""
    folder = tmp_path_factory.mktemp("quoted")
    with Office(folder) as office:
        wait_for_approval(office, "Ada")
    return folder


@pytest.fixture
def bank(screened: Path, tmp_path: Path) -> Iterator[Office]:
    """A desk over a copy of the two nights' journal."""
    with office_over(screened, tmp_path) as office:
        yield office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office
