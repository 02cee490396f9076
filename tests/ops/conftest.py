"""The command in this process, as the tests of the command line have it, and a real engine."""

from tests.cli.conftest import folder, here

__all__ = ["folder", "here"]
