"""The command in this process, as the tests of the command line have it."""

from tests.cli.conftest import folder, here

__all__ = ["folder", "here"]
