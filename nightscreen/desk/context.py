"""The context of a page: the desk's parts, one request, and the user who sent it.

`page` makes an endpoint from a view. It finds the session, checks the rights that the route
declares, reads the form, and writes refusals into the audit. If a form is wrong, its view raises an
error; the page with the form is then shown again, with the error and with what was typed.
`web.guard` checks beforehand that a form comes from one of our pages.
"""

from __future__ import annotations

import asyncio
import copy
import re
from datetime import date
from functools import cached_property, wraps
from ipaddress import IPv4Address, ip_address
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar
from urllib.parse import quote

from starlette.responses import RedirectResponse

from nightscreen.desk.accounts import Accounts
from nightscreen.desk.pages import html
from nightscreen.desk.rows import WorkList, branch_of, rows_of_run
from nightscreen.desk.uploads import Uploads
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.audit import Audit
from nightscreen.journal.cases import Cases, Reviews
from nightscreen.journal.customers import Customers
from nightscreen.results.enriched import find_row
from nightscreen.schemas.errors import JournalBusyError, NightscreenError, NotAllowedError
from nightscreen.schemas.users import ALLOWED, RIGHTS
from nightscreen.web.guard import page_of, read_form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from starlette.datastructures import UploadFile
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.desk.accounts import SignInSource
    from nightscreen.desk.rows import OpenCases, RunRows
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.users import User
    from nightscreen.web.guard import Form

    View = Callable[["Context"], Response]

T = TypeVar("T")
W = TypeVar("W", bound=str)
WRITE_WAIT_S: Final = 1.0
"""How long a page waits to write if a run has the journal locked; then the page says so."""
COOKIE: Final = "nightscreen-desk"
DEVICE_COOKIE: Final = "nightscreen-desk-device"
MOST_FIELDS: Final = 1_400  # a page of a quarantine has the most: a field for each cell
LONGEST_ADDRESS: Final = 2000  # of the page to which somebody returns after signing in
EVERY_BRANCH: Final = "every branch"  # needed, besides rights, by a page that shows all customers
_FIRST_YEAR: Final = 2000  # no run is older
_LOOKED_AT: Final = 60  # runs that are searched for a customer's newest row
_DOING: Final = {
    "approve": "Approving",
    "contest": "Recording and answering contests",
    "export": "Exporting",
    "money": "Seeing costs",
    "override": "Deciding differently from the policy",
    "people": "Seeing customers",
    "policy": "Putting a policy in force",
    "review": "Reviewing customers",
    "screen": "Screening files",
    "settle": "Changing what calls cost",
    "sign": "Signing reports",
    "take out": "Exporting",
}
"""What a right is needed for, if its name does not say it."""
_SLEEPS: Final = "Your right to do this sleeps, as the page says above; nothing was saved."
BUSY: Final = "The journal is busy, and nothing was saved. Try again in a few seconds."
_OF_COMMANDS: Final = re.compile(r"; see(?: all with)?: nightscreen .*", re.DOTALL)
"""Hints in messages that only help on the command line; pages leave them out."""
_NOT_MENDED: Final = frozenset({403, 404, 410})  # statuses that no change to the form can avoid


