"""Email addresses and domains: syntax only, never a look at the network."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.values.addresses import (
    judge_domain,
    judge_domains,
    judge_email,
    judge_emails,
)
from nightscreen.values.issues import Issues
from tests.how_many import examples


@pytest.mark.parametrize(
    ("cell", "value", "codes"),
    [
        ("ada@example.com", "ada@example.com", []),
        ("Ada.Obi+loan@Example.COM", "ada.obi+loan@example.com", []),
        ("a/b@example.com", "a/b@example.com", []),
        ("ada@b\u00fccher.example", "ada@xn--bcher-kva.example", []),
        ("\u00e0d\u00e1@example.com", "\u00e0d\u00e1@example.com", []),
        ("mailto:ada@example.com", "ada@example.com", ["email_characters_removed"]),
        ("<ada@example.com>", "ada@example.com", ["email_characters_removed"]),
        ("ada@example.com;", "ada@example.com", ["email_characters_removed"]),
        ("ada@example.com; obi@example.com", "ada@example.com", ["email_first_of_several"]),
        ("ada@example.com/obi@example.com", "ada@example.com", ["email_first_of_several"]),
    ],
)
def test_emails_are_brought_to_one_form(cell: str, value: str, codes: list[str]) -> None:
    """Lower case, an ASCII domain, no marks round it."""
    verdict = judge_email(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (value, codes)


@pytest.mark.parametrize(
    "cell",
    [
        "ada",
        "ada@",
        "@example.com",
        "ada@example",
        "ada@@example.com",
        "ada obi@example.com",
        "ada@example,com",
        "ada..obi@example.com",
        ".ada@example.com",
        "ada@-example.com",
        "ada@example.123",
        "ada@localhost",
        "ada@mail.internal",
        "a" * 65 + "@example.com",
        "ada@" + "a." * 130 + "com",
        ";",
    ],
)
def test_malformed_emails_keep_their_text(cell: str) -> None:
    """What is no address is not looked up."""
    verdict = judge_email(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (cell, ["email_malformed"])


@pytest.mark.parametrize(
    ("cell", "value", "codes"),
    [
        ("example.com", "example.com", []),
        ("Example.COM", "example.com", []),
        ("example.com.", "example.com", []),
        ("https://www.Example.com/about?x=1", "example.com", ["domain_from_url"]),
        ("www.example.com", "example.com", ["domain_from_url"]),
        ("http://example.com:8080/", "example.com", ["domain_from_url"]),
        ("www.com", "www.com", ["domain_from_url"]),
        ("b\u00fccher.example", "xn--bcher-kva.example", []),
        ("example", "example", ["domain_malformed"]),
        ("ada@example.com", "ada@example.com", ["domain_malformed"]),
        ("10.0.0.1", "10.0.0.1", ["domain_malformed"]),
        ("localhost", "localhost", ["domain_malformed"]),
        ("shop.local", "shop.local", ["domain_malformed"]),
        ("exa mple.com", "exa mple.com", ["domain_malformed"]),
        ("https://", "https://", ["domain_malformed"]),
    ],
)
def test_domains_are_brought_to_one_form(cell: str, value: str, codes: list[str]) -> None:
    """A web address is cut down to its domain; what is no public name is malformed."""
    verdict = judge_domain(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (value, codes)


labels = st.from_regex(r"[A-Za-z0-9-]{1,8}", fullmatch=True) | st.sampled_from(
    ["www", "local", "localhost", "com", "COM", "xn--bcher-kva", "arpa", "127", "b\u00fc"]
)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)
locals_ = st.from_regex(r"[A-Za-z0-9._+/%-]{1,12}", fullmatch=True)
emails = st.builds(lambda local, host: f"{local}@{host}", locals_, hosts)
anything = st.text(min_size=1, max_size=30)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(emails | hosts | anything, max_size=20))
def test_columns_equal_their_cells(cells: list[str]) -> None:
    """The fast path by pattern gives what each cell's own rule gives, for both columns."""
    pairs = (
        (judge_emails, judge_email),
        (judge_domains, judge_domain),
    )
    for judge_column, judge in pairs:
        notes = Issues.blank(range(len(cells)))
        judged = judge_column(pa.array(cells, pa.string()), notes)
        verdicts = [judge(cell) for cell in cells]
        assert judged.to_pylist() == [verdict.value for verdict in verdicts]
        found = [(row, f.code) for row, verdict in enumerate(verdicts) for f in verdict.issues]
        assert [(problem.line, problem.code) for problem in notes.problems] == found
