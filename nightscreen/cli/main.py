"""The console command `nightscreen` and how it ends.

The commands are in the modules beside this one; each is imported when its command is called.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightscreen.cli import STOPPED
from nightscreen.cli.approve import register as register_approval
from nightscreen.cli.bvn import bvn_app
from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.consent import register as register_consent
from nightscreen.cli.decisions import register as register_decisions
from nightscreen.cli.desk import register as register_desk
from nightscreen.cli.erase import register as register_erasing
from nightscreen.cli.failing import fail
from nightscreen.cli.inbox import register as register_inbox
from nightscreen.cli.init import register as register_init
from nightscreen.cli.loans import loans_app
from nightscreen.cli.notices import notices_app
from nightscreen.cli.ops import register as register_oncall
from nightscreen.cli.options import Options, options_of
from nightscreen.cli.outcomes import outcomes_app
from nightscreen.cli.policy import policy_app
from nightscreen.cli.portal import register as register_portal
from nightscreen.cli.privacy import privacy_app
from nightscreen.cli.transactions import transactions_app
from nightscreen.cli.up import register as register_up
from nightscreen.config.parameters import ScreenBatch
from nightscreen.schemas.errors import NightscreenError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="nightscreen",
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
    """Batch risk screening for lenders: rows in, metered lookups, an account of every naira out."""


runs_app = typer.Typer(help="Past runs, newest first.", no_args_is_help=True)
journal_app = typer.Typer(help="The journal of paid calls.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")
app.add_typer(journal_app, name="journal")
app.add_typer(policy_app, name="policy")
app.add_typer(notices_app, name="notices")
app.add_typer(loans_app, name="loans")
app.add_typer(outcomes_app, name="outcomes")
app.add_typer(transactions_app, name="transactions")
app.add_typer(bvn_app, name="bvn")
app.add_typer(privacy_app, name="privacy")
register_approval(app)
register_decisions(app, runs_app)
register_erasing(app)
register_inbox(app)
register_init(app)
register_oncall(app)
register_consent(app)
register_portal(app)
register_desk(app)
register_up(app)

_INTERRUPTED = 130
"""Typer turns Ctrl-C into this; a run that is open ends by itself instead, with a report."""
MappingOption = Annotated[
    Path | None, typer.Option(help="TOML file that renames, merges or defaults columns.")
]


@app.command(epilog="Example: nightscreen screen customers.csv --max-spend 250000 --deadline 06:00")
@options_of(ScreenBatch, leave_out=("date_order",))
def screen(options: Options, json_output: JsonOption = False) -> None:
    """Screen a batch: the main job."""
    from nightscreen.cli.screen import screen_file

    raise typer.Exit(screen_file(options, json_output=json_output))


@app.command(epilog="Example: nightscreen quote customers.csv --json")
@options_of(
    ScreenBatch,
    leave_out=("deadline", "quote_only", "run", "output", "workers", "yes", "date_order"),
    needs=("input",),
)
def quote(options: Options, json_output: JsonOption = False) -> None:
    """Say what a run would cost, without spending."""
    from nightscreen.cli.quote import quote_file

    quote_file({**options, "quote_only": True}, json_output=json_output)


@app.command(epilog="Example: nightscreen inspect customers.csv")
def inspect(
    input_: Annotated[Path, typer.Argument(metavar="INPUT", help="File of customers.")],
    mapping: MappingOption = None,
    json_output: JsonOption = False,
) -> None:
    """Diagnose a file's header and rows; nothing is spent."""
    from nightscreen.cli.inspect import inspect as inspect_file

    inspect_file(input_, mapping, json_output=json_output)


