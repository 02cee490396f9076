"""The web application: its routes and their description.

The service's operations are FastAPI routes, described in `/openapi.json` and `/docs`. FastAPI does
not parse their requests: it would give answers that the service never gives, and takes more than
twice as long. The control surface is ordinary FastAPI.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import Response
from starlette.routing import Match

from nightscreen.sandbox import consent_flow, control
from nightscreen.sandbox.operations import OPERATIONS
from nightscreen.sandbox.request_pipeline import Operation
from nightscreen.sandbox.state import SANDBOX
from nightscreen.sandbox.wire import ABSENT, Answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from nightscreen.sandbox.request_pipeline import Call
    from nightscreen.sandbox.state import Sandbox

_NOT_THE_SERVICE: Final = ("/_sandbox", "/favicon.ico")
"""Addresses of the sandbox itself, or asked by browsers, which are not in the ledger."""


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


_FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "model": Failure,
        "description": "a miss, a refusal or a failure; HTML and text come of a proxy before it",
        "content": {"text/html": {}, "text/plain": {}},
    }
}
"""What every operation may answer instead; `docs/sandbox.md` says which status means what."""


class _Address(APIRoute):
    """The route of one operation: described by FastAPI, answered by the pipeline."""

    def __init__(self, operation: Operation) -> None:
        def endpoint() -> None:
            """Carry the signature that describes the operation's parameters."""

        path = operation.path.replace(":path}", "}")
        given: dict[str, Any] = {part[1:-1]: str for part in path.split("/") if "{" in part}
        if operation.body:
            given["body"] = operation.body
        kind = Parameter.KEYWORD_ONLY
        parameters = [Parameter(name, kind, annotation=each) for name, each in given.items()]
        cast("Any", endpoint).__signature__ = Signature(parameters)
        super().__init__(
            operation.path,
            endpoint,
            methods=[operation.method],
            name=operation.name,
            summary=operation.name,
            tags=[path.split("/")[2]],
            response_model=_answer_model(operation),
            responses=_FAILURES,
        )
        self._operation = operation

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match whole addresses only: another method or an empty segment is unknown."""
        match, child = super().matches(scope)
        if match is Match.FULL and all(child["path_params"].values()):
            return match, child
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._operation.handle(scope[SANDBOX], scope, receive, send)


def _answer_model(operation: Operation) -> type[BaseModel]:
    """Return the model of an answer, read from the sample that test mode gives to everyone."""
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


def _no_such_route(call: Call) -> Answer:
    method, path = call.request.method, call.request.scope["path"]
    call.identity = f"{method} {path}"  # in the ledger
    text = f"{method} {path} not found"
    if call.sandbox.manners.unknown_route == "recorded":
        text = (
            f"The requested URL - {path} and method - {method} is not found. "
            "Please check the endpoint and try again"
        )
    return Answer.error("unknown_route", text, 404)


_NOWHERE: Final = Operation("unknown", "", "", _no_such_route, lambda _: None)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an address that is not the service's; enter it in the ledger unless it is our own."""
    if scope["path"].startswith(_NOT_THE_SERVICE):
        await Response(status_code=404)(scope, receive, send)
    else:
        await _NOWHERE.handle(scope[SANDBOX], scope, receive, send)


@cache
def service() -> FastAPI:
    """Build the application that all sandboxes of a process share."""
    app = FastAPI(
        title="Simulator of the paid service",
        version="2",
        description="Made-up people and made-up money; see docs/sandbox.md.",
        redirect_slashes=False,
        redoc_url=None,
    )
    app.router.routes += [_Address(operation) for operation in OPERATIONS]
    for router in (control.router, consent_flow.router):
        app.include_router(router)
    for error in (ValueError, RequestValidationError):
        app.add_exception_handler(error, control.refused)
    app.router.default = _unknown
    return app


def application(sandbox: Sandbox) -> ASGIApp:
    """Return the web application of a sandbox."""
    app = service()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SANDBOX] = sandbox
        if scope["path"].startswith("/v2/"):  # nothing of the service needs what FastAPI wraps
            await app.router(scope, receive, send)
        elif not await control.refuse_foreign(scope, receive, send):
            await app(scope, receive, send)

    return serve
