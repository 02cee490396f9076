"""Who gets in, and for how long: links, passwords, second factor, sessions, wrong tries."""

from __future__ import annotations

import re
from base64 import b32decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyotp import TOTP
from sqlalchemy import select

from nightscreen.config.settings import read_settings
from nightscreen.desk.accounts import SignInSource, ThrottledError
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.records import Records
from nightscreen.journal.schema import failures
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import SettingsError, UsageError
from nightscreen.schemas.users import Role, User
from tests.desk.office import PASSWORD, QUICK, Browser, Office
from tests.desk.test_second_person import LINK

SESSION, DEVICE = "nightscreen-desk", "nightscreen-desk-device"
_FULL_WIDTH = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}
"""Digits that are digits to Python, and none to an authenticator."""


def wrong(browser: Browser, *names: str) -> list[int]:
    """Sign in with a wrong password under each name; return what was answered."""
    browser.cookies.pop(SESSION, None)
    return [browser.post("/sign-in", name=name, password="wrong one").status_code for name in names]


def right(browser: Browser, name: str, to: str = "/") -> int:
    """Sign in again with the right password; return what was answered."""
    browser.cookies.pop(SESSION, None)
    return browser.post("/sign-in", name=name, password=PASSWORD, to=to).status_code


def at(office: Office, address: str) -> Browser:
    browser = office.browser()
    browser.address = address
    return browser


def test_first_link_makes_a_user_with_every_role_and_works_once(office: Office) -> None:
    """The link printed at the first start signs its user in; nobody can use it again.

    A token of one kind opens nothing as another; nor does one that was changed. A link of a user
    who is not there, as after an older backup was restored, makes no first user.
    """
    token = office.context.accounts.first_link()
    browser = office.browser()
    assert "<h1>Sign in</h1>" in browser.get(f"/first?token={token}").text
    short = browser.post("/first", link=token, name="Ada Obi", password="short")
    assert (short.status_code, 'value="Ada Obi"' in short.text) == (400, True)
    made = browser.post("/first", link=token, name="Ada Obi", password=PASSWORD)
    assert (made.status_code, made.headers["location"]) == (303, "/")
    assert browser.get("/users").status_code == 200
    assert set(office.user("ada obi").roles) == set(Role)
    assert office.context.accounts.first_link() is None
    assert office.browser().get(f"/first?token={token}").status_code == 410
    again = office.browser().post("/first", link=token, name="Eve", password=PASSWORD)
    assert again.status_code == 410
    session = browser.cookies[SESSION]
    link = office.context.accounts.add("Bem", [Role.ADMINISTRATOR])
    for changed in (link, session[:-2] + "xx", "", "x.y.z"):
        browser.cookies[SESSION] = changed
        assert browser.get("/users").status_code == 303, changed
    assert office.browser().get(f"/first?token={session}").status_code == 410
    Records(office.journal, User).drop(["ada obi", "bem"])
    with pytest.raises(UsageError, match="was used already or has expired"):
        office.context.accounts.use_link(link, "Mallory", PASSWORD)
    assert office.context.accounts.users() == []


def test_signing_in_and_out(office: Office) -> None:
    """A session is opened, and ended also for who copied the cookie; no other site is led to.

    Two hours without a request end a session; so do twelve with requests.
    """
    office.browser("administrator", name="Ada")
    browser = office.browser()
    assert wrong(browser, "ada") == [401]
    answer = browser.post("/sign-in", name="ada", password=PASSWORD, to="/users")
    assert (answer.status_code, answer.headers["location"]) == (303, "/users")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    copied = office.browser()
    copied.cookies = dict(browser.cookies)
    assert copied.get("/users").status_code == 200
    out = browser.post("/sign-out").headers
    assert out["location"] == "/sign-in"
    assert f'{SESSION}=""' in out["set-cookie"]
    assert "Max-Age=0" in out["set-cookie"]
    assert copied.get("/users").status_code == 303
    assert office.actions() == ["sign-in failed", "signed in", "signed out"]
    idle, busy = office.browser("administrator"), office.browser("administrator", name="busy")
    for hour in range(1, 13):
        office.clock.forward(hours=1)
        assert busy.get("/users").status_code == (200 if hour < 12 else 303)
        if hour == 2:
            assert idle.get("/users").status_code == 303
    for foreign in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        answer = office.browser().post("/sign-in", name="ada", password=PASSWORD, to=foreign)
        assert answer.headers["location"] == "/"


