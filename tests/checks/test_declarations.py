"""A declaration that lacks something fails when it is loaded, in one line that says what."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pyarrow as pa
import pytest

from nightscreen.checks.bank_account import BANK_ACCOUNT
from nightscreen.checks.declaration import Column, Compare, Declaration, Kind, Tone
from nightscreen.checks.ecosystem import ECOSYSTEM
from nightscreen.checks.registry import CHECKS, load_checks
from nightscreen.client.classify import Classifier
from nightscreen.client.response_rules import Exchange
from nightscreen.results import changes
from nightscreen.results.changes import states_of
from nightscreen.schemas.errors import SettingsError
from tests.client.lookups import ecosystem

MADE_UP = replace(
    BANK_ACCOUNT,
    name="made_up",
    title="Made up",
    columns=(Column("made_up_word", Kind.TEXT, "What it says."),),
    judge=lambda _row, found, _limits: ("verified" if found else "not_found", None),
    ranks=(),
    says={},
)


def bare(name: str) -> Declaration:
    """Return a declaration without columns."""
    return replace(MADE_UP, name=name, columns=(), judge=lambda *_: ("verified",))


class Point(EntryPoint):
    """An entry point whose object is at hand."""

    def load(self) -> Any:  # noqa: ANN401 - whatever a package holds
        """Return the object, or raise what its module raises."""
        return OBJECTS[self.value]()


OBJECTS: dict[str, Any] = {}


def point(declared: Any, name: str = "made_up") -> EntryPoint:  # noqa: ANN401 - also what is none
    """Return an entry point that loads an object."""
    OBJECTS[name] = declared if callable(declared) and declared is not MADE_UP else lambda: declared
    return Point(name, name, "nightscreen.checks")


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"title": ""}, "lacks a title"),
        ({"name": "Made-Up"}, "lacks a name of small letters"),
        ({"statuses": {}}, "lacks statuses"),
        ({"says": {"gone": "Gone."}}, "lacks the statuses gone"),
        ({"ages": {}}, "lacks an age"),
        ({"columns": (Column("made_up_word", Kind.TEXT, ""),)}, "lacks a meaning for each"),
        ({"max_in_flight": 0}, "lacks a positive number of calls"),
        ({"columns": ()}, "lacks a value from judge for each of its 0 columns"),
        ({"judge": lambda *_: ("maybe", None)}, "and a status that it declares"),
        ({"statuses": {"verified": Tone.GOOD}}, "and a status that it declares"),
        (
            {"columns": (Column("made_up_word", Kind.TEXT, "What it says.", Compare.RANK),)},
            "lacks the words of made_up_word",
        ),
        ({"looks_at": ("bvn", "first_nme")}, "lacks known columns .* in looks_at: first_nme$"),
        (
            {"columns": (Column("made_up_source", Kind.TEXT, "What it says."),)},
            "lacks a name of its own for each column: made_up_source$",
        ),
    ],
)
def test_an_incomplete_declaration_is_refused(change: dict[str, Any], lacking: str) -> None:
    with pytest.raises(TypeError, match=lacking):
        replace(MADE_UP, **change)


def broken_module() -> None:
    """Raise as a module does that cannot be imported."""
    raise ImportError("No module named 'scoring'")


REFUSED: tuple[tuple[str, object, str], ...] = (
    ("made_up", broken_module, "No module named 'scoring'; correct or uninstall the package"),
    ("made_up", "a word", "is no Declaration"),
    ("other", MADE_UP, "its declaration is named made_up"),
    ("karma", replace(MADE_UP, name="karma"), "another check has its name"),
    ("phone", bare("phone"), "lenders have a column Phone No"),
    ("loan", bare("loan"), "lenders have a column"),
    (
        "made_up",
        replace(MADE_UP, columns=(Column("score", Kind.TEXT, "What it says."),)),
        "its column score must begin with made_up_",
    ),
)


def test_another_packages_check_stands_after_ours_or_is_refused_as_mixed_up() -> None:
    """In the order of the output; one line names the check, its package and what to do."""
    assert [*load_checks([point(MADE_UP)])] == [*CHECKS, "made_up"]
    for named, declared, refused in REFUSED:
        with pytest.raises(SettingsError, match=f"the check {named} of the package .*{refused}"):
            pytest.fail(
                f"{named} ({refused}) was taken: {[*load_checks([point(declared, named)])]}"
            )


def test_what_must_not_be_kept_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken out of a record, of each of several, and all of a body that cannot be read."""
    declared = replace(ECOSYSTEM, not_kept=("email", "pdf"))
    monkeypatch.setitem(CHECKS, "ecosystem", declared)
    meta = {"cost": 25, "balance": "100.10"}
    data = {"bvn": "22000000001", "loans": 3, "email": "ada@example.ng", "pdf": "JVBERi0="}
    request, classifier = ecosystem("22000000001"), Classifier()
    body = json.dumps({"status": "success", "data": data, "meta": meta}).encode()
    outcome = classifier.read(request, Exchange(200, body))
    assert json.loads(outcome.body)["data"] == {"bvn": "22000000001", "loans": 3}
    assert outcome.cost_micro == 25_000_000
    cut = classifier.read(request, Exchange(200, body[:-9] + b'"pdf": "JVBE'))
    assert b"JVBE" not in cut.body


def test_an_identifying_list_is_never_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of words, of structs, and free text with quotes: a state holds digests alone."""
    names = pa.list_(pa.string())
    accounts = pa.list_(pa.struct([pa.field("number", pa.string())]))
    columns = (
        Column("made_up_names", [Kind.TEXT], "What it says.", Compare.IDENTIFYING),
        Column("made_up_accounts", [{"number": Kind.TEXT}], "What it says.", Compare.IDENTIFYING),
        Column("made_up_word", Kind.TEXT, "What it says.", Compare.PLAIN),
    )
    declared = replace(MADE_UP, columns=columns, judge=lambda *_: ("verified", [], [], None))
    monkeypatch.setattr(changes, "CHECKS", {"made_up": declared})
    rows = pa.table(
        {
            "made_up_status": ["verified"],
            "made_up_checked_at": pa.array([0], pa.timestamp("us", "UTC")),
            "made_up_names": pa.array([["Ada Obi", "Bola Ige"]], names),
            "made_up_accounts": pa.array([[{"number": "0123456789"}]], accounts),
            "made_up_word": ['the "second" line'],
            "decision": ["approve"],
            "reasons": pa.array([[]], names),
        }
    )
    (state,) = states_of(rows, run_id="R", at=1)
    for word in ("Ada", "Bola", "0123456789"):
        assert word not in str(state)
    values = state["made_up"].values
    assert values["made_up_word"] == 'the "second" line'
    assert len(values["made_up_names"]) == len(values["made_up_accounts"]) == 12
