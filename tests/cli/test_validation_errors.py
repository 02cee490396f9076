"""Bad input and bad settings: one clear line, exit status 2, nothing spent, nothing left behind."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Here

GOOD = "customer_id,bvn,account_number,bank_code\nC1,22123456789,9990000004,058\n"
KEY = base64.b64encode(b"k" * 32).decode()


@dataclass(frozen=True)
class Mistake:
    """What a user gets wrong, and words that must stand in the line about it."""

    says: str
    arguments: tuple[str, ...] = ("good.csv",)
    files: dict[str, bytes] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


def _file(name: str, content: bytes, says: str) -> Mistake:
    return Mistake(says, (name,), {name: content})


def _mapping(content: bytes, says: str) -> Mistake:
    return Mistake(says, ("good.csv", "--mapping", "m.toml"), {"m.toml": content})


def _setting(name: str, value: str, says: str) -> Mistake:
    return Mistake(says, settings={f"NIGHTSCREEN_{name}": value})


def _option(name: str, value: str, says: str) -> Mistake:
    return Mistake(says, ("good.csv", name, value))


MISTAKES = {
    "missing file": Mistake("no such file; check the path", ("god.csv",)),
    "no file": Mistake("no input file was given", ()),
    "binary": _file("e.csv", b"customer_id\nC1\x00\x01\x02\xff\xfe\x81,2\n", "not a text file"),
    "named after somebody": _file("kyc 22212345678.csv", b"customer_id\nC1\n", "rename the file"),
    "check": _option("--checks", "karmaa", "did you mean karma?"),
    "no check": _option("--checks", " ", "--checks: name at least one"),
    "naira": _option("--max-spend", "N5,000", "--max-spend: write naira"),
    "karma identity": _option("--karma-identities", "fone", "did you mean phone?"),
    "karma by image": _option(
        "--karma-identities", "image", "--karma-identities: karma cannot be asked by image: the"
    ),
    "thresholds": _setting("SELFIE_MATCH_AT", "60", "NIGHTSCREEN_SELFIE_NO_MATCH_BELOW: is 70"),
    "age": _setting("FRESHNESS__KARMA__CLEAR", "-1", "must be a number of days such as 30, or"),
    "age of ages": _setting("FRESHNESS__KARMA__CLEAR", "9" * 12, "must be a number of days"),
    "mapping broken": _mapping(b"[columns\n", "not valid TOML"),
    "http": _setting("BASE_URL", "http://service.example", "must begin with https://"),
    "password in url": _setting("BASE_URL", "https://u:hush@service.example", "user name"),
    "key in url": _setting("BASE_URL", "https://service.example/?key=hush", "BASE_URL"),
    "port": _setting("BASE_URL", "https://service.example:hush", "BASE_URL"),
    "no address": _setting("BASE_URL", "", "NIGHTSCREEN_BASE_URL is not set"),
    "no key": _setting("API_KEY", "", "NIGHTSCREEN_API_KEY is not set"),
    "key with a line end": _setting("API_KEY", "hush\nhush", "NIGHTSCREEN_API_KEY"),
    "key of other letters": _setting("API_KEY", "ключ", "NIGHTSCREEN_API_KEY"),
    "data key": _setting("DATA_KEY", "hush!", "NIGHTSCREEN_DATA_KEY"),
    "short data key": _setting("DATA_KEY", "aHVzaA==", "32 bytes"),
    "home": _setting("HOME", "/dev/null/home", "NIGHTSCREEN_HOME: cannot write"),
    "journal": _setting("JOURNAL_URL", "hush", "NIGHTSCREEN_JOURNAL_URL"),
    "misspelt setting": _setting(
        "MAX_IN_FLIHGT__KARMA", "3", "did you mean NIGHTSCREEN_MAX_IN_FLIGHT__KARMA?"
    ),
    "misspelt part": _setting(
        "MAX_IN_FLIGHT__KARM", "3", "did you mean NIGHTSCREEN_MAX_IN_FLIGHT__KARMA?"
    ),
    "group": _setting("TIMEOUT_S", "hush", "NIGHTSCREEN_TIMEOUT_S__BANK_ACCOUNT"),
    "no number": _setting("MAX_IN_FLIGHT__KARMA", "hush", "NIGHTSCREEN_MAX_IN_FLIGHT__KARMA"),
    "output is a file": _option("--output", "good.csv", "--output: cannot write"),
    "output": _option("--output", "/dev/null/out", "--output: cannot write"),
    "output without a driver": _option("--output", "nosuchthing://bucket/out", "no driver for"),
    "workers without a server": _option("--workers", "2", "set PREFECT_API_URL"),
    "deadline": _option("--deadline", "dawn", "--deadline: write a time of day"),
    "no such time": _option("--deadline", "25:00", "the deadline 25:00 cannot be read"),
    "past deadline": _option("--deadline", "2020-01-01T06:00", "has passed"),
    "purpose": _option("--purpose", "fun", "fun is none of portfolio, origination"),
    "policy": _option("--policy", "p.toml", "the policy p.toml cannot be read"),
    "shadow": _option("--shadow", "p.toml", "the policy p.toml cannot be read"),
    "freshness": _option("--freshness", "karma=1", "freshness karma=1 cannot be read"),
    "batch": _option("--batch", "x" * 81, "--batch: write at most 80 characters"),
    "batch named after somebody": _option(
        "--batch", "08031234567", "--batch: holds what looks like"
    ),
    "unknown run": Mistake("there is no run 2020", ("--run", "2020")),
    "odd run": Mistake("--run: an id holds letters", ("--run", "../etc")),
    "dotenv": Mistake("cannot be read: save it as UTF-8", files={".env": b"A=\xff\xfe"}),
}


@pytest.fixture
def tree(folder: Path) -> Path:
    """Return a working directory with one good file in it."""
    (folder / "good.csv").write_text(GOOD, encoding="utf-8")
    return folder


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_in_one_line_and_leaves_nothing(
    mistake: Mistake, tree: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, no secret, no run folder, no engine; the document on stdout says it too."""
    for name, content in mistake.files.items():
        (tree / name).write_bytes(content)
    for name, value in mistake.settings.items():
        monkeypatch.setenv(name, value)
    before = _everything(tree)
    ended = here("screen", *mistake.arguments, "--json")
    assert ended.status == 2
    assert mistake.says in ended.err
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("nightscreen: ")
    assert "hush" not in ended.err + ended.out
    assert "22212345678" not in ended.err + ended.out
    assert ended.document == {"error": ended.err[13:-1], "exit_status": 2}
    left = _everything(tree) - before
    if "--workers" in mistake.arguments:  # Prefect's settings are read after the journal
        left = {path for path in left if not path.startswith(".nightscreen")}
    assert left == set()


