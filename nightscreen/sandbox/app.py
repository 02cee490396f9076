"""The web application: which address leads where.

This module only routes. Each area has its own table of paths (`sandbox.validation.ROUTES` for area
B); so has the control surface.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Route

from nightscreen.sandbox import (
    aggregator,
    consent_flow,
    control,
    loan_pages,
    loans,
    validation,
    wire,
)
from nightscreen.sandbox.auth import KeyAuth, TokenAuth, TokenEndpointAuth
from nightscreen.sandbox.ledger import Entry
from nightscreen.sandbox.loans import LoanAuth
from nightscreen.sandbox.request_pipeline import Operation, RequestPipeline
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox

_NOT_THE_SERVICE = ("/_sandbox", "/favicon.ico")
"""Addresses that are the sandbox's own, or a browser's: they stay out of the ledger."""


class NotFound:
    """Answers every address that is none of the service's, and writes it down."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404 as JSON."""
        if not scope["path"].startswith(_NOT_THE_SERVICE):
            self._write_down(scope)
        reply = Reply(404, wire.envelope("error", self._text(scope)))
        await wire.deliver(reply, scope, receive, send)

    def _text(self, scope: Scope) -> str:
        """Echo the address, as the service does in both years recorded."""
        method, path = scope["method"], scope["path"]
        if self._sandbox.manners.unknown_route == "short":
            return f"{method} {path} not found"
        return (
            f"The requested URL - {path} and method - {method} is not found. "
            "Please check the endpoint and try again"
        )

    def _write_down(self, scope: Scope) -> None:
        self._sandbox.ledger.append(
            Entry(
                at=time.time(),
                operation="unknown",
                identity=f"{scope['method']} {scope['path']}",
                http_status=404,
                outcome="unknown_route",
                fault="",
                charged=0,
                balance=self._sandbox.wallet.balance,
                delivery="sent",
                attempt=0,
                authorized=False,
                in_flight=self._sandbox.in_flight["all"],
            )
        )


class RouteHandler:
    """One path of the service: chooses the operation by the method."""

    def __init__(
        self,
        pipeline: RequestPipeline,
        unknown: NotFound,
        operations: dict[str, Operation],
    ) -> None:
        self._pipeline = pipeline
        self._unknown = unknown
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to the pipeline, or refuse a method or an empty segment."""
        operation = self._operations.get(scope["method"])
        if operation is not None and all(scope["path_params"].values()):
            await self._pipeline.handle(operation, scope, receive, send)
            return
        await self._unknown(scope, receive, send)


def application(sandbox: Sandbox) -> Starlette:
    """Build the web application around a sandbox's state."""
    unknown = NotFound(sandbox)
    areas = (
        (KeyAuth(sandbox), validation.ROUTES),
        (LoanAuth(sandbox), loans.ROUTES),
        (TokenEndpointAuth(sandbox), aggregator.AUTH_ROUTES),
        (TokenAuth(sandbox), aggregator.DATA_ROUTES),
    )
    routes = [
        Route(path, RouteHandler(RequestPipeline(sandbox, door), unknown, operations))
        for door, table in areas
        for path, operations in table.items()
    ]
    routes += consent_flow.routes(sandbox)
    routes += loan_pages.routes(sandbox)
    routes += control.routes(sandbox)
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.router.default = unknown
    return app
