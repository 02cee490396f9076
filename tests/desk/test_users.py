"""Who gets in, for how long, with which rights; and what is written down of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from nightscreen.desk.accounts import HeldUpError, Role
from nightscreen.journal.schema import failures
from nightscreen.schemas.errors import UsageError
from tests.desk.office import ORIGIN, PASSWORD, Browser, Office

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office


def test_first_link_makes_a_user_with_every_role_and_works_once(office: Office) -> None:
    """The link printed at the first start signs its user in; nobody can use it again."""
    token = office.context.accounts.first_link()
    browser = office.browser()
    page = browser.get(f"/first?token={token}")
    assert page.status_code == 200
    assert "<h1>Sign in</h1>" in page.text
    made = browser.post("/first", link=token, name="Ada Obi", password=PASSWORD)
    assert (made.status_code, made.headers["location"]) == (303, "/")
    assert browser.get("/users").status_code == 200
    user = office.context.accounts.find("ada obi")
    assert user is not None
    assert set(user.roles) == set(Role)
    assert office.context.accounts.first_link() is None
    assert office.browser().get(f"/first?token={token}").status_code == 410


def test_signing_in_and_out(office: Office) -> None:
    """A name and a password open a session; signing out ends it, also for who copied the cookie."""
    office.browser("administrator", name="Ada")
    browser = office.browser()
    assert browser.post("/sign-in", name="ada", password="not it at all").status_code == 401
    answer = browser.post("/sign-in", name="ada", password=PASSWORD, to="/users")
    assert (answer.status_code, answer.headers["location"]) == (303, "/users")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    copied = office.browser()
    copied.cookies = dict(browser.cookies)
    assert copied.get("/users").status_code == 200
    assert browser.post("/sign-out").headers["location"] == "/sign-in"
    assert copied.get("/users").status_code == 303
    assert office.actions() == ["sign-in failed", "signed in", "signed out"]


def test_address_to_go_on_to_is_one_of_ours(office: Office) -> None:
    """Signing in never leads to another site."""
    office.browser("analyst", name="ada")
    for foreign in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        answer = office.browser().post("/sign-in", name="ada", password=PASSWORD, to=foreign)
        assert answer.headers["location"] == "/"


def test_many_wrong_passwords_are_held_up_and_let_in_later(office: Office) -> None:
    """After five wrong ones even the right one waits a quarter of an hour, for that name alone."""
    office.browser("administrator", name="ada")
    office.browser("administrator", name="bem")
    browser = office.browser()
    for _ in range(5):
        assert browser.post("/sign-in", name="ada", password="wrong one").status_code == 401
    assert browser.post("/sign-in", name="Ada", password=PASSWORD).status_code == 429
    assert browser.post("/sign-in", name="bem", password=PASSWORD).status_code == 303
    office.clock.forward(minutes=16)
    assert office.browser().post("/sign-in", name="ada", password=PASSWORD).status_code == 303


def wrong(browser: Browser, *names: str) -> list[int]:
    """Sign in with a wrong password under each name; return what was answered."""
    browser.cookies.pop("nightscreen-desk", None)
    return [browser.post("/sign-in", name=name, password="wrong one").status_code for name in names]


def right(browser: Browser, name: str) -> int:
    """Sign in again with the right password; return what was answered."""
    browser.cookies.pop("nightscreen-desk", None)
    return browser.post("/sign-in", name=name, password=PASSWORD).status_code


def test_wrong_passwords_under_any_names_keep_nobody_else_out(office: Office) -> None:
    """Sixty from one address do not matter elsewhere, nor there to who was never wrong."""
    for name in ("ada", "bem", "efe"):
        office.browser("analyst", name=name)
    known = office.browser()
    assert right(known, "ada") == 303
    stranger = office.browser()
    assert set(wrong(stranger, *(f"user {n}" for n in range(60)))) == {401}
    assert right(office.browser(), "bem") == 303
    assert 429 in wrong(stranger, *(f"user {n}" for n in range(60, 120)))
    assert right(office.browser(), "efe") == 429
    assert right(known, "ada") == 303
    elsewhere = office.browser()
    elsewhere.address = "192.0.2.7"
    assert right(elsewhere, "efe") == 303


def test_guesses_from_many_addresses_are_few_and_keep_no_known_device_out(office: Office) -> None:
    """Ten under one name, wherever they come from; the name's own browsers go on."""
    office.browser("analyst", name="ada")
    known = office.browser()
    assert right(known, "ada") == 303
    answers = []
    for number in range(10):
        stranger = office.browser()
        stranger.address = f"192.0.2.{number}"
        answers += wrong(stranger, "ada", "ada")
    assert answers.count(401) == 10
    assert answers.count(429) == 10
    fresh = office.browser()
    fresh.address = "198.51.100.1"
    assert right(fresh, "ada") == 429
    assert right(known, "ada") == 303
    assert wrong(known, *["ada"] * 6) == [401] * 5 + [429]