def _everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_wrong_key_and_a_name_that_is_no_setting_leave_the_journal_as_it_was(
    tree: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right key opens it again afterwards.

    The name is reported once, also by a command that reads the settings and opens the journal.
    """
    assert here("quote", "good.csv").status == 0
    with monkeypatch.context() as patched:
        patched.setenv("NIGHTSCREEN_DATA_KEY", KEY)
        ended = here("screen", "good.csv")
    assert (ended.status, "the data key is not this journal's" in ended.err) == (2, True)
    assert here("runs", "list", "--json").document == {"runs": []}
    monkeypatch.setenv("NIGHTSCREEN_QQQQQ", "1")
    listed = ("erase", "--customer-id", "-", "--yes")
    for words in (("runs", "list"), ("outcomes", "report"), ("purge", "--dry-run"), listed):
        said = here(*words, given="A\nB\n").err
        assert said.count("NIGHTSCREEN_QQQQQ is no setting") == 1, words


OFFER = ("loans", "offer", "nothing")
COMMANDS: list[tuple[tuple[str, ...], str]] = [
    (("scren",), "Did you mean 'screen'?"),
    (("screen", "--chekcs", "karma"), "No such option: --chekcs. Did you mean '--checks'?"),
    (("quote",), "see: nightscreen quote --help"),
    (("runs", "lst"), "Did you mean 'list'?"),
    (("runs", "show", "x"), "there is no journal"),
    (("inspect", "x.csv"), "there is no such file"),
    (("quote", "good.csv", "--checks", "carma"), "did you mean karma?"),
    (("sandbox", "--scenario", "stormy"), "stormy is none of calm"),
    (("sandbox", "--port", "99999"), "--port"),
    (("demo", "--rows", "0"), "--rows"),
    (("demo", "--output", "good.csv"), "--output: good.csv is a file"),
    (("demo", "--output", "."), "holds something that no demo made"),
    ((), "Usage: "),
    (("loans", "offer"), "name the folder of a finished screening run"),
    (("loans", "offer", "out/nothing"), "name the product with --product"),
    ((*OFFER, "--product", "LP1001"), "no folder of a finished run"),
    ((*OFFER, "--product", "LP1001", "--decision", "yes"), "--decision: yes is none of approve"),
    ((*OFFER, "--product", "LP1001", "--decision", "aprove"), "did you mean approve"),
    ((*OFFER, "--product", "LP1001", "--prefill", "fax"), "fax is none of phone, email"),
    ((*OFFER, "--product", "LP1001", "--max-spend", "much"), "--max-spend: write naira such as"),
]
GONE: list[tuple[tuple[str, ...], str]] = [
    (("accounts", "pull"), "transactions pull --accounts"),
    (("automations", "install"), "prefect automation create --from-file"),
    (("contest", "list"), "Contests"),
    (("refuse", "20260301-220000-a1b2c3"), "approve RUN_ID --refuse"),
    (("journal", "spend"), "Money"),
    (("journal", "rotate-links", "--at-once"), "journal rotate-key --links"),
    (("notices", "action", "CUST-0000004"), "page of the customer"),
    (("notices", "confirm", "20260301-220000-a1b2c3"), "page of the run"),
    (("notices", "write", "20260301-220000-a1b2c3"), "at the desk"),
    (("policy", "list"), "Policy"),
    (("desk", "audit"), "Audit"),
    (("desk", "user", "role", "ada"), "Users"),
    (("screen", "good.csv", "--log-format=json"), "--json prints the report"),
    (("demo", "--keep"), "each demo begins afresh"),
]
"""Commands and options there were, and what takes the place of each."""


def test_every_command_tells_its_mistakes(tree: Path, here: Here) -> None:
    """In one line on stderr, but for the list of commands; with --json as one document."""
    for arguments, says in (*COMMANDS, *GONE):
        ended = here(*arguments)
        assert (ended.status, ended.out) == (2, ""), (arguments, says)
        assert not arguments or ended.err.count("\n") == 1, arguments
        assert says in ended.err, (arguments, says)
        document = here(*arguments, "--json").document
        assert document["exit_status"] == 2, (arguments, says)
        assert sorted(each.name for each in tree.iterdir()) == ["good.csv"], (arguments, says)


def test_an_unexpected_fault_shows_no_traceback_and_no_value(
    tree: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback could hold what a customer's row holds."""

    def break_down(*_: object, **__: object) -> None:
        raise ValueError("22123456789")

    monkeypatch.setattr("nightscreen.runs.screening_run.open_source", break_down)
    ended = here("screen", "good.csv")
    assert ended.status == 1
    assert ended.err.startswith("nightscreen: unexpected ValueError at ")
    assert "22123456789" not in ended.err
