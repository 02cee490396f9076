"""The recorded-style exchanges of `tests/exchanges/`: how they are read and compared.

What the client makes of them is in `tests/client/test_examples.py`, what the sandbox answers in
`tests/sandbox/test_examples.py`. Neither knows the other: a misreading of the specification shows
as a difference from the same file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("exchanges")
KEY = "example-key"
MARKS = {
    "S": "shown by the specification",
    "R": "recorded in a real answer",
    "D": "documented by the vendor",
    "G": "a guess: nobody recorded it",
}

_FORMS = {
    "day": r"\d{4}-\d\d-\d\d",
    "moment": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "worded day": r"\d\d-[A-Z][a-z]{2}-\d{4}",
    "money": r"-?\d+\.\d{2}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "digits": r"\d+",
    "web address": r"https?://\S+",
    "email": r"[^@\s]+@[^@\s]+",
}


@dataclass(frozen=True)
class Example:
    """One file."""

    name: str  # the file's name, which begins with its operation's family
    operation: str  # the word of `schemas.checks.Operation`
    mark: str  # a letter of `MARKS`
    note: str  # what it shows, in a sentence
    arguments: dict[str, Any]  # what the client's builder is called with
    request: dict[str, Any]  # method, path, headers, and `body` or `text`
    response: dict[str, Any]  # status, headers, and `body` or `text`; or `broken` alone
    reading: dict[str, Any]  # what the exchange comes to
    answer: Any = None  # the typed record; None where nothing is read
    sandbox: dict[str, Any] = field(default_factory=dict)  # how a sandbox is brought to answer so
    address: str = ""  # path of the base address, mostly empty
    ours: bool = True  # False where our client would never send this

    def __str__(self) -> str:
        """Name the file, for a test's id."""
        return self.name

    @property
    def file(self) -> str:
        """Name of the file it stands in, which may stand for several."""
        return self.name.partition("@")[0]

    @property
    def broken(self) -> str:
        """How the exchange ended without a whole response; empty where there was one."""
        word: str = self.response.get("broken", "")
        return word

    def sent(self) -> bytes:
        return written(self.request)

    def answered(self) -> bytes:
        return written(self.response)


def written(message: dict[str, Any]) -> bytes:
    """Return a body as it goes over the wire: JSON, other text, or nothing."""
    if "body" in message:
        return json.dumps(message["body"], ensure_ascii=False).encode()
    text: str = message.get("text", "")
    return text.encode()


def load() -> list[Example]:
    """Read every example, by name; a file that is `like` others stands for one of each."""
    files = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
    }
    found: list[Example] = []
    for name, held in files.items():
        others = held.pop("like", None)
        if others is None:
            found.append(Example(name, **held))
        else:
            found += [_like(name, held, files[other]) for other in others]
    return found


def _like(name: str, held: dict[str, Any], other: dict[str, Any]) -> Example:
    """Return what a file says of one of the exchanges it is like: the same question, asked there.

    `{method}` and `{path}` in the response are the request's own; `readings` has what one operation
    is read as otherwise than the others.
    """
    operation = other["operation"]
    request = {**other["request"], **held.get("request", {})}
    if "text" in held.get("request", {}):
        request.pop("body")
    address = held.get("address", "")
    readings = held.get("readings", {})
    own = {"{method}": request["method"], "{path}": address + request["path"]}
    response = held["response"]
    if "message" in response.get("body", {}):
        text = response["body"]["message"]
        for mark, value in own.items():
            text = text.replace(mark, value)
        response = {**response, "body": {**response["body"], "message": text}}
    recipe = dict(held.get("sandbox", {}))
    if values := other.get("sandbox", {}).get("values"):
        recipe["values"] = values
    return Example(
        f"{name}@{operation}",
        operation,
        held["mark"],
        held["note"],
        other["arguments"],
        request,
        response,
        {**held["reading"], **readings.get(operation, {})},
        sandbox=recipe,
        address=address,
        ours=held.get("ours", True),
    )


def differences(
    expected: object,
    actual: object,
    *,
    open_at: tuple[str, ...] = (),
    nullable: tuple[str, ...] = (),
    at: str = "",
) -> list[str]:
    """Return where two JSON documents differ in shape: keys, types, and the forms of texts.

    A whole number where a fraction is shown is no difference, a fraction where a whole number is
    shown is one. Items of a list are held against the item shown that they are most like.

    Args:
        expected: the document shown.
        actual: the document to judge.
        open_at: paths of objects that may have keys beyond those shown; `[]` is any item.
        nullable: paths where null or an empty text may stand for a value, or a value for null.
        at: the path so far.
    """
    if at in nullable and any(one in (None, "") for one in (expected, actual)):
        return []
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = [f"{at}.{key} is missing" for key in expected.keys() - actual.keys()]
        if at not in open_at:
            found += [f"{at}.{key} is too many" for key in actual.keys() - expected.keys()]
        for key in expected.keys() & actual.keys():
            below = f"{at}.{key}" if at else key
            found += differences(
                expected[key], actual[key], open_at=open_at, nullable=nullable, at=below
            )
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        if not expected or not actual:
            return [] if expected == actual else [f"{at}: one list is empty"]
        return [
            one
            for item in actual
            for one in min(
                (
                    differences(shown, item, open_at=open_at, nullable=nullable, at=f"{at}[]")
                    for shown in expected
                ),
                key=len,
            )
        ]
    shown, given = _kind(expected, at), _kind(actual, at)
    fits = shown == given or (shown, given) == ("number", "whole number")
    return [] if fits else [f"{at} is {given}, not {shown}"]


def _kind(value: object, at: str) -> str:
    """Name the JSON type of a value; of a text, its form too, unless it is a message."""
    if isinstance(value, str):
        return ("text" if value.strip() else "empty text") if at == "message" else _form(value)
    names = {bool: "yes or no", int: "whole number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _form(text: str) -> str:
    """Name the form of a text: a day, a moment, so many digits, an address, or any text."""
    for name, pattern in _FORMS.items():
        if re.fullmatch(pattern, text):
            return f"{len(text)} digits" if name == "digits" else name
    return "text" if text else "empty text"


def alike(one: str, other: str) -> bool:
    """Return whether two messages share a word by its beginning; numbers in them do not count."""
    words = [set(re.findall(r"\b[a-z]{4,6}", text.casefold())) for text in (one, other)]
    return bool(words[0] & words[1])