@app.command(epilog="Example: nightscreen demo --rows 1000")
def demo(
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows to make.")] = 10_000,
    output: Annotated[Path, typer.Option(help="Where the demo keeps everything.")] = Path(
        ".nightscreen-demo"
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on from an earlier demo instead of afresh.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Screen made-up customers twice; no key needed."""
    from nightscreen.cli.demo import demonstrate

    raise typer.Exit(demonstrate(rows, output, keep=keep, json_output=json_output))


@app.command(epilog="Example: nightscreen sandbox --port 8800 --scenario flaky")
def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8800,
    scenario: Annotated[
        str,
        typer.Option(
            help="calm, flaky, slow, empty-wallet, mixed-consents, no-distributor or test-mode."
        ),
    ] = "calm",
    host: Annotated[
        str, typer.Option(help="Address to listen on; its controls have no key: stay on loopback.")
    ] = "127.0.0.1",
    api_key: Annotated[str, typer.Option(help="The only key that is right.")] = "sandbox-key",
    balance: Annotated[
        str, typer.Option(metavar="NAIRA", help="The wallet's opening balance.")
    ] = "1000000",
    seed: Annotated[int, typer.Option(help="Chooses faults and latencies.")] = 0,
    ledger_limit: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N entries of the ledger.")
    ] = None,
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when stdin ends: die with the parent.")
    ] = False,
) -> None:
    """Run the simulator of the service on this machine."""
    from nightscreen.cli.sandbox import run_sandbox

    run_sandbox(
        host=host,
        port=port,
        scenario=scenario,
        api_key=api_key,
        balance=balance,
        seed=seed,
        ledger_limit=ledger_limit,
        stop_with_stdin=stop_with_stdin,
    )


@runs_app.command("list", epilog="Example: nightscreen runs list --json")
def runs_list(json_output: JsonOption = False) -> None:
    """List past runs, newest first, killed ones included."""
    from nightscreen.cli.runs import list_runs

    list_runs(json_output=json_output)


@runs_app.command("show", epilog="Example: nightscreen runs show 20260301-220000-a1b2c3")
def runs_show(
    run_id: Annotated[str, typer.Argument(help="Id of the run.")], json_output: JsonOption = False
) -> None:
    """Show one run: what was asked, how it ended, what it cost."""
    from nightscreen.cli.runs import show_run

    show_run(run_id, json_output=json_output)


@journal_app.command("in-doubt", epilog="Example: nightscreen journal in-doubt")
def journal_in_doubt(json_output: JsonOption = False) -> None:
    """Name every call that may have been charged without our knowing."""
    from nightscreen.cli.journal import in_doubt

    in_doubt(json_output=json_output)


@journal_app.command("settle", epilog="Example: nightscreen journal settle 4711 --cost 25")
def journal_settle(
    call: Annotated[
        int, typer.Argument(metavar="CALL", help="Number of the call, as the report names it.")
    ],
    cost: Annotated[
        str, typer.Option(metavar="NAIRA", help="What the service's invoice says it cost.")
    ],
    json_output: JsonOption = False,
) -> None:
    """Enter what the invoice says of a call whose cost was not believed, or is not known.

    Both values are kept. A cost below what was reserved is confirmed by a second person, where the
    desk has users: then it is entered on its page Money.
    """
    from nightscreen.cli.journal import settle

    settle(call, cost, json_output=json_output)


@journal_app.command("verify", epilog="Example: nightscreen journal verify")
def journal_verify(json_output: JsonOption = False) -> None:
    """Check the journal: the database, the seals, that the money adds up, and the desk's audit."""
    from nightscreen.cli.journal import verify

    raise typer.Exit(verify(json_output=json_output))


@journal_app.command("reread", epilog="Example: nightscreen journal reread --json")
def journal_reread(json_output: JsonOption = False) -> None:
    """Read kept answers again that could not be read, once the table of manners was corrected.

    Costs nothing and asks nothing. The next run uses the answers that can now be read.
    """
    from nightscreen.cli.journal import read_again

    read_again(json_output=json_output)


PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        help="File whose first line is the passphrase of the data key; - is standard input."
    ),
]


@journal_app.command("backup", epilog="Example: nightscreen journal backup backups/2026-03-01")
def journal_backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the copy.")],
    passphrase_file: PassphraseOption = None,
    json_output: JsonOption = False,
) -> None:
    """Copy the journal while runs go on, without its data key or with it sealed to a passphrase."""
    from nightscreen.cli.journal import back_up

    back_up(folder, passphrase_file, json_output=json_output)


