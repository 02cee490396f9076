"""What can be typed: options are made from parameters; every command explains itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from nightscreen.cli.command import command
from nightscreen.cli.main import COMMANDS
from nightscreen.config.parameters import ScreenBatch, WatchInbox
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.consented import PullTransactions
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from tests.cli.conftest import Here

MODELS = (
    ScreenBatch,
    WatchInbox,
    RequestBvns,
    ConfirmBvns,
    OfferLoans,
    TrackLoans,
    PullTransactions,
)


def _typed(model: type[BaseModel], *words: str) -> Any:  # noqa: ANN401 - a model of any kind
    """Return what a command of these options is given."""
    app, seen = typer.Typer(), []

    def typed(parameters: BaseModel) -> None:
        seen.append(parameters)

    typed.__annotations__["parameters"] = model
    command("typed", of=app)(typed)
    ended = CliRunner().invoke(app, list(words))
    assert ended.exit_code == 0, ended.output
    return seen[0]


def test_what_was_not_typed_is_not_set() -> None:
    """So that a resumed run keeps what it was begun with."""
    for model in MODELS:
        assert _typed(model).model_fields_set == set()


def test_a_repeated_option_adds_up() -> None:
    """The last one does not silently replace those before."""
    for words in (
        ("karma.clear=1", "ecosystem.found=2"),
        ("karma.clear=1,ecosystem.found=2",),
        ("karma.clear=1", "ecosystem.found=2, karma.clear=1"),
    ):
        typed = (word for each in words for word in ("--freshness", each))
        parameters = _typed(ScreenBatch, *typed)
        assert parameters.model_fields_set == {"freshness"}
        assert parameters.freshness == ["karma.clear=1", "ecosystem.found=2"]


def test_every_field_is_an_argument_or_an_option() -> None:
    """A new field of a model is a new option without another line."""
    parameters = _typed(
        ScreenBatch,
        "batch.csv",
        *("--checks", "karma", "--checks", "selfie", "--karma-stop-at-first", "--workers", "2"),
        *("--quote-only", "--yes", "--max-spend", "99.50", "--run", "20260301-220000-a1b2c3"),
    )
    assert parameters.input == "batch.csv"
    assert parameters.checks == ["karma", "selfie"]
    assert (parameters.karma_stop_at_first, parameters.quote_only, parameters.yes) == (True,) * 3
    assert (parameters.workers, parameters.max_spend) == (2, "99.50")


def test_the_list_of_commands_is_told_in_whole_sentences(here: Here) -> None:
    """Nothing is cut off with dots in a terminal of 80 columns; the version stands alone."""
    ended = here("--help")
    assert ended.status == 0
    ours = set(COMMANDS)
    listed = [line.split() for line in ended.out.split("Commands:")[1].splitlines()]
    told = {words[0]: words for words in listed if words and words[0] in ours}
    assert set(told) == ours
    assert not [words for words in told.values() if words[-1].endswith("...")]
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", here("--version").out)


def test_a_shell_is_offered_what_fits(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_NIGHTSCREEN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "nightscreen journal in")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert "in-doubt" in here().out.split()
