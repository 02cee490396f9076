"""The web application: which address leads where, and the description of it all.

The service's addresses are plain Starlette routes, for FastAPI's reading of requests would answer
what the service never says, and costs more than twice as much. Their models describe them in
`/openapi.json` and `/docs`; the control surface is an ordinary FastAPI application.
"""

from __future__ import annotations

import time
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.routing import Route

from nightscreen.sandbox import aggregator, consent_flow, control, loans, validation, wire
from nightscreen.sandbox.ledger import Entry
from nightscreen.sandbox.loan_book import SHORT_LINK
from nightscreen.sandbox.models import FAILURES, answer_model
from nightscreen.sandbox.request_pipeline import Handler
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from nightscreen.sandbox.request_pipeline import Operation
    from nightscreen.sandbox.state import Sandbox

    Page = Callable[[Sandbox, Scope, Receive, Send], Awaitable[None]]

OPERATIONS: Final = (*validation.OPERATIONS, *loans.OPERATIONS, *aggregator.OPERATIONS)
"""Every operation of the service, by area."""

_NOT_THE_SERVICE = ("/_sandbox", "/favicon.ico")
"""Addresses that are the sandbox's own, or a browser's: they stay out of the ledger."""


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an address that is none of the service's with a 404 as JSON, and write it down."""
    sandbox: Sandbox = scope[control.SANDBOX]
    method, path = scope["method"], scope["path"]
    if not path.startswith(_NOT_THE_SERVICE):
        sandbox.ledger.append(
            Entry(
                at=time.time(),
                operation="unknown",
                identity=f"{method} {path}",
                http_status=404,
                outcome="unknown_route",
                fault="",
                charged=0,
                balance=sandbox.wallet.balance,
                delivery="sent",
                attempt=0,
                authorized=False,
                in_flight=sandbox.in_flight["all"],
            )
        )
    text = f"{method} {path} not found"
    if sandbox.manners.unknown_route == "recorded":
        text = (
            f"The requested URL - {path} and method - {method} is not found. "
            "Please check the endpoint and try again"
        )
    await wire.deliver(Reply(404, wire.envelope("error", text)), scope, receive, send)


class _Address:
    """One path of the service: chooses the operation by the method."""

    def __init__(self, operations: list[Operation]) -> None:
        self._handlers = {one.method: Handler(one) for one in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to the pipeline, or refuse a method or an empty segment."""
        handler = self._handlers.get(scope["method"])
        if handler is not None and all(scope["path_params"].values()):
            await handler.handle(scope[control.SANDBOX], scope, receive, send)
            return
        await _unknown(scope, receive, send)


class _Screen:
    """A page for people, which is no call of the service."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show it."""
        await self._page(scope[control.SANDBOX], scope, receive, send)


@cache
def _routed() -> Starlette:
    """Build the application that all sandboxes of a process share."""
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route(path, _Address(operations)) for path, operations in by_path.items()]
    routes.append(Route(consent_flow.PATH, _Screen(consent_flow.consent_page)))
    routes.append(Route(SHORT_LINK + "/{token}", _Screen(loans.loan_page)))
    app = Starlette(routes=routes)
    surface = control.surface(_unknown, openapi)
    app.router.redirect_slashes = False
    app.router.default = surface
    return app


def application(sandbox: Sandbox) -> ASGIApp:
    """Return the web application of a sandbox."""
    app = _routed()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope[control.SANDBOX] = sandbox
        await app(scope, receive, send)

    return serve


@cache
def openapi() -> dict[str, Any]:
    """Describe the service's operations and the control surface, from their models."""
    described = [_described(operation) for operation in OPERATIONS]
    return get_openapi(
        title="Simulator of the paid service",
        version="2",
        description="Made-up people and made-up money; see docs/sandbox.md.",
        routes=[*described, *control.app.routes],
    )


def _described(operation: Operation) -> APIRoute:
    """Make a route that is never served: FastAPI reads from it what the operation takes."""

    def endpoint() -> None:
        """Hold a signature."""

    path = operation.path.replace(":path}", "}")
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=str) for name in names]
    if operation.body:
        kind = Parameter.KEYWORD_ONLY
        parameters.append(Parameter("body", kind, annotation=operation.body))
    cast("Any", endpoint).__signature__ = Signature(parameters)
    return APIRoute(
        path,
        endpoint,
        methods=[operation.method],
        name=operation.name,
        summary=operation.name,
        tags=[path.split("/")[2]],
        response_model=answer_model(operation),
        responses=FAILURES,
    )
