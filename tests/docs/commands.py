"""The page of commands: every command of the console program, its options and its example."""

from __future__ import annotations

from collections.abc import Iterator

from typer.core import TyperCommand, TyperGroup

from nightscreen.cli.main import COMMANDS, load
from tests.docs.pages import code, meanings, page, table

EXAMPLE = "Example: "


def walk() -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command and its name without `nightscreen`, in alphabetical order."""
    for name in sorted(COMMANDS):
        found = load(name)
        if isinstance(found, TyperGroup):
            yield from _below(found, (name,))
        else:
            yield name, found


def _below(group: TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in sorted(group.commands.items()):
        here = (*words, name)
        if isinstance(command, TyperGroup):
            yield from _below(command, here)
        else:
            yield " ".join(here), command  # type: ignore[misc]  # a command, not a group


def commands_page() -> str:
    intro = [
        "`nightscreen COMMAND --help` shows the same in the terminal. With `--json` a command",
        "prints one JSON document on stdout and nothing else there, even if it fails; the log",
        "and progress go to stderr. A misspelt command, option or setting gets a suggestion.",
        "",
        "`nightscreen --install-completion` has your shell (bash, zsh, fish, PowerShell) complete",
        "commands and options; `--show-completion` prints the script instead.",
        "",
        "## Exit status",
        "",
        *table(("status", "meaning"), ((key, says) for key, says in _exits().items())),
    ]
    return page("Commands", intro, *(_section(words, command) for words, command in walk()))


def _exits() -> dict[str, str]:
    return meanings()["exit_status"]


def _section(words: str, command: TyperCommand) -> Iterator[str]:
    yield f"## {words}"
    yield ""
    yield " ".join((command.help or "").split())
    yield ""
    for example in examples(command):
        yield "```sh"
        yield example
        yield "```"
        yield ""
    yield from table(("argument or option", "meaning", "default"), _rows(command))


def examples(command: TyperCommand) -> list[str]:
    """Return the command lines of a command's epilog."""
    lines = (command.epilog or "").splitlines()
    return [line.removeprefix(EXAMPLE).strip() for line in lines if line.strip()]


def _rows(command: TyperCommand) -> Iterator[tuple[str, str, str]]:
    for each in command.params:
        if each.name == "help":
            continue
        names = ", ".join(code(name) for name in (*each.opts, *each.secondary_opts))
        if each.param_type_name == "argument":
            names = code(getattr(each, "metavar", None) or str(each.name).upper())
        default = "" if each.default in (None, "", False, ()) else code(each.default)
        if each.required:
            default = "needed"
        yield names, " ".join((getattr(each, "help", "") or "").split()), default