def test_administrator_adds_users_by_a_link_and_resets_them(office: Office) -> None:
    """A reset ends the sessions there are and the links that are out; one is used once."""
    admin = office.browser("administrator")
    for name, status in (("x" * 60, 200), ("x" * 61, 400), ("\u202eada", 400), (" ", 400)):
        answer = admin.post("/users", do="add", name=name, role="analyst")
        assert answer.status_code == status, name
    (link, _) = LINK.findall(admin.post("/users", do="add", name="Bem", role="analyst").text)
    bem = office.browser()
    assert bem.post("/first", link=link, name="other", password=PASSWORD).status_code == 303
    assert admin.get("/users").status_code == 200
    assert office.context.accounts.find("other") is None
    assert bem.get("/audit").status_code == 403
    (second, _) = LINK.findall(admin.post("/users", do="reset", name="Bem").text)
    (third, _) = LINK.findall(admin.post("/users", do="reset", name="Bem").text)
    assert bem.get("/audit").status_code == 303
    for ended in (link, second):
        assert office.browser().get(f"/first?token={ended}").status_code == 410
    office.clock.forward(hours=25)
    assert office.browser().get(f"/first?token={third}").status_code == 410
    changes = {"desk_url": "https://desk.lender.example/x"}
    office.context.settings = office.settings.model_copy(update=changes)
    page = office.browser("administrator", name="B").post("/users", do="reset", name="Bem").text
    assert "https://desk.lender.example/first?token=" in page


def test_what_was_changed_meanwhile_stays_changed(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a password is hashed, while another administrator decides, while a form lies open.

    Whoever judged by what was there before is refused and would give it back; the page that a late
    form leads to shows what there is, and can be sent.
    """
    admin, accounts = office.browser("administrator"), office.context.accounts
    token, change = accounts.add("Bem", [Role.ANALYST, Role.PRIVACY]), accounts.change

    class Slow:
        def hash(self, password: str) -> str:
            change("Bem", [Role.ANALYST], branches=["Kano"])
            return QUICK.hash(password)

    with monkeypatch.context() as patched:
        patched.setattr(accounts, "_hasher", Slow())
        bem = accounts.use_link(token, "Bem", PASSWORD)
    assert (bem.roles, bem.branches, bool(bem.password)) == ((Role.ANALYST,), ("Kano",), True)

    def meanwhile() -> bool:
        patched.undo()
        change("Bem", [Role.PRIVACY])
        return False

    with monkeypatch.context() as patched:
        patched.setattr(accounts, "needs_two", meanwhile)
        with pytest.raises(UsageError, match="was changed meanwhile"):
            change("Bem", [Role.ANALYST, Role.PRIVACY, Role.APPROVER])
    assert office.user("Bem").roles == (Role.PRIVACY,)

    def shown() -> str:
        form = admin.get("/users").text.partition('name="name" value="Bem"')[2]
        (mark, *_) = re.findall(r'name="shown" value="(\w+)"', form)
        return str(mark)

    before = shown()
    change("Bem", [Role.ANALYST])
    save = {"do": "change", "name": "Bem", "role": ["analyst", "approver"], "branches": "Kano"}
    late = admin.post("/users", **save, shown=before)
    assert (late.status_code, "was changed meanwhile" in late.text) == (400, True)
    assert office.user("Bem").roles == (Role.ANALYST,)
    assert admin.post("/users", **save, shown=shown()).status_code == 200
    assert Role.APPROVER in office.user("Bem").roles


def test_wrong_passwords_are_held_up_where_they_come_from(office: Office) -> None:
    """Five of one name from one address wait a quarter of an hour; others go on."""
    for name in ("ada", "bem", "efe"):
        office.browser("analyst", name=name)
    known, stranger = office.browser(), office.browser()
    assert right(known, "ada") == 303
    assert wrong(stranger, *["ada"] * 6) == [401] * 5 + [429]
    assert [right(stranger, "Ada"), right(stranger, "bem"), right(known, "ada")] == [429, 303, 303]
    office.clock.forward(minutes=16)
    assert right(office.browser(), "ada") == 303
    assert set(wrong(stranger, *(f"user {n}" for n in range(60)))) == {401}
    assert 429 in wrong(stranger, *(f"user {n}" for n in range(60, 120)))
    assert [right(office.browser(), "efe"), right(known, "ada")] == [429, 303]
    assert right(at(office, "192.0.2.7"), "efe") == 303


def test_guesses_from_many_addresses_are_few_and_keep_no_known_device_out(office: Office) -> None:
    """Ten under one name; a line of IPv6 is one address; the name's own browsers go on."""
    office.browser("analyst", name="ada")
    known = office.browser()
    assert right(known, "ada") == 303
    answers = []
    for number in range(10):
        answers += wrong(at(office, f"192.0.2.{number}"), "ada", "ada")
    assert (answers.count(401), answers.count(429)) == (10, 10)
    assert right(at(office, "198.51.100.1"), "ada") == 429
    assert right(known, "ada") == 303
    assert wrong(known, *["ada"] * 4) == [401] * 4
    assert right(known, "ada") == 303
    assert wrong(known, *["ada"] * 2) == [401, 429]
    office.clock.forward(minutes=16)
    line = [wrong(at(office, f"2001:db8::{number}:1"), "ada")[0] for number in range(6)]
    assert line == [401] * 5 + [429]


def test_many_at_once_are_no_more_than_five_and_leave_room_for_known_devices(
    office: Office,
) -> None:
    """A try counts before its password is looked at; a right one counts no more."""
    office.browser("analyst", name="ada")
    known, accounts = office.browser(), office.context.accounts
    assert right(known, "ada") == 303
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(accounts.strangers)
        assert [right(office.browser(), "ada"), right(known, "ada")] == [429, 303]
    device = SignInSource("a device", known=True)
    for _ in range(7):
        assert accounts.check("ada", PASSWORD, device) is not None
    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(accounts.check, "ada", "wrong one", device) for _ in range(8)]
    assert sum(isinstance(each.exception(), ThrottledError) for each in tries) == 3
    with office.journal.database.reading() as connection:
        assert len(connection.execute(select(failures)).all()) == 5


