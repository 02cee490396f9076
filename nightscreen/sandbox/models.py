"""What the service's answers look like, as models for the description in `/openapi.json`.

A record's model is read from the sample that test mode gives to everyone, so that the description
cannot differ from the answers; the bodies of requests are models beside their operations.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel, ConfigDict, create_model

from nightscreen.sandbox.wire import ABSENT

if TYPE_CHECKING:
    from nightscreen.sandbox.request_pipeline import Operation


class Meta(BaseModel):
    """Naira charged for the call, absent where it failed, and what is left."""

    cost: float | None = None
    balance: float


class Failure(BaseModel):
    """An error, or a miss."""

    status: str
    message: str | None = None
    data: Any = None
    meta: Meta | None = None


_JSON: Final = {"model": Failure}
FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    400: {
        **_JSON,
        "description": "malformed; HTML where the body is no JSON",
        "content": {"text/html": {}},
    },
    401: {**_JSON, "description": "no key"},
    402: {**_JSON, "description": "the wallet is too low"},
    403: {**_JSON, "description": "wrong key, dead access token, or no right"},
    404: {**_JSON, "description": "nothing found, or an address that is unknown"},
    500: {**_JSON, "description": "no such bank account; no price; a failure"},
    504: {
        "description": "a required field is missing, or a gateway gave up",
        "content": {"text/plain": {}},
    },
    "default": {**_JSON, "description": "any other failure"},
}
"""What every operation may answer instead."""


def answer_model(operation: Operation) -> type[BaseModel]:
    """Return the model of an operation's answer."""
    sample = operation.sample()
    name = "".join(part.capitalize() for part in operation.name.split("_"))
    kind = Any if sample.data is ABSENT else _kind(f"{name}Record", sample.data)
    if sample.bare:
        return cast("type[BaseModel]", kind)
    fields: dict[str, Any] = {
        "status": (str, ...),
        "data": (kind, ...),
        "meta": (Meta | None, None),
    }
    if sample.message is not None:
        fields["message"] = (str, ...)
    return create_model(f"{name}Answer", __config__=ConfigDict(extra="allow"), **fields)


def _kind(name: str, value: object) -> Any:  # noqa: ANN401 - a type of any kind
    """Return the type of a value of a record; texts and unknown values may be null."""
    match value:
        case dict():
            fields: dict[str, Any] = {
                key: (_kind(f"{name}{key.title().replace('_', '')}", one), None)
                for key, one in value.items()
            }
            return create_model(name, __config__=ConfigDict(extra="allow"), **fields)
        case list():
            return list[_kind(name, value[0]) if value else Any]  # type: ignore[misc]
        case bool() | int() | float():
            return type(value)
        case Decimal():
            return float
    return str | None
