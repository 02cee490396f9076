"""Reads and compares the example exchanges in `tests/exchanges/`.

`tests/client/test_examples.py` tests how the client reads them, `tests/sandbox/test_examples.py`
what the sandbox answers. The two are independent: if one misreads the specification, it differs
from the file that the other agrees with.
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
    "G": "a guess: not recorded",
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
    """One example exchange."""

    name: str  # the file's name, which begins with its operation's family
    operation: str  # a value of `schemas.checks.Operation`
    mark: str  # a letter of `MARKS`
    note: str  # what it shows, in a sentence
    arguments: dict[str, Any]  # of the client's builder
    request: dict[str, Any]  # method, path, headers, and `body` or `text`
    response: dict[str, Any]  # status, headers, and `body` or `text`; or only `broken`
    reading: dict[str, Any]  # how the client classifies the exchange
    answer: Any = None  # the typed record; None if nothing is read
    sandbox: dict[str, Any] = field(default_factory=dict)  # what makes the sandbox answer so
    address: str = ""  # path of the base address, mostly empty
    ours: bool = True  # False if the client would never send this

    def __str__(self) -> str:
        return self.name

    @property
    def file(self) -> str:
        """Return the name of its file, which may define several examples."""
        return self.name.partition("@")[0]

    @property
    def broken(self) -> str:
        """Return how the exchange ended without a whole response; empty if it had one."""
        how: str = self.response.get("broken", "")
        return how

    def sent(self) -> bytes:
        return written(self.request)

    def answered(self) -> bytes:
        return written(self.response)


def written(message: dict[str, Any]) -> bytes:
    """Return a body as sent: JSON, other text, or nothing."""
    if "body" in message:
        return json.dumps(message["body"], ensure_ascii=False).encode()
    text: str = message.get("text", "")
    return text.encode()


def load() -> list[Example]:
    """Read all examples, by name; a file that is `like` others is one example per operation."""
    files = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
    }
    examples: list[Example] = []
    for name, document in files.items():
        others = document.pop("like", None)
        if others is None:
            examples.append(Example(name, **document))
        else:
            examples += [_like(name, document, files[other]) for other in others]
    return examples


def _like(name: str, document: dict[str, Any], other: dict[str, Any]) -> Example:
    """Return an example with the request of another file and the response of this one.

    `{method}` and `{path}` in the response become the request's; `readings` has the readings of
    operations that differ from `reading`.
    """
    operation = other["operation"]
    request = {**other["request"], **document.get("request", {})}
    if "text" in document.get("request", {}):
        request.pop("body")
    address = document.get("address", "")
    readings = document.get("readings", {})
    values_of_marks = {"{method}": request["method"], "{path}": address + request["path"]}
    response = document["response"]
    if "message" in response.get("body", {}):
        text = response["body"]["message"]
        for mark, value in values_of_marks.items():
            text = text.replace(mark, value)
        response = {**response, "body": {**response["body"], "message": text}}
    recipe = dict(document.get("sandbox", {}))
    if values := other.get("sandbox", {}).get("values"):
        recipe["values"] = values
    return Example(
        f"{name}@{operation}",
        operation,
        document["mark"],
        document["note"],
        other["arguments"],
        request,
        response,
        {**document["reading"], **readings.get(operation, {})},
        sandbox=recipe,
        address=address,
        ours=document.get("ours", True),
    )


def differences(
    expected: object,
    actual: object,
    *,
    open_at: tuple[str, ...] = (),
    nullable: tuple[str, ...] = (),
    at: str = "",
) -> list[str]:
    """Return where two JSON documents differ in shape: keys, types, and formats of texts.

    An integer may replace a fraction, but not the reverse. Each item of a list is compared with the
    most similar expected item.

    Args:
        expected: the document of the example.
        actual: the document to compare.
        open_at: paths of objects that may have further keys; `[]` is any item.
        nullable: paths where null or an empty text may replace a value, or a value null.
        at: the path so far.
    """
    if at in nullable and any(each in (None, "") for each in (expected, actual)):
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
            difference
            for item in actual
            for difference in min(
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
    """Return the JSON type of a value, or the format of a text that is not a message."""
    if isinstance(value, str):
        return ("text" if value.strip() else "empty text") if at == "message" else _form(value)
    names = {bool: "yes or no", int: "whole number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _form(text: str) -> str:
    """Return the format of a text: a key of `_FORMS`, a number of digits, or any text."""
    for name, pattern in _FORMS.items():
        if re.fullmatch(pattern, text):
            return f"{len(text)} digits" if name == "digits" else name
    return "text" if text else "empty text"


def alike(one: str, other: str) -> bool:
    """Return whether two messages share the first four to six letters of a word."""
    words = [set(re.findall(r"\b[a-z]{4,6}", text.casefold())) for text in (one, other)]
    return bool(words[0] & words[1])
