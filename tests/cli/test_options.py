"""Options are made from parameters: each field once, lists add up, mistakes name what was typed."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from nightscreen.cli.command import command
from nightscreen.config.parameters import ScreenBatch, WatchInbox
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.consented import PullTransactions
from nightscreen.schemas.offers import OfferLoans, TrackLoans

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
