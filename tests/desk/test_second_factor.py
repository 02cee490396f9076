"""The second factor: codes that count once, are held up when wrong, and are asked for where set."""

from __future__ import annotations

import re
from base64 import b32decode
from typing import TYPE_CHECKING

import pytest
from pyotp import TOTP

from nightscreen.config.settings import read_settings
from nightscreen.journal.keyset import rotate_key
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import SettingsError
from tests.desk.office import PASSWORD, Browser, Office

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Office]:
    """A desk that wants a second factor of approvers."""
    with Office(tmp_path, changes={"desk_second_factor": "approver,administrator"}) as office:
        yield office


_FULL_WIDTH = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}
"""Digits that are digits to Python, and none to an authenticator."""


def shown_secret(page: str) -> str:
    """Return the secret that a page offers, beside its picture."""
    found = re.search(r'id="secret-text">([A-Z2-7]{32})<', page)
    assert found
    assert page.count("<svg") == 1
    return found[1]


def present_code(office: Office, secret: str, steps: int = 0) -> str:
    """Return the code an authenticator shows now, or so many steps later."""
    return TOTP(secret).generate_otp(office.clock() // MICROS // 30 + steps)


def set_up(office: Office, browser: Browser) -> str:
    """Set the second factor up as the page says; return the secret."""
    secret = shown_secret(browser.get("/second-factor").text)
    answer = browser.post("/second-factor", code=present_code(office, secret), do="set up")
    assert answer.status_code == 303
    office.clock.forward(seconds=60)
    return secret


def test_code_is_asked_for_after_the_password_and_counts_once(office: Office) -> None:
    """Nothing opens between password and code; a code that was used signs nobody else in."""
    secret = set_up(office, office.browser("analyst", name="Ada"))
    first, second = office.browser(), office.browser()
    for browser in (first, second):
        answer = browser.post("/sign-in", name="Ada", password=PASSWORD, to="/runs")
        assert (answer.status_code, answer.headers["location"]) == (303, "/second-factor?to=/runs")
        assert browser.get("/runs").headers["location"].startswith("/sign-in")
    assert "signed in" not in office.actions()
    code = present_code(office, secret)
    let_in = first.post("/second-factor", code=code, to="/runs")
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/runs")
    assert first.get("/runs").status_code == 200
    again = second.post("/second-factor", code=code)
    assert again.status_code == 401
    office.clock.forward(seconds=30)
    late = second.post("/second-factor", code=present_code(office, secret))
    assert late.status_code == 303
    assert office.actions()[-3:] == ["signed in", "second factor failed", "signed in"]


def test_setting_it_up_ends_the_other_sessions_of_that_user(office: Office) -> None:
    """Whoever signed in with the password alone is out; this browser and other users stay."""
    ada, other = office.browser("analyst", name="Ada"), office.browser("auditor", name="Bem")
    elsewhere = office.browser()
    elsewhere.post("/sign-in", name="Ada", password=PASSWORD, to="/")
    assert elsewhere.get("/runs").status_code == 200
    set_up(office, ada)
    assert elsewhere.get("/runs").headers["location"].startswith("/sign-in")
    assert [each.get("/runs").status_code for each in (ada, other)] == [200, 200]


def test_codes_of_a_clock_a_little_off_count_and_others_do_not(office: Office) -> None:
    """Half a minute to either side; words, blanks and older codes are wrong ones."""
    secret = set_up(office, office.browser("analyst", name="Ada"))
    for steps, status in ((-2, 401), (2, 401), (-1, 303), (1, 303)):
        browser = office.browser()
        browser.post("/sign-in", name="Ada", password=PASSWORD)
        answer = browser.post("/second-factor", code=present_code(office, secret, steps))
        assert answer.status_code == status, steps


def test_wrong_codes_are_held_up(office: Office) -> None:
    """After five the right one waits a quarter of an hour; the password must be given again."""
    secret = set_up(office, office.browser("analyst", name="Ada"))
    browser = office.browser()
    browser.post("/sign-in", name="Ada", password=PASSWORD)
    right = present_code(office, secret)
    wrong = str((int(right) + 1) % 10**6).zfill(6)
    for code in (wrong, "", "abc", right.translate(_FULL_WIDTH), wrong):
        assert browser.post("/second-factor", code=code).status_code == 401
    assert browser.post("/second-factor", code=right).status_code == 429
    office.clock.forward(minutes=16)
    assert browser.get("/second-factor").headers["location"] == "/sign-in"
    browser.post("/sign-in", name="Ada", password=PASSWORD)
    code = present_code(office, secret)
    assert browser.post("/second-factor", code=code).status_code == 303


def test_who_must_have_one_sets_it_up_before_anything_opens(strict: Office) -> None:
    """The settings name roles; sessions without one open nothing, analysts go on as before."""
    assert strict.browser("analyst", name="Ada").get("/").status_code == 200
    bem = strict.browser("approver", name="Bem")
    assert bem.get("/approvals").status_code == 303
    answer = bem.post("/sign-in", name="Bem", password=PASSWORD, to="/approvals")
    assert answer.headers["location"] == "/second-factor?to=/approvals"
    secret = shown_secret(bem.get("/second-factor").text)
    assert shown_secret(bem.get("/second-factor").text) == secret, "the same until confirmed"
    wrong = str((int(present_code(strict, secret)) + 1) % 10**6).zfill(6)
    assert bem.post("/second-factor", code=wrong, do="set up").status_code == 401
    assert bem.get("/approvals").status_code == 303
    done = bem.post(
        "/second-factor", code=present_code(strict, secret), do="set up", to="/approvals"
    )
    assert (done.status_code, done.headers["location"]) == (303, "/approvals")
    assert bem.get("/approvals").status_code == 200
    page = bem.get("/second-factor").text
    assert ">Remove<" not in page
    assert strict.actions()[-2:] == ["second factor set up", "signed in"]


def test_factor_is_removed_by_its_user_with_a_code_or_by_an_administrator(office: Office) -> None:
    """Its secret is gone then; the audit has who did it."""
    ada, admin = (
        office.browser("analyst", name="Ada"),
        office.browser("administrator", name="Chief"),
    )
    secret = set_up(office, ada)
    assert ada.post("/second-factor", code="000000", do="remove").status_code == 401
    code = present_code(office, secret)
    assert ada.post("/second-factor", code=code, do="remove").status_code == 303
    without = office.context.accounts.find("Ada")
    assert without is not None
    assert not without.has_second
    office.clock.forward(minutes=1)
    set_up(office, ada)
    assert "Remove second factor" in admin.get("/users").text
    admin.post("/users", do="factor", name="Ada")
    user = office.context.accounts.find("Ada")
    assert user is not None
    assert not user.has_second
    removed = office.context.audit.entries(action="second factor removed")
    assert [each["user"] for each in removed] == ["Chief", "Ada"]


def test_secret_lies_sealed_also_under_a_new_key(office: Office) -> None:
    """Nowhere in the journal in clear, in bytes or letters."""
    secret = set_up(office, office.browser("analyst", name="Ada"))
    rotate_key(office.journal)
    files = (office.folder / "home").glob("journal.sqlite*")
    held = b"".join(each.read_bytes() for each in files if each.is_file())
    assert secret.encode() not in held
    assert b32decode(secret) not in held
    browser = office.browser()
    browser.post("/sign-in", name="Ada", password=PASSWORD)
    assert browser.post("/second-factor", code=present_code(office, secret)).status_code == 303


def test_setting_names_roles() -> None:
    """A word that is no role is refused, not taken for nobody."""
    with pytest.raises(SettingsError, match="DESK_SECOND_FACTOR"):
        read_settings(_env_file=None, desk_second_factor="approvers")
    assert read_settings(_env_file=None, desk_second_factor="all").desk_second_factor == "all"