@journal_app.command("restore", epilog="Example: nightscreen journal restore backups/2026-03-01")
def journal_restore(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A backup made by `journal backup`.")
    ],
    passphrase_file: PassphraseOption = None,
    json_output: JsonOption = False,
) -> None:
    """Restore a backup as the journal of the settings, if there is none."""
    from nightscreen.cli.journal import restore

    restore(folder, passphrase_file, json_output=json_output)


@journal_app.command("rotate-key", epilog="Example: nightscreen journal rotate-key")
def journal_rotate_key(
    new_key: Annotated[
        Path | None, typer.Option(help="File with the new key, where it is set, not kept.")
    ] = None,
    links: Annotated[
        bool,
        typer.Option("--links", help="Replace the key that signs links to customers instead."),
    ] = False,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="With --links: end every link that is out.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Seal under a new key from now on; what was sealed before opens with it too."""
    from nightscreen.cli.journal import rotate_key, rotate_links

    if at_once and not links:
        raise UsageError("--at-once ends links: give it with --links")
    if links:
        rotate_links(at_once=at_once, json_output=json_output)
    else:
        rotate_key(new_key, json_output=json_output)


_DESK = "it is done at the desk, on its page {}: nightscreen desk"
_GONE = {
    "accounts": "type nightscreen transactions pull --accounts",
    "automations": "see docs/operate.md for: prefect automation create --from-file",
    "contest": _DESK.format("Contests"),
    "refuse": "type nightscreen approve RUN_ID --refuse",
    "journal spend": f"{_DESK.format('Money')}; report.json has each run's cost",
    "journal rotate-links": "type nightscreen journal rotate-key --links",
    "notices write": "notices confirm writes notices.csv anew",
    "policy list": _DESK.format("Policy"),
    "desk audit": _DESK.format("Audit"),
    "desk user role": _DESK.format("Users"),
}
"""Commands there were, and what takes their place."""


def _refuse_gone(typed: Sequence[str]) -> None:
    """Refuse a command that there was, and name what takes its place.

    Raises:
        UsageError: there was such a command.
    """
    words = list(takewhile(lambda word: not word.startswith("-"), typed))
    for number in (1, 2, 3):
        old = " ".join(words[:number])
        if len(words) >= number and old in _GONE:
            raise UsageError(f"nightscreen {old} is no command any more: {_GONE[old]}")


def run() -> None:
    """Entry point: every error is one line on stderr and an exit status, never a traceback."""
    logging.captureWarnings(capture=True)
    try:
        _refuse_gone(sys.argv[1:])
        status = app(prog_name="nightscreen", standalone_mode=False)
    except NightscreenError as error:
        fail(str(error), error.exit_status)
    except typer.TyperException as error:
        _fail_usage(error)
    except typer.Abort:
        fail("stopped", 3)
    except (KeyboardInterrupt, asyncio.CancelledError):
        fail(STOPPED, 3)
    except BrokenPipeError:
        _let_go_of_stdout()
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a customer's data
        from nightscreen.tasks.error_boundary import sanitized

        fail(str(sanitized(error)), 1)
    else:
        if status == _INTERRUPTED:
            fail(STOPPED, 3)
        sys.exit(status if isinstance(status, int) else 0)


def _fail_usage(error: typer.TyperException) -> None:
    """Say what is wrong with the command line, or what there is where no command was given."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    help_ = f"see: {context.command_path if context else 'nightscreen'} --help"
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{message.partition(' (')[0]}. Did you mean {near[0]!r}?"
    if not message.startswith("Usage:"):
        fail(message if message.endswith("?") else f"{message.rstrip('.')}; {help_}", 2)
    if "--json" in sys.argv:
        fail(f"a command is missing; {help_}", 2)
    sys.stderr.write(f"{message}\n")
    sys.exit(2)


def _let_go_of_stdout() -> None:
    """Keep the interpreter from complaining at its end that nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
