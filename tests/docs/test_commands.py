"""Every command line of README and docs: its options exist, and typed in a session it works.

The session is one child process against a simulator: `tests/docs/session.py`. Lines that are not
typed there are named below, each with the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.docs.blocks import inline, ours, words_of
from tests.docs.commands import walk
from tests.docs.prepare import lay_out
from tests.docs.session import PREPARE, RUN, Typed, type_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.command import Ended
    from tests.services import EngineServer

COMMANDS = dict(walk())
GROUPS = {" ".join(words.split()[:n]) for words in COMMANDS for n in range(1, len(words.split()))}
CALLBACK = "http://127.0.0.1:8080/consent/callback"
SCOPES = ("transaction:list", "bank_account:list")
STANDS_FOR = {
    "RUN_ID": RUN,
    "CUSTOMER_ID": "CUST-0000004",
    "[--batch NAME]": "--batch borrowers",
    "--output DIR": "--output access",
}
"""Placeholders, and what a user would write for them."""

NOT_TYPED = {
    "nightscreen inbox": "it watches until it is stopped; with --once it is typed",
    "nightscreen demo": "it screens two nights: tests/demo does",
    "nightscreen sandbox": "it runs until it is stopped: tests/sandbox/test_process.py",
    "nightscreen up": "it runs until it is stopped: tests/cli/test_up.py",
    "nightscreen desk": "it runs until it is stopped: tests/desk/test_server.py",
    "nightscreen portal": "it runs until it is stopped: tests/portal/test_server.py",
    "nightscreen journal settle": "it needs a call with a disputed cost: tests/cli/test_settle.py",
    "nightscreen quote customers.csv --checks phone_owner": "it needs a package: tests/added",
    "nightscreen screen customers.csv --checks bank_account,karma,phone_owner": (
        "it needs a package: tests/added"
    ),
}
ONLY_QUOTED = re.compile(r"^nightscreen screen (?!customers\.csv --max-spend 250000$)(?!--run)")
"""Screenings beyond the first: their options, file and plan are tried, the asking is not."""
LAST = (
    *("nightscreen consent revoke", "nightscreen journal backup", "nightscreen journal restore"),
    "nightscreen journal rotate-key",
    *("nightscreen purge", "nightscreen erase"),
)
"""Lines that take something away, or change the log, as they are typed at the end."""
SURROUNDED = {
    "nightscreen journal restore backups/2026-03-02": {"NIGHTSCREEN_HOME": "restored"},
    "nightscreen journal restore backups/2026-03-01": {
        "NIGHTSCREEN_HOME": "restored with its key",
        "NIGHTSCREEN_DATA_KEY": "@.nightscreen/data.key",
    },
    "nightscreen journal rotate-key --new-key": {
        "NIGHTSCREEN_HOME": "restored",
        "NIGHTSCREEN_DATA_KEY": "@restored/data.key",
    },
}
"""Where a line needs settings of its own; @ stands for what a file holds."""
WITHOUT_TERMINAL = {"nightscreen erase": "--yes"}
"""What stands for the answer that a person would type."""
ENDS_OTHERWISE = {
    "nightscreen approve": (2, "does not wait for approval"),
    "nightscreen consent redeem --customer CUST-0000004 --code": (2, "ask the customer to consent"),
    "nightscreen runs release": (2, "is not held"),
    "nightscreen notices confirm": (2, "for origination"),
    "nightscreen erase --customer-id CUST-0000004 --batch": (2, "nothing is held of this person"),
    "nightscreen erase --bvn": (2, "nothing is held of this person"),
}
"""Lines that end with another status than 0 here, and what is said: the example is nobody's, or the
line before it has done it all already."""


def option_mistakes(command: str) -> list[str]:
    """Return what is wrong with a line: an unknown command, or options it does not have."""
    words = words_of(command)
    path: list[str] = []
    while words and " ".join([*path, words[0]]) in COMMANDS.keys() | GROUPS:
        path.append(words.pop(0))
    found = COMMANDS.get(" ".join(path))
    if found is None:
        known = " ".join(path) in GROUPS or command.split()[1].startswith(("--", "COMMAND"))
        return [] if known else [f"no such command: {command}"]
    options = {name for each in found.params for name in each.opts} | {"--help", "-h"}
    given = [word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?--", word)]
    return [name for name in given if name not in options]


@pytest.mark.parametrize(("command", "where"), [*ours(), *inline()])
def test_a_command_and_its_options_exist(command: str, where: str) -> None:
    """Also where a sentence names it."""
    assert not option_mistakes(command), where


def test_a_misspelt_option_would_be_found() -> None:
    """The test above can fail."""
    assert option_mistakes("nightscreen screen customers.csv --max-spent 5") == ["--max-spent"]
    assert option_mistakes("nightscreen scren customers.csv")


def not_typed(line: str) -> str | None:
    """Return why a line is not typed in the session; None where it is."""
    if "--once" in line:
        return None
    return next((why for start, why in NOT_TYPED.items() if line.startswith(start)), None)


def typed_lines() -> list[str]:
    """Return the lines of the session in the order in which they are typed."""
    lines = [line for line, _ in ours() if not_typed(line) is None]
    order = {start: place for place, start in enumerate(LAST)}
    return sorted(
        lines, key=lambda line: max((order[s] for s in LAST if line.startswith(s)), default=-1)
    )


def typed(line: str) -> Typed:
    """Return a line as it is typed."""
    text = line
    for made_up, real in STANDS_FOR.items():
        text = text.replace(made_up, real)
    words = words_of(text)
    if ONLY_QUOTED.match(line):
        words.append("--quote-only")
    words += [answer for start, answer in WITHOUT_TERMINAL.items() if line.startswith(start)]
    starts = [start for start in SURROUNDED if line.startswith(start)]
    return Typed(line, words, SURROUNDED[starts[0]] if starts else {})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """The service."""
    with SandboxProcess() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, sandbox: SandboxProcess, engine_server: EngineServer
) -> dict[str, Ended]:
    """Type everything, once."""
    folder = tmp_path_factory.mktemp("session")
    lay_out(folder)
    settings = {
        **engine_server.client,
        "NIGHTSCREEN_BASE_URL": sandbox.url,
        "NIGHTSCREEN_API_KEY": sandbox.api_key,
        "NIGHTSCREEN_CONSENT_URL": sandbox.url,
        "NIGHTSCREEN_CLIENT_ID": "sandbox-client",
        "NIGHTSCREEN_REDIRECT_URI": CALLBACK,
        "NIGHTSCREEN_INBOX_SETTLE_S": "0",
    }
    first = "nightscreen screen customers.csv --max-spend 250000"
    lines = typed_lines()
    lines.remove(first)
    steps = []
    for customer in ("CUST-0000004", "CUST-0000009"):
        code = sandbox.grant(f"{customer.lower()}@x.example", SCOPES, CALLBACK)
        scopes = [word for scope in SCOPES for word in ("--scope", scope)]
        words = ["consent", "redeem", "--customer", customer, *scopes, "--code", code]
        steps.append(Typed(f"(consent of {customer})", words))
    steps += [typed(first), Typed("(borrowers)", ["screen", "borrowers.csv"])]
    steps.append(Typed("(list)", [PREPARE, "list"]))
    for line in lines:
        steps.append(typed(line))
        if line.startswith("nightscreen bvn request"):
            steps.append(Typed("(passwords)", [PREPARE, "passwords", sandbox.url]))
    return type_all(folder, steps, settings, patience_s=300)


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.xdist_group("docs")
@pytest.mark.parametrize("line", typed_lines())
def test_a_command_line_works(line: str, session: dict[str, Ended]) -> None:
    """It ends with 0, or as it is said that it must here; nothing unexpected is said."""
    ended = session[line]
    starts = [start for start in ENDS_OTHERWISE if line.startswith(start)]
    status, says = ENDS_OTHERWISE[starts[0]] if starts else (0, "")
    assert ended.status == status, ended.err
    assert says in ended.out + ended.err
    assert "unexpected" not in ended.err


def test_every_exception_is_still_needed() -> None:
    """A line that is gone leaves no exception behind."""
    lines = [line for line, _ in ours()]
    for start in (*NOT_TYPED, *LAST, *SURROUNDED, *ENDS_OTHERWISE):
        assert any(line.startswith(start) for line in lines), start
