"""The desk as one ASGI application: its routes and what they share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles

from nightscreen.desk import (
    books,
    customer,
    fix,
    lists,
    new_file,
    policy,
    runs,
    users,
)
from nightscreen.desk.context import EVERY_BRANCH, DeskError, page
from nightscreen.desk.pages import POLICY, TEMPLATES, environment, html
from nightscreen.desk.uploads import LARGEST
from nightscreen.policy.versions import policy_in_force
from nightscreen.schemas.errors import JournalError, NightscreenError
from nightscreen.web.guard import Guard, headers_of, log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.desk.context import Context, View

# bytes: five texts of 4,000 characters, of at most 12 bytes each as sent
LARGEST_FORM: Final = 256 * 1024
SWEEP_S: Final = 30  # a choice: about how long an upload stays on disk after it is needed


def application(desk: Context) -> ASGIApp:
    """Return the desk."""

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        at_work = [asyncio.create_task(work) for work in (_sweep(desk), _load(desk))]
        try:
            yield
        finally:
            for each in at_work:
                each.cancel()

    return Guard(
        Router(_routes(desk), redirect_slashes=False, lifespan=lifespan),
        desk.origins,
        headers_of(POLICY, is_secure=desk.is_secure),
        lambda kind, status: html("bare", status, kind=kind),
        partial(_no_page, desk),
        partial(log, "desk", in_json=desk.settings.log_format == "json"),
    )


def _routes(desk: Context) -> list[Route | Mount]:
    """Return every route of the desk, with the rights that it needs."""

    def get(path: str, view: View, *needs: str, **more: Any) -> Route:  # noqa: ANN401 - as `page`
        return Route(path, page(desk, view, *needs, **more), methods=["GET"])

    def post(path: str, view: View, *needs: str, largest: int = LARGEST_FORM, **more: Any) -> Route:  # noqa: ANN401 - as `page`
        endpoint = page(desk, view, *needs, **more)
        return Route(path, endpoint, methods=["POST"], max_body_size=largest)

    customers = "/customers/{customer_id:path}"
    file = {"takes_file": True, "largest": LARGEST + LARGEST_FORM}
    scan = {"takes_file": True, "largest": customer.LARGEST_ATTACHMENT + LARGEST_FORM}
    table = {"largest": 4 * LARGEST_FORM}  # a page of a quarantine, with a field for each cell
    return [
        get("/sign-in", users.sign_in, signed_in=False),
        post("/sign-in", users.enter, on=users.sign_in, signed_in=False),
        get("/first", users.first, signed_in=False),
        post("/first", users.use_link, on=users.first, signed_in=False),
        get("/second-factor", users.second_factor, signed_in=False),
        post("/second-factor", users.take_code, on=users.second_factor, signed_in=False),
        post("/sign-out", users.sign_out),
        get("/", runs.tonight),
        get("/new", new_file.new, "screen"),
        post("/new", new_file.receive, "screen", on=new_file.new, **file),
        get("/new/applicant", new_file.applicant, "screen"),
        post("/new/applicant", new_file.take_applicant, "screen", on=new_file.applicant),
        get("/new/{upload_id}", new_file.file, "screen"),
        post("/new/{upload_id}/quote", new_file.quote, "screen", on=new_file.file),
        post("/new/{upload_id}/screen", new_file.screen, "screen", on=new_file.file),
        get("/approvals", runs.approvals, "approvals"),
        post("/approvals/{run_id}", runs.decide, "approve", on=runs.approvals),
        get("/runs", runs.runs, "runs"),
        get("/runs/{run_id}", runs.run, "runs"),
        post("/runs/{run_id}/stop", runs.stop, "screen", on=runs.run),
        post("/runs/{run_id}/resume", runs.resume, "screen", on=runs.run),
        post("/runs/{run_id}/sign", runs.sign, "runs", "sign", EVERY_BRANCH, on=runs.run),
        post("/runs/{run_id}/confirm", runs.confirm, "approve", EVERY_BRANCH, on=runs.run),
        post("/runs/{run_id}/release", runs.release, "approve", EVERY_BRANCH, on=runs.run),
        get("/runs/{run_id}/report", runs.report, "runs", EVERY_BRANCH),
        get("/runs/{run_id}/files/{name:path}", runs.file, "runs"),
        get("/runs/{run_id}/fix", fix.fix, "screen", EVERY_BRANCH),
        post("/runs/{run_id}/fix", fix.fix_rows, "screen", EVERY_BRANCH, on=fix.fix, **table),
        get("/runs/{run_id}/decisions", lists.run_decisions, "people"),
        get("/runs/{run_id}/decisions.{kind}", lists.export, "people", "export"),
        get("/decisions", lists.my_work, "people"),
        post("/decisions", lists.act, "review", on=lists.my_work),
        get("/contests", lists.contests, "people"),
        post("/contests", lists.record, "contest", on=lists.contests),
        post("/contests/{contest_id}/answer", lists.answer, "contest", on=lists.contests),
        get("/policy", policy.policy, "runs"),
        post("/policy/try", policy.try_on_past_runs, "people", EVERY_BRANCH, on=policy.policy),
        post("/policy/propose", policy.propose, "propose", on=policy.policy),
        post("/policy/{key}", policy.decide, "runs", on=policy.policy),
        *(
            post(f"{customers}/{does}", view, *needs, on=customer.customer)
            for does, view, *needs in (
                ("review", customer.review, "review"),
                ("override", customer.override, "people", "override"),
                ("action", customer.act, "review"),
                ("told", customer.mark_as_told, "contest"),
                ("again", customer.ask_again, "screen"),
                ("consent", customer.ask_for_consent, "contest"),
            )
        ),
        post(f"{customers}/comment", customer.comment, "review", on=customer.customer, **scan),
        get(customers + "/attachments/{key}", customer.save_attachment, "people"),
        get(customers, customer.customer, "people"),
        get("/users", users.users, "users"),
        post("/users", users.change, "users", on=users.users),
        post("/users/confirm", users.confirm, "approve"),
        post("/users/give-up", users.give_up),
        get("/money", books.money, "money"),
        post("/money/settle", books.settle, "settle", on=books.money),
        post("/money/confirm", books.confirm, "settle", on=books.money),
        post("/money/missing", books.explain, "settle", on=books.money),
        get("/money.csv", books.export_money, "money", "take out"),
        get("/audit", books.audit, "audit"),
        get("/audit.csv", books.export_audit, "audit", "take out"),
        Mount("/static", StaticFiles(directory=TEMPLATES / "static", follow_symlink=True)),
        Route("/health", health, methods=["GET"]),
    ]


async def _sweep(desk: Context) -> None:
    """Remove uploads that are no longer needed, as long as the desk is served."""
    while True:
        with suppress(JournalError, OSError):  # tried again later
            await asyncio.to_thread(desk.uploads.sweep)
        await asyncio.sleep(SWEEP_S)


async def _load(desk: Context) -> None:
    """Read the policy in force and all templates: a second each, for which nobody is to wait."""

    def load() -> None:
        with suppress(NightscreenError):  # the pages that need the policy say what is wrong
            policy_in_force(desk.journal, desk.clock())
        for name in environment().list_templates(extensions=["j2"]):
            environment().get_template(name)

    await asyncio.to_thread(load)


async def health(_request: Request) -> Response:
    """Answer a health check."""
    return PlainTextResponse("ok\n")


def _no_page(desk: Context, request: Request, error: HTTPException) -> Response:
    sentences = {400: error.detail, 404: "Begin with the entries above.", 415: error.detail}
    sentence = sentences.get(error.status_code, "This page cannot do that.")
    return desk.of(request).refusal(DeskError(error.status_code, sentence))