def test_pages_keep_to_themselves_and_secrets_lie_nowhere_in_clear(
    office: Office, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing cached, no script but our own; the journal holds neither password nor session."""
    answer = office.browser().get("/sign-in")
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    large = {"name": "x" * 300_000, "password": "y"}
    assert office.browser().ask("POST", "/sign-in", data=large).status_code == 413
    assert office.browser().get("/static/%2e%2e%2fbase.html.j2").status_code == 404
    capsys.readouterr()
    assert office.browser().get("/static/desk.css").status_code == 200
    assert "page=static" in capsys.readouterr().err
    browser = office.browser("analyst")
    browser.get("/")
    files = (office.folder / "home").glob("journal.sqlite*")
    held = b"".join(each.read_bytes() for each in files if each.is_file())
    for secret in (PASSWORD, browser.cookies[SESSION], "$argon2"):
        assert secret.encode() not in held
    assert (office.folder / "home" / "journal.sqlite").stat().st_mode & 0o777 == 0o600


# --- the second factor ---


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
    code = present_code(office, secret)
    answer = browser.post("/second-factor", secret=secret, code=code, do="set up")
    assert answer.status_code == 303
    office.clock.forward(seconds=60)
    return secret


def test_code_is_asked_for_after_the_password_and_counts_once(office: Office) -> None:
    """Nothing opens between password and code; a code that was used signs nobody else in.

    Sessions that were begun with the password alone end when it is set up, others go on.
    """
    ada, other = office.browser("analyst", name="Ada"), office.browser("auditor", name="Bem")
    before = office.browser()
    assert right(before, "Ada") == 303
    secret = set_up(office, ada)
    assert before.get("/runs").headers["location"].startswith("/sign-in")
    assert [each.get("/runs").status_code for each in (ada, other)] == [200, 200]
    first, second = office.browser(), office.browser()
    for browser in (first, second):
        answer = browser.post("/sign-in", name="Ada", password=PASSWORD, to="/runs")
        assert (answer.status_code, answer.headers["location"]) == (303, "/second-factor?to=/runs")
        assert browser.get("/runs").headers["location"].startswith("/sign-in")
    code = present_code(office, secret)
    let_in = first.post("/second-factor", code=code, to="/runs")
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/runs")
    assert first.get("/runs").status_code == 200
    assert second.post("/second-factor", code=code).status_code == 401
    office.clock.forward(seconds=30)
    late = second.post("/second-factor", code=present_code(office, secret))
    assert late.status_code == 303
    assert office.actions()[-3:] == ["signed in", "second factor failed", "signed in"]


def test_codes_of_a_clock_a_little_off_count_and_wrong_ones_are_held_up(office: Office) -> None:
    """Half a minute to either side; after five wrong ones the password must be given again."""
    secret = set_up(office, office.browser("analyst", name="Ada"))
    for steps, status in ((-2, 401), (2, 401), (-1, 303), (1, 303)):
        browser = office.browser()
        right(browser, "Ada")
        answer = browser.post("/second-factor", code=present_code(office, secret, steps))
        assert answer.status_code == status, steps
    office.clock.forward(minutes=16)
    browser = office.browser()
    right(browser, "Ada")
    code = present_code(office, secret)
    other = str((int(code) + 1) % 10**6).zfill(6)
    for typed in (other, "", "abc", code.translate(_FULL_WIDTH), other):
        assert browser.post("/second-factor", code=typed).status_code == 401
    assert browser.post("/second-factor", code=code).status_code == 429
    office.clock.forward(minutes=16)
    assert browser.get("/second-factor").headers["location"] == "/sign-in"
    right(browser, "Ada")
    assert browser.post("/second-factor", code=present_code(office, secret)).status_code == 303


def test_who_must_have_one_sets_it_up_before_anything_opens(tmp_path: Path) -> None:
    """The settings name roles; sessions without one open nothing, analysts go on as before."""
    with Office(tmp_path, changes={"desk_second_factor": "approver,administrator"}) as strict:
        assert strict.browser("analyst", name="Ada").get("/").status_code == 200
        bem = strict.browser("approver", name="Bem")
        assert bem.get("/approvals").status_code == 303
        answer = bem.post("/sign-in", name="Bem", password=PASSWORD, to="/approvals")
        assert answer.headers["location"] == "/second-factor?to=/approvals"
        secret = shown_secret(bem.get("/second-factor").text)
        given = {"secret": secret, "do": "set up", "to": "/approvals"}
        refused = bem.post("/second-factor", code="000000", **given)
        assert (refused.status_code, shown_secret(refused.text)) == (401, secret)
        assert bem.get("/approvals").status_code == 303
        done = bem.post("/second-factor", code=present_code(strict, secret), **given)
        assert (done.status_code, done.headers["location"]) == (303, "/approvals")
        assert bem.get("/approvals").status_code == 200
        assert ">Remove<" not in bem.get("/second-factor").text
        assert strict.actions()[-2:] == ["second factor set up", "signed in"]
    with pytest.raises(SettingsError, match="DESK_SECOND_FACTOR"):
        read_settings(_env_file=None, desk_second_factor="approvers")


def test_factor_is_removed_by_its_user_with_a_code_or_by_an_administrator(office: Office) -> None:
    """It lies sealed, also under a new key; the audit has who removed it."""
    ada = office.browser("analyst", name="Ada")
    admin = office.browser("administrator", name="Chief")
    secret = set_up(office, ada)
    rotate_key(office.journal)
    files = (office.folder / "home").glob("journal.sqlite*")
    held = b"".join(each.read_bytes() for each in files if each.is_file())
    assert secret.encode() not in held
    assert b32decode(secret) not in held
    assert ada.post("/second-factor", code="000000", do="remove").status_code == 401
    code = present_code(office, secret)
    assert ada.post("/second-factor", code=code, do="remove").status_code == 303
    assert not office.user("Ada").second
    office.clock.forward(minutes=1)
    set_up(office, ada)
    assert "Remove second factor" in admin.get("/users").text
    admin.post("/users", do="factor", name="Ada")
    assert not office.user("Ada").second
    removed = office.context.audit.find(AuditQuery(action="second factor removed"))
    assert [each["user"] for each in removed] == ["Chief", "Ada"]
