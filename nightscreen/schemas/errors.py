"""The whole error tree, on one screen.

An error stops a run; the trouble of one row or one call is a value, never an error. Each message is
one line that says what is wrong and what to do next, and holds no personal data. Every class can
be pickled, since errors cross process borders.
"""

from __future__ import annotations


class NightscreenError(Exception):
    """Root of all errors of nightscreen; `exit_status` is what the command line ends with."""

    exit_status = 1


class UnexpectedFault(NightscreenError):  # noqa: N818 - a fault of ours, not of the user's
    """Something broke that should not; its text names kind and place, never a value."""


class UsageError(NightscreenError):
    """Bad usage, settings or input: nothing was spent."""

    exit_status = 2


class StoppedError(NightscreenError):
    """The service did not return what was asked for; try again once that is fixed."""

    exit_status = 3


class SettingsError(UsageError):
    """A setting is missing or wrong."""


class InputError(UsageError):
    """The input file cannot be read as a batch of customers."""


class NotAllowedError(UsageError):
    """Somebody may not decide this; `needs` is the right that is missing, or a second person."""

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
    """The journal's database does not answer, or broke a connection off."""


def foremost(several: BaseExceptionGroup[BaseException]) -> NightscreenError | None:
    """Return the first of several errors at once that says what to do; None where none does."""
    for error in several.exceptions:
        found = foremost(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, NightscreenError) and not isinstance(found, UnexpectedFault):
            return found
    return None
