"""`nightscreen automations`: the ready-made automations, put on a server by one command."""

from __future__ import annotations

import asyncio

import typer

from nightscreen.cli.output import print_json
from nightscreen.schemas.errors import UsageError


def install_automations(block: str, summary_block: str, *, json_output: bool) -> None:
    """Install the automations on the server of PREFECT_API_URL and say which there are now.

    Raises:
        UsageError: no server is set, it cannot be reached, or a block is not there.
    """
    from nightscreen.cli.screen import set_engine_defaults

    set_engine_defaults()
    import httpx
    from prefect.settings import PREFECT_API_URL

    from nightscreen.tasks.automations import install

    url = PREFECT_API_URL.value()
    if not url:
        raise UsageError(
            "PREFECT_API_URL is not set: automations live on a server that runs all night; set it "
            "to that server's address, such as http://127.0.0.1:4200/api"
        )
    try:
        done = asyncio.run(install(page_block=block, summary_block=summary_block))
    except (httpx.HTTPError, OSError, RuntimeError) as error:
        raise UsageError(
            f"the Prefect server {url} cannot be used ({type(error).__name__}): start it with "
            "prefect server start, or correct PREFECT_API_URL"
        ) from None
    if json_output:
        document = {
            "automations": [
                {"name": automation.name, "made": automation.made} for automation in done
            ]
        }
        print_json(document)
        return
    for automation in done:
        typer.echo(f"  {'made' if automation.made else 'brought up to date':<20}{automation.name}")
    if not block:
        typer.echo(
            "Nobody is notified yet: make a notification block in the Prefect UI, then\n"
            "  nightscreen automations install --block slack-webhook/NAME"
        )