def test_an_ipv6_line_is_one_address(office: Office) -> None:
    """Whoever has a network of addresses has no more tries for it."""
    office.browser("analyst", name="ada")
    answers = []
    for number in range(6):
        stranger = office.browser()
        stranger.address = f"2001:db8::{number}:1"
        answers += wrong(stranger, "ada")
    assert answers == [401] * 5 + [429]


def test_a_device_is_known_for_who_signed_in_from_it(office: Office) -> None:
    """Its word is of no use for another name, nor one that was set by somebody else."""
    for name in ("ada", "bem"):
        office.browser("analyst", name=name)
    planted = office.browser()
    planted.cookies["nightscreen-desk-device"] = "word of somebody else"
    assert right(planted, "ada") == 303
    assert planted.cookies["nightscreen-desk-device"] != "word of somebody else"
    for number in range(2):
        stranger = office.browser()
        stranger.address = f"192.0.2.{number}"
        wrong(stranger, *["bem"] * 5)
    assert right(planted, "bem") == 429
    assert right(planted, "ada") == 303
    office.clock.forward(minutes=16)
    assert right(planted, "bem") == 303
    assert office.context.accounts.source(
        "ada", planted.cookies["nightscreen-desk-device"], ""
    ).known
    office.context.accounts.reset("ada")
    source = office.context.accounts.source("ada", planted.cookies["nightscreen-desk-device"], "")
    assert not source.known


def test_sign_ins_of_strangers_leave_room_for_known_devices(office: Office) -> None:
    """However many wait for their password to be looked at at once."""
    office.browser("analyst", name="ada")
    known, accounts = office.browser(), office.context.accounts
    assert right(known, "ada") == 303
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(accounts.strangers)
        assert right(office.browser(), "ada") == 429
        assert right(known, "ada") == 303
    assert right(office.browser(), "ada") == 303


def test_sessions_end_by_idling_and_after_a_working_day(office: Office) -> None:
    """Two hours without a request end a session; so do twelve with requests."""
    idle, busy = office.browser("administrator"), office.browser("administrator", name="busy")
    for _ in range(11):
        office.clock.forward(minutes=65)
        assert busy.get("/users").status_code == 200
    assert idle.get("/users").status_code == 303
    office.clock.forward(minutes=65)
    assert busy.get("/users").status_code == 303


def test_administrator_adds_users_by_a_link_and_resets_them(office: Office) -> None:
    """The page gives a link that sets a password; a reset ends the sessions there are."""
    admin = office.browser("administrator")
    page = admin.post("/users", do="add", name="Bem", role="analyst")
    link = page.text.partition(f"{ORIGIN}/first?token=")[2].partition('"')[0]
    bem = office.browser()
    made = bem.post("/first", link=link, name="other", password=PASSWORD)
    assert made.status_code == 303
    assert admin.get("/users").status_code == 200
    assert office.context.accounts.find("other") is None
    assert bem.get("/audit").status_code == 403
    assert admin.post("/users", do="reset", name="Bem").status_code == 200
    assert bem.get("/audit").status_code == 303


