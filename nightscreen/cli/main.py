"""The table of commands; a command's module is imported when it or its help is called."""

from __future__ import annotations

from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Entry(NamedTuple):
    """A command or a group of commands."""

    path: str  # `module:name` below `nightscreen.cli`; a function made by `command`, or a group
    about: str  # its line in the list of commands, at most 60 characters


COMMANDS = {
    "screen": Entry("screen:screen", "Screen a file of customers: the main command."),
    "quote": Entry("screen:quote", "Say what a run would cost; free, makes no calls."),
    "inspect": Entry("screen:inspect", "Check a file's columns and rows; free, makes no calls."),
    "demo": Entry("demo:demo", "Screen fictional customers twice; needs no key."),
    "runs": Entry("runs:app", "Past runs, newest first."),
    "doctor": Entry("runs:doctor", "Diagnose problems and suggest the next command."),
    "approve": Entry("runs:approve", "Approve or refuse a run's spending."),
    "review": Entry("decisions:reviews", "Reviewed decision lists."),
    "explain": Entry("people:explain", "Explain one customer's decision and its evidence."),
    "policy": Entry("decisions:policies", "Decision rules: check, backtest, propose, approve."),
    "notices": Entry("decisions:notices", "Notices of decisions to customers."),
    "outcomes": Entry("decisions:outcomes", "How the loans you decided on were repaid."),
    "bvn": Entry("flows:bvn", "BVN consent: request one-time passwords, confirm."),
    "consent": Entry("flows:consent", "Customers' consent to share transactions."),
    "transactions": Entry("flows:transactions", "Transactions of customers who consented."),
    "loans": Entry("flows:loans", "Loan products, offers and tracking."),
    "journal": Entry("journal:app", "The journal of paid calls."),
    "subject-access": Entry("people:subject_access", "Export all data held about one customer."),
    "erase": Entry("people:erase", "Erase one customer from the journal and all outputs."),
    "purge": Entry("people:purge", "Delete what is older than its retention period."),
    "privacy": Entry("people:privacy", "Data-protection documents."),
    "init": Entry("up:init", "Write settings and deployments to fill in."),
    "up": Entry("up:up", "Start everything on this machine, until Ctrl-C."),
    "desk": Entry("serve:desk_app", "Web pages for analysts, approvers and auditors."),
    "portal": Entry("serve:portal", "Web pages for customers: consent, callback, OTP."),
    "inbox": Entry("flows:inbox", "Screen each file that is dropped into the inbox."),
    "sandbox": Entry("demo:sandbox", "Run the simulator of the service."),
}

_DESK = "it is done at the desk, on its page {}: nightscreen desk"
_GONE = {
    "accounts": "type nightscreen transactions pull --accounts",
    "automations": "see docs/operate.md for: prefect automation create --from-file",
    "contest": _DESK.format("Contests"),
    "refuse": "type nightscreen approve RUN_ID --refuse",
    "journal spend": f"{_DESK.format('Money')}; report.json has each run's cost",
    "journal rotate-links": "type nightscreen journal rotate-key --links",
    "notices action": _DESK.format("of the customer"),
    "notices confirm": _DESK.format("of the run"),
    "notices write": "confirming a run's proposals at the desk writes notices.csv anew",
    "policy list": _DESK.format("Policy"),
    "desk audit": _DESK.format("Audit"),
    "desk user role": _DESK.format("Users"),
    "demo --keep": "each demo begins afresh",
    "screen --log-format": "progress on stderr is text; --json prints the report for programs",
}
"""Removed commands and options, and what replaces them."""


class Commands(TyperGroup):
    """The commands of the table; each is loaded when it is called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as Typer passes them
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=entry.about) for name, entry in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's own kinds
        """Return the name, the loaded command and the arguments that follow."""
        name, _stub, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> TyperCommand | TyperGroup:
    """Import a command or a group of the table."""
    module, _, attribute = COMMANDS[name].path.partition(":")
    member = getattr(import_module(f"nightscreen.cli.{module}"), attribute)
    if isinstance(member, typer.Typer):
        loaded: Any = get_group(member)
    else:
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name, epilog=member.epilog)(member)
        loaded = get_command(single)
    loaded.name = name
    return loaded  # type: ignore[no-any-return]  # one of the two


app = typer.Typer(
    name="nightscreen",
    cls=Commands,
    help="Batch risk screening for lenders: rows in, metered lookups, enriched rows and an account "
    "of every naira out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("nightscreen"))
        raise typer.Exit


@app.callback()
def _nightscreen(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Declare the options that come before a command."""


def call(typed: Sequence[str]) -> object:
    """Run the typed command and return its exit status.

    Raises:
        UsageError: the command or option was removed; the text names what replaces it.
    """
    words = list(takewhile(lambda word: not word.startswith("-"), typed))
    removed = {" ".join(words[:number]): "command" for number in (1, 2, 3)}
    options = (word.partition("=")[0] for word in typed if word.startswith("--"))
    removed |= {" ".join((*words[:1], option)): "option" for option in options}
    for old, what in removed.items():
        if old in _GONE:
            raise UsageError(f"nightscreen {old} is no {what} any more: {_GONE[old]}")
    return app(list(typed), prog_name="nightscreen", standalone_mode=False)
