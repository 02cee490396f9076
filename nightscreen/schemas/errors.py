"""All error classes.

An error stops a run; a problem with one row or call is a value, never an error. Each message is one
line that says what is wrong and what to do next, without personal data. Every class can be pickled,
because errors cross process borders.
"""

from __future__ import annotations


class NightscreenError(Exception):
    """Root of all errors of nightscreen; `exit_status` is the command line's."""

    exit_status = 1


class UnexpectedFault(NightscreenError):  # noqa: N818 - a fault of ours, not of the user's
    """An unexpected exception; its text names type and place, never a value."""


class UsageError(NightscreenError):
    """Bad usage, settings or input: nothing was spent."""

    exit_status = 2


class StoppedError(NightscreenError):
    """The service did not return what was requested; try again once that is fixed."""

    exit_status = 3


class SettingsError(UsageError):
    """A setting is missing or wrong."""


class InputError(UsageError):
    """The input file cannot be read as a batch of customers."""


class NotAllowedError(UsageError):
    """The user may not decide this; `needs` is the missing right, or a second person."""

    def __init__(self, sentence: str, *, needs: str = "") -> None:
        super().__init__(sentence)
        self.needs = needs


class OutputError(UsageError):
    """The output folder cannot be written."""


class PolicyError(UsageError):
    """A policy file has a mistake."""


class JournalError(NightscreenError):
    """The journal cannot be used as it is."""

    exit_status = 2


class JournalKeyError(JournalError):
    """The data key is missing or is not the one this journal was sealed with."""


class JournalDamagedError(JournalError):
    """The journal's file is damaged; it is left untouched."""


class JournalVersionError(JournalError):
    """Another version of nightscreen made the journal."""


class JournalBusyError(JournalError):
    """Another process kept the journal locked for too long."""


class JournalUnreachableError(JournalError):
    """The journal's database does not answer, or closed a connection."""


def foremost(group: BaseExceptionGroup[BaseException]) -> NightscreenError | None:
    """Return the first error of a group that says what to do; None if none does."""
    for member in group.exceptions:
        error = foremost(member) if isinstance(member, BaseExceptionGroup) else member
        if isinstance(error, NightscreenError) and not isinstance(error, UnexpectedFault):
            return error
    return None
