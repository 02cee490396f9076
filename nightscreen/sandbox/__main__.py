"""`python -m nightscreen.sandbox`: start the server."""

from __future__ import annotations

import typer

from nightscreen.sandbox.server import serve

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(serve)
    app(prog_name="python -m nightscreen.sandbox")
