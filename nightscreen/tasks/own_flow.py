"""Flows that use no Prefect server without a login, unless a setting allows it.

Called from Python where no server is configured, a flow gets a temporary server with a login; the
one that Prefect would start has none. A run taken from a server without a login is refused, because
anyone could have set its parameters. This also holds for runs that Prefect's own worker starts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect import Flow
from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    temporary_settings,
)

from nightscreen.config.settings import read_settings
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.server import refuse_open_engine
from nightscreen.tasks.temporary_server import ensure_server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PATIENCE_S = 120.0  # the same as for a command: a busy machine starts a server slowly
P = ParamSpec("P")
R = TypeVar("R")


class OwnFlow(Flow[P, R]):
    """A flow that gets a temporary server of ours where none is configured."""

    async def __call__(  # type: ignore[override]
        self,
        *args: Any,  # noqa: ANN401 - Prefect's own
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        """Run the flow."""
        server = {}
        has_none = not PREFECT_API_URL.value() and FlowRunContext.get() is None
        if has_none and PREFECT_SERVER_EPHEMERAL_ENABLED.value():
            served = await asyncio.to_thread(ensure_server, read_settings().home, PATIENCE_S)
            server = dict(zip((PREFECT_API_URL, PREFECT_API_AUTH_STRING), served, strict=True))
        with temporary_settings(server) if server else nullcontext():
            return await super().__call__(*args, **kwargs)


def flow(
    *,
    name: str,
    **options: Any,  # noqa: ANN401 - Prefect's own
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], OwnFlow[P, Any]]:
    """Make an `OwnFlow` from an `async def`; the options are those of `prefect.flow`.

    Its errors hold no personal data. Its results are not stored by Prefect, because they are about
    people; they are in the run's folder.
    """

    def make(fn: Callable[P, Coroutine[Any, Any, R]]) -> OwnFlow[P, Any]:
        @functools.wraps(fn)
        async def body(*args: P.args, **kwargs: P.kwargs) -> R:
            with sanitize_errors():
                context = FlowRunContext.get()
                run = None if context is None else context.flow_run
                if run is not None and run.deployment_id is not None:
                    with paging_false_starts(name, ""):
                        allowed = read_settings().open_engine
                        await asyncio.to_thread(refuse_open_engine, allowed=allowed)
                return await fn(*args, **kwargs)

        # annotations are evaluated in the flow's module, not in this one
        body.__signature__ = inspect.signature(fn, eval_str=True)  # type: ignore[attr-defined]
        body.__annotations__ = inspect.get_annotations(fn, eval_str=True)
        return OwnFlow(body, name=name, persist_result=False, **options)

    return make
