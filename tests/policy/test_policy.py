"""Policies: read, checked with every mistake at its place, named by what they say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nightscreen.policy.load import DEFAULT_POLICY, check_policy, load_policy
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import Policy

SENTENCES = 'team = "t"\ncustomer = "c"\n'
HEAD = 'name = "mine"\nversion = "1"\n'


def one(when: str, *, head: str = HEAD) -> str:
    """Return the text of a policy of one rule, whose condition stands on line 7."""
    return f"{head}\n[[rules]]\ncode = \"ONE\"\neffect = \"review\"\nwhen = '''{when}'''\n" + (
        SENTENCES
    )


def loaded(folder: Path, text: str) -> Policy:
    """Return the policy of a file with this text."""
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


def told(text: str) -> list[tuple[int, str]]:
    return [(issue.line, issue.message) for issue in check_policy(text).issues]


def test_the_default_policy_says_what_it_is() -> None:
    """It has no mistakes, names nothing sensitive, and says what to do about whom it holds back."""
    policy = load_policy()
    assert not policy.allow_sensitive
    assert all(rule.action for rule in policy.rules if rule.effect.value in {"decline", "review"})
    assert "credit_delinquency" not in DEFAULT_POLICY.read_text("utf-8")


def test_the_label_changes_with_what_is_said_and_not_with_how(tmp_path: Path) -> None:
    """Comments and layout leave the digest alone; a threshold or a sentence changes it."""
    texts = (
        *(one("exposure > 5"), "# mine\n" + one("  exposure > 5\n"), one("exposure > 6")),
        one("exposure > 5").replace('"t"', '"u"'),
    )
    labels = [loaded(tmp_path, text).label for text in texts]
    assert labels[0] == labels[1]
    assert len(set(labels)) == 3
    name, digest = labels[0].split("@")
    assert name == "mine"
    assert len(digest) == 12


LIMITS = HEAD + "[thresholds]\nleast = 5_000\npart = 0.1\n"


def test_a_threshold_stands_in_the_condition_and_in_the_sentence(tmp_path: Path) -> None:
    """One number, changed in one place, changes what is decided and what is said of it."""
    for least, shown in (("5_000", "5,000"), ("7_500", "7,500")):
        text = one("exposure >= {least} * {part}", head=LIMITS.replace("5_000", least))
        policy = loaded(tmp_path, text.replace('"t"', '"Owes {least} naira."'))
        rule = policy.rules[0]
        assert policy.conditions()[0] == f"exposure >= {least.replace('_', '')} * 0.1"
        assert policy.sentence(rule.team, None) == f"Owes {shown} naira."


def test_thresholds_are_defined_once_and_named() -> None:
    """A name nobody defined, and a number nobody names, are mistakes at their lines."""
    text = one("exposure >= {leest}", head=LIMITS)
    assert told(text) == [
        (4, "the threshold least is named by no rule; remove it"),
        (5, "the threshold part is named by no rule; remove it"),
        (10, 'is no SQL condition: syntax error at or near "}"'),
        (10, "{leest} is no threshold; did you mean least?; define it under [thresholds]"),
    ]


def test_a_sentence_may_differ_by_purpose(tmp_path: Path) -> None:
    """What is said to a borrower is not what is said to an applicant; without one, the first."""
    text = one("exposure > 5").replace(
        'customer = "c"', 'customer.portfolio = "pay"\ncustomer.origination = "apply"'
    )
    policy = loaded(tmp_path, text)
    words = policy.rules[0].customer
    assert [policy.sentence(words, each) for each in ("portfolio", "origination", None)] == [
        "pay",
        "apply",
        "pay",
    ]


CARRIED = (
    "carried: exposure is a column of the results; a carried column of that name is renamed "
    "input_exposure"
)
MISTAKES: dict[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("mistakes.toml").read_text("utf-8")
)


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_a_condition_is_told_at_its_line(what: str) -> None:
    when, message = MISTAKES[what]
    ((line, said),) = told(one(when))
    assert line == 7
    assert message in said


def test_each_of_several_mistakes_is_told_and_none_of_a_sound_condition() -> None:
    """Conditions are judged together; each that is wrong is told at its own line."""
    written = ("exposure > 'lots'", "exposure > 5", "exposure")
    rules = [one(when, head="").replace("ONE", f"R{n}") for n, when in enumerate(written)]
    length = rules[0].count("\n")
    first = HEAD.count("\n") + 5
    wrong = told(HEAD + "".join(rules))
    assert [line for line, _ in wrong] == [first, first + 2 * length]
    assert ["lots" in wrong[0][1], "not true or false" in wrong[1][1]] == [True, True]


def test_a_mistake_is_told_at_its_own_line_and_without_advice_that_may_not_be_followed() -> None:
    ((_, message),) = told(one("1/0 = 1"))
    assert message.startswith("Division by zero")
    assert "TRY(" not in message
    ((line, message),) = told(one("\nexposure > 1\nor loans > 3"))
    assert line == 8
    assert "no column loans" in message


WANTED = HEAD + "allow_sensitive = true\n"
ALLOWED: list[tuple[str, str]] = [
    (WANTED, "bvn_gender = 'F'"),
    (WANTED, "ecosystem_extra like '%F%'"),
    (WANTED, "ecosystem_extra ->> '$.gender' = 'F'"),
    (HEAD, "purpose = 'origination' and ecosystem_extra is not null"),
    (HEAD, "ecosystem_extra ->> '$.employer.sector' = 'trade'"),
    (HEAD, "bvn_account_status in ('dormant', 'post_no_debit')"),
    (HEAD, "list_contains(bvn_account_statuses, 'frozen')"),
]


def test_what_is_sensitive_can_be_wanted_and_what_only_sounds_so_is_allowed() -> None:
    """Purpose `origination`, a field of the record and a test for emptiness are no such thing.

    A rule may rest on the status of the row's own account, or of any that the person has.
    """
    for head, when in ALLOWED:
        assert told(one(when, head=head)) == [], when


def rules(*written: tuple[str, str, str]) -> str:
    each = [
        f'[[rules]]\ncode = "{code}"\neffect = "{effect}"\nwhen = "{when}"\n{SENTENCES}'
        for code, effect, when in written
    ]
    return HEAD + "".join(each)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([("A", "review", "exposure > 1"), ("A", "review", "exposure > 2")], "A is repeated"),
        ([("A", "approve", "exposure > 1")], "approves without evidence"),
        ([("A", "reject", "exposure > 1")], "the effect reject is unknown"),
        ([("a b", "review", "exposure > 1")], "CAPITALS"),
    ],
)
def test_rules_that_do_not_fit_together_are_told(
    written: list[tuple[str, str, str]], message: str
) -> None:
    found = told(rules(*written))
    assert len(found) == 1, found
    assert message in found[0][1]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["name: is missing", "rules: is missing", "version: is missing"]),
        ("x = [", ["is no TOML: Invalid value"]),
        (HEAD + "rules = []\n", ["rules: there are none: a policy needs at least one [[rules]]"]),
        (HEAD + "rules = 3\n", ["rules: must be written as [[rules]], once for each rule"]),
        (one("exposure > 1") + "wehn = 'x'\n", ["wehn is unknown; did you mean when?"]),
        (
            one("exposure > 1").replace('"c"', '" "'),
            ["the sentence for the customer is missing: say what the customer may read"],
        ),
        (
            HEAD + "carried = ['exposure']\n" + one("exposure > 1", head=""),
            [CARRIED],
        ),
    ],
)
def test_a_file_of_the_wrong_shape_is_explained(text: str, messages: list[str]) -> None:
    assert [message for _, message in told(text)] == messages


def test_loading_tells_the_first_mistake_and_where_to_see_all(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(rules(("A", "review", "karma_statu = bvn_gender")), encoding="utf-8")
    with pytest.raises(PolicyError, match=r"bad.toml, line 6, A: .*\(and 1 more\).*policy check"):
        load_policy(path)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path / "none.toml")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="UTF-8"):
        load_policy(path)


def test_a_definition_stands_for_part_of_a_condition(tmp_path: Path) -> None:
    """Rules share it by name; it may name thresholds, and what names nothing is an issue."""
    head = HEAD + '[thresholds]\nleast = 5\n[definitions]\nlarge = "exposure >= {least}"\n'
    policy = loaded(tmp_path, one("{large} and cost > 0", head=head))
    assert policy.conditions()[0] == "exposure >= 5 and cost > 0"
    assert told(one("cost > {least}", head=head)) == [
        (6, "the definition large is named by no rule; remove it")
    ]
    hostile = head.replace("exposure >= {least}", "(select {least}) = 1")
    assert any("a subquery" in message for _, message in told(one("{large}", head=hostile)))
