"""Commands there were: each answers in one line that names what takes its place."""

from __future__ import annotations

import json

from tests.cli.conftest import Here

GONE = {
    ("accounts", "pull"): "transactions pull --accounts",
    ("automations", "install"): "prefect automation create --from-file",
    ("contest", "list"): "Contests",
    ("refuse", "20260301-220000-a1b2c3"): "approve RUN_ID --refuse",
    ("journal", "spend"): "Money",
    ("journal", "rotate-links", "--at-once"): "journal rotate-key --links",
    ("notices", "action", "CUST-0000004"): "page of the customer",
    ("notices", "confirm", "20260301-220000-a1b2c3"): "page of the run",
    ("notices", "write", "20260301-220000-a1b2c3"): "at the desk",
    ("policy", "list"): "Policy",
    ("desk", "audit"): "Audit",
    ("desk", "user", "role", "ada"): "Users",
}


def test_a_command_that_is_gone_names_what_takes_its_place(here: Here) -> None:
    """One line on stderr, nothing on stdout, and the status of a wrong command line."""
    for words, instead in GONE.items():
        ended = here(*words)
        assert (ended.status, ended.out) == (2, ""), words
        assert instead in ended.err, words
        assert len(ended.err.strip().splitlines()) == 1, words


def test_as_json_it_is_a_document(here: Here) -> None:
    """As every error is."""
    ended = here("journal", "spend", "--json")
    assert ended.status == 2
    assert "Money" in json.dumps(ended.document)
