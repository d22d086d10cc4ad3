"""Errors that end a command, each with the line a person reads and the exit code a script reads."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command, as listed in ``docs/cli.md``."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    PROBLEM_FOUND = 3
    APPROVAL_NEEDED = 4
    BUDGET = 5
    HOST_UNREACHABLE = 6
    MODEL_ENDPOINT = 7
    NOTHING_COUNTED = 8
    WORSE = 9
    TIMEOUT = 124
    INTERRUPTED = 130
    TERMINATED = 143


class LeadlineError(Exception):
    """End a command with one clear line: what failed, where, and what to do next."""

    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, what: str, *, do: str = "") -> None:
        super().__init__(f"{what}{'; ' + do if do else ''}")
        self.what = what
        self.do = do


class UsageError(LeadlineError):
    """Report arguments or settings that cannot be used."""

    exit_code = ExitCode.USAGE


class HostUnreachable(LeadlineError):
    """Report a host that could not be reached or whose key is not the known one."""

    exit_code = ExitCode.HOST_UNREACHABLE


class ModelEndpointError(LeadlineError):
    """Report a model endpoint that is down, refuses, or answers nonsense."""

    exit_code = ExitCode.MODEL_ENDPOINT


class TranscriptError(LeadlineError):
    """Report a transcript that cannot be read: file, line and field."""


class ThreadGone(TranscriptError):
    """Report that the files of a thread were removed while it was at work: it cannot be gone on with."""