class DeskError(Exception):
    """A request that is refused, in a sentence for the person who made it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Starter(Protocol):
    """Starts and stops runs outside this process; each raises UsageError where it cannot."""

    def start(self, parameters: ScreenBatch) -> None:
        """Start a run, or resume the one that the parameters name."""

    def resume(self, run: RunRecord, approval: Approval, given: Mapping[str, str]) -> None:
        """Resume an approved run by what started it, or by the watch of the inbox."""

    def stop(self, run_id: str, pid: int | None) -> None:
        """Ask a run to stop in good order."""


class Context:
    """The desk's parts, made once when it is served; each request has a copy with its own fields.

    Args:
        journal: an open journal.
        settings: those of the product.
        starter: starts and stops runs.
        origins: addresses under which browsers reach the desk.
        output: where runs that are started here put their results.
    """

    request: Request  # as it came

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        starter: Starter,
        origins: frozenset[str],
        output: Path,
    ) -> None:
        self.journal, self.settings = journal, settings
        self.starter, self.origins, self.output = starter, origins, output
        self.clock = journal.clock
        self.accounts, self.audit = Accounts(journal), Audit(journal)
        self.customers, self.reviews = Customers(journal), Reviews(journal)
        self.approvals, self.cases = Approvals(journal), Cases(journal)
        self.uploads, self.work = Uploads(journal, output), WorkList(journal)
        self.user: User | None = None  # who is signed in
        self.session = ""  # the token that the browser is to keep; empty where nobody is signed in
        self.form: Form = {}  # the fields of a form, each with every value given
        self.file: UploadFile | None = None  # of a form that bears one
        self.error = ""  # what is wrong with the form; what was typed is shown again then
        self.status = 200  # of the page

    def of(self, request: Request) -> Context:
        """Return the context of one request: whose it is."""
        context = copy.copy(self)
        context.request = request
        token = context.cookie(COOKIE)
        user, token = (token and self.accounts.session(token)) or (None, "")
        wanted = self.settings.desk_second_factor
        if user is not None and (user.second or not user.must_have_second(wanted)):
            context.user, context.session = user, token
        return context

    # --- cookies ---

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach the desk only by https."""
        return all(origin.startswith("https://") for origin in self.origins)

    def cookie_name(self, name: str) -> str:
        """Return a cookie's name; by https it is bound to this host."""
        return f"__Host-{name}" if self.is_secure else name

    def cookie(self, name: str) -> str:
        """Return the value of a cookie; empty if there is none."""
        return self.request.cookies.get(self.cookie_name(name), "")

    def set_cookie(
        self, response: Response, name: str, value: str, seconds: int | None = None
    ) -> None:
        """Set a cookie for so many seconds, or until the browser is closed.

        No script and no other site can use it.
        """
        response.set_cookie(
            self.cookie_name(name),
            value,
            max_age=seconds,
            secure=self.is_secure,
            httponly=True,
            samesite="lax",
        )

    # --- who it is, and what they may ---

    @property
    def name(self) -> str:
        """Return the name that the audit records."""
        return "" if self.user is None else self.user.name

    @property
    def actor(self) -> Actor:
        """Return who decides on this page."""
        rights = frozenset() if self.user is None else self.user.awake
        return Actor(self.name, rights, alone=not self.accounts.needs_two())

    def record(
        self, action: str, *, run_id: str = "", customer_id: str = "", **detail: object
    ) -> None:
        """Write down in the audit what the user did or saw."""
        self.audit.write(self.name, action, run_id=run_id, customer_id=customer_id, **detail)

    def source(self, name: str) -> SignInSource:
        """Return where somebody tries to sign in from under a name."""
        client = self.request.client
        address = "" if client is None else neighbourhood(client.host)
        return self.accounts.source(name, self.cookie(DEVICE_COOKIE), address)

    def may(self, what: str) -> bool:
        """Return whether the user may do or see something."""
        return self.user is not None and self.user.may(what)

    def refuse(self, needs: str, sentence: str, **about: str) -> NoReturn:
        """Refuse to go on, as something is needed; it is written into the audit."""
        self.record("refused", page=page_of(self.request.scope), needs=needs, **about)
        raise DeskError(403, sentence)

    def require(self, what: str) -> None:
        """Refuse to go on without a right, or who sees some branches alone (`EVERY_BRANCH`)."""
        if what == EVERY_BRANCH:
            self.require_branch()
        elif not self.may(what):
            sleeps = self.user is not None and self.user.holds(what)
            self.refuse(what, _SLEEPS if sleeps else who_may(what))

    @property
    def branches(self) -> tuple[str, ...]:
        """Return the branches whose customers alone this user sees; empty for all."""
        return () if self.user is None else self.user.branches

    def sees_branch(self, branch: str) -> bool:
        """Return whether the user sees customers of a branch."""
        lower = {each.lower() for each in self.branches}
        return not lower or branch.strip().lower() in lower

    def require_branch(self, branch: str = "", **about: str) -> None:
        """Refuse to show a customer of another branch, or of every branch where none is named."""
        if not self.sees_branch(branch):
            theirs = "You see customers of these branches: " + ", ".join(self.branches)
            self.refuse("branch", theirs, **about)

    def proposals(self) -> list[Review]:
        """Return the overrides of customers the user sees that wait for a second person."""
        if not self.may("override"):
            return []
        waiting = self.reviews.waiting()
        if not self.branches:
            return waiting
        return [each for each in waiting if self.open_cases.case(each.batch, each.customer_id)]

    @cached_property
    def run(self) -> RunRecord:
        """Return the run that the address names."""
        found = self.journal.runs.find(self.request.path_params["run_id"])
        if found is None:
            raise DeskError(404, "There is no run of this id. See all of them under Runs.")
        return found

    def money_facts(self) -> dict[str, Any]:
        """Return what pages say of the wallet, and of today's and this month's money."""
        money, balance = self.journal.money, self.journal.runs.last_balance()
        return {"today": money.today(), "month": money.this_month(), "balance": balance}

    @cached_property
    def open_cases(self) -> OpenCases:
        """Return the open cases as the user sees them."""
        return self.work.seen_by(self.name, self.branches)

    @cached_property
    def waiting_approvals(self) -> list[Approval]:
        """Return the approvals that nobody has decided yet, oldest first."""
        return self.approvals.waiting()

    def sees(self, customer_id: str, batch: str) -> bool:
        """Return whether a customer is of a branch that the user sees, by the newest row there is.

        Of a batch, or of any where none is named.
        """
        if not self.branches:
            return True
        runs = self.journal.runs
        of_batch = (head for head in runs.heads() if not batch or head.batch == batch)
        for head in islice(of_batch, _LOOKED_AT):
            run = runs.find(head.run_id)
            row = None if run is None else find_row(run, customer_id)
            if row is not None:
                return self.sees_branch(branch_of(row))
        return False

    def require_seen(self, customer_id: str, batch: str) -> None:
        """Refuse to go on with a customer of a branch that the user does not see."""
        if not self.sees(customer_id, batch):
            self.require_branch(customer_id=customer_id)

    def rows_of(self, run: RunRecord) -> RunRows | None:
        """Return a run's rows of the branches this user sees; None where its files are gone."""
        rows = rows_of_run(run)
        return rows.within(self.branches) if rows is not None and self.branches else rows

    # --- what was sent ---

    def text(self, name: str, most: int = 4000) -> str:
        """Return a field of the form without spaces around it."""
        given = self.form.get(name) or [""]
        return given[-1].strip()[:most]

    def chosen(self, name: str, among: Iterable[W], sentence: str) -> W:
        """Return which of some words a field of the form has."""
        text = self.text(name, 200)
        for word in among:
            if word == text:
                return word
        raise DeskError(400, sentence)

    def typed(self, name: str, default: object = "", of: str = "") -> object:
        """Return what a field of a page is to hold: what was typed where it is shown again.

        Where several parts of the page have such a field, `of` names one.
        """
        here = not of or of in (self.text("of", 200), *self.request.path_params.values())
        return self.text(name) if self.error and here and name in self.form else default

    def asked(self, name: str) -> list[str]:
        """Return every value of a parameter of the address that has one."""
        return [each for each in self.request.query_params.getlist(name) if each]

    def asked_first(self, name: str) -> str:
        """Return the first value of a parameter of the address; empty where there is none."""
        return next(iter(self.asked(name)), "")

    def whole_number(self, name: str) -> int:
        """Return a number of the address; 0 where there is none."""
        text = self.asked_first(name)
        return int(text) if text.isdecimal() and len(text) < 16 else 0  # noqa: PLR2004 - no list is longer

    def day(self, name: str) -> str:
        """Return a day of the address as ISO text; empty where none is given."""
        text = self.asked_first(name).strip()
        try:
            day = date.fromisoformat(text) if text else None
        except ValueError:
            day = date.max
        if day is None:
            return ""
        if not _FIRST_YEAR <= day.year < date.max.year:  # the day after it is reckoned with
            raise DeskError(400, "Write a day such as 2026-03-01.")
        return day.isoformat()

    # --- the answer ---

    def page(self, template: str, **values: object) -> Response:
        """Return a page with the navigation of this user."""
        here = "/" + self.request.url.path.split("/")[1]
        if here == "/customers" or self.request.url.path.endswith("/decisions"):
            here = "/decisions"
        shown = {
            "user": self.user,
            "may": self.may,
            "settings": self.settings,
            "text": self.text,
            "to_approve": len(self.waiting_approvals) if self.may("approvals") else 0,
            "here": here,  # the entry of the navigation
            "now": self.clock(),
            "error": self.error,
            "said": self.asked_first("said"),
            "typed": self.typed,
        }
        return html(template, self.status, **{**shown, **values})

    def slice(self, number: int, size: int) -> tuple[int, dict[str, int]]:
        """Return where the page of a list begins that the address names, and what says so there."""
        last = max(0, (number - 1) // size)
        page = min(self.whole_number("page"), last)
        return page * size, {"number": number, "page": page, "last": last, "start": page * size}

    def refusal(self, error: DeskError) -> Response:
        """Return the page of a refused request."""
        self.status = error.status
        return self.page("trouble", refused_as=error.status, sentence=error.sentence, error="")


def plain_naira(text: str) -> str:
    """Return an amount as it was typed, without separators of thousands and the sign of naira."""
    return text.replace(",", "").replace("₦", "").strip()


def who_may(what: str) -> str:
    """Say who has a right, for somebody who lacks it."""
    doing = _DOING.get(what, "This")
    right = "export" if what == "take out" else what
    if right in RIGHTS:
        return f"{doing} requires the {right} permission; an administrator can give it to you."
    roles = " or ".join(role for role, rights in ALLOWED.items() if right in rights)
    return f"{doing} is for users with the role {roles or 'analyst or approver'}."


def page(
    desk: Context,
    view: View,
    *needs: str,
    on: View | None = None,
    signed_in: bool = True,
    takes_file: bool = False,
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a view, which runs in a thread.

    Args:
        desk: the desk's parts.
        view: makes the answer.
        needs: the rights without which it is refused; those of a form are those of its page, too.
        on: makes the page that the form is on.
        signed_in: somebody must be signed in.
        takes_file: the form has a file.
    """

    def let_in(context: Context) -> None:
        for each in needs:
            context.require(each)

    @wraps(view)  # the log and the audit name the page by its view
    async def endpoint(request: Request) -> Response:
        context = await asyncio.to_thread(desk.of, request)
        if signed_in and context.user is None:
            return to_sign_in(request)
        refused = await asyncio.to_thread(_answered, context, let_in)  # before a body is read
        if refused is not None:
            return refused
        if request.method == "POST":
            context.form, context.file = await read_form(
                request, MOST_FIELDS, takes_file=takes_file
            )
        response = await asyncio.to_thread(_answered, context, view, on)
        if context.session not in {"", context.cookie(COOKIE)}:
            context.set_cookie(response, COOKIE, context.session)
        return response

    return endpoint


def _answered(
    context: Context, work: Callable[[Context], T], on: View | None = None
) -> T | Response:
    """Return what work returns, or the page that says why it was refused."""
    try:
        return work(context)
    except DeskError as error:
        refused, on = error, None if error.status in _NOT_MENDED else on
    except NotAllowedError as error:
        context.record("refused", page=page_of(context.request.scope), needs=error.needs)
        said = who_may(error.needs) if error.needs in _DOING else str(error)
        refused = DeskError(403, said)
    except JournalBusyError:  # the page might write too, and wait once more
        refused, on = DeskError(503, BUSY), None
    except NightscreenError as error:
        said = _OF_COMMANDS.sub("", str(error))
        refused = DeskError(400, said[:1].upper() + said[1:])
    if on is None:
        return context.refusal(refused)
    context.error, context.status = refused.sentence, refused.status
    return _answered(context, on)


def neighbourhood(address: str) -> str:
    """Return an address, or of an IPv6 one the /64 network, as one line has all of its addresses.

    What is no address is returned as it came.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or found.packed[:8].hex())


def local_address(address: str) -> str:
    """Return a path of our own; anything else becomes the front page."""
    sound = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if sound and address.isprintable() else "/"


def to_sign_in(request: Request) -> Response:
    """Send a browser to sign in, and back to the page it asked for."""
    asked = f"{request.url.path}?{request.url.query}".removesuffix("?")
    asked = asked if len(quote(asked)) <= LONGEST_ADDRESS else request.url.path
    wanted = asked if request.method == "GET" else "/"
    if request.headers.get("hx-request") == "true":
        return RedirectResponse("/sign-in", 401, {"HX-Redirect": "/sign-in"})
    return RedirectResponse("/sign-in" + (f"?to={quote(wanted)}" if wanted != "/" else ""), 303)