def test_right_is_given_and_taken_beside_the_roles(office: Office) -> None:
    """A right of its own outweighs what the roles say, either way."""
    accounts = office.context.accounts
    accounts.add("ada", [Role.ANALYST])
    assert accounts.change("ada", [], {"export": False}).may("export") is False
    assert accounts.change("ada", [Role.AUDITOR], {"export": True}).may("export") is True


def test_last_administrator_stays(office: Office) -> None:
    """Nobody can lock everybody out of the page of users."""
    office.browser("administrator", name="ada")
    with pytest.raises(UsageError, match="only administrator"):
        office.context.accounts.change("ada", [Role.ANALYST])


def test_form_from_another_site_changes_nothing(office: Office) -> None:
    """A page elsewhere cannot add a user in an administrator's name."""
    admin = office.browser("administrator")
    fields = {"do": "add", "name": "eve", "role": "administrator"}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = admin.ask("POST", "/users", data=fields, headers=headers)
        assert answer.status_code == 403
    assert office.context.accounts.find("eve") is None


def test_pages_bear_the_headers_that_keep_them_to_themselves(office: Office) -> None:
    """Nothing is cached, no script but our own runs, no other site can frame a page."""
    answer = office.browser().get("/sign-in")
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text


def test_other_hosts_and_large_forms_are_refused(office: Office) -> None:
    """A name that points here by somebody's DNS gets nothing; nor does a body without end."""
    stranger = office.browser()
    assert stranger.ask("GET", "/sign-in", headers={"host": "evil.example"}).status_code == 421
    large = {"name": "x" * 300_000, "password": "y"}
    assert stranger.ask("POST", "/sign-in", data=large).status_code == 413
    assert stranger.get("/static/../../pyproject.toml").status_code == 404
    assert stranger.get("/static/%2e%2e%2fbase.html.j2").status_code == 404


def test_passwords_and_tokens_lie_nowhere_in_clear(office: Office) -> None:
    """The journal holds digests alone, and its file is its owner's."""
    browser = office.browser("analyst")
    browser.get("/")
    files = (office.folder / "home").glob("journal.sqlite*")
    held = b"".join(each.read_bytes() for each in files if each.is_file())
    assert PASSWORD.encode() not in held
    assert browser.cookies["nightscreen-desk"].encode() not in held
    assert (office.folder / "home" / "journal.sqlite").stat().st_mode & 0o777 == 0o600


def test_many_tries_at_once_are_no_more_than_five(office: Office) -> None:
    """A try counts before its password is looked at; a right one counts no more."""
    office.browser("administrator", name="ada")
    accounts = office.context.accounts
    for _ in range(7):
        assert accounts.check("ada", PASSWORD) is not None
    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(accounts.check, "ada", "wrong one") for _ in range(8)]
    assert sum(isinstance(each.exception(), HeldUpError) for each in tries) == 3
    assert len(accounts.rows(select(failures))) == 5
    with pytest.raises(HeldUpError):
        accounts.check("ada", PASSWORD)


def test_link_for_a_password_has_the_address_people_use(office: Office) -> None:
    """Behind a proxy the desk's own address is of no use to them."""
    office.context.settings = office.settings.model_copy(
        update={"desk_url": "https://desk.lender.example/x"}
    )
    browser = office.browser("administrator")
    page = browser.post("/users", do="add", name="Bem", role="analyst").text
    assert "https://desk.lender.example/first?token=" in page


def test_two_administrators_who_give_up_at_once_leave_one(office: Office) -> None:
    """Each looked before the other changed: the second finds that nobody else is left."""
    accounts = office.context.accounts
    accounts.use_link(accounts.first_link() or "", "Ada", PASSWORD)
    accounts.use_link(accounts.add("Bem", [Role.ADMINISTRATOR], by="Ada"), "Bem", PASSWORD)
    both = accounts.users()
    accounts.users = lambda: both  # type: ignore[method-assign]  # what each saw at first
    accounts.change("Bem", [Role.ANALYST], by="Bem")
    with pytest.raises(UsageError, match="is the only administrator"):
        accounts.change("Ada", [Role.ANALYST, Role.APPROVER], by="Ada")
