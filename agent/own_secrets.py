"""Give redaction what only the settings know: the secrets of our own, and the key of this installation."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, SecretBytes, SecretStr

from agent.config import Settings, given_secrets
from agent.errors import LeadlineError
from agent.whole_file import private_folder
from tools import redact_own
from tools.contract import Redactor

_KEY_BYTES = 32
_KEY_FILE = "redaction.key"


def redactor(settings: Settings) -> Redactor:
    """Return what masks secrets, our own among them; placeholders are the same in all threads kept here."""
    from tools.redact import redact

    for value in secrets_of(settings):
        redact_own.know(value)
    redact_own.use_key(_key(settings.state_dir))
    return redact


def masking(settings: Settings) -> Redactor:
    """Return what masks secrets as `redactor` does; where no key can be kept, placeholders differ each time.

    For what must go on with a state folder that cannot be written.
    """
    try:
        return redactor(settings)
    except LeadlineError:
        from tools.redact import redact

        return redact


def masked_as_given(text: str) -> str:
    """Return a text without secrets, our own as they were given among them: for an error before all else."""
    from tools.redact import redact

    with contextlib.suppress(OSError):  # a file of systemd's that may not be read is no reason to say nothing
        for value in given_secrets():
            redact_own.know(value)
    return redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def secrets_of(settings: BaseModel) -> Iterator[str]:
    """Yield every secret that settings hold, at any depth: each field typed as one."""
    for name in type(settings).model_fields:
        yield from _secrets(getattr(settings, name))


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, SecretBytes):
        yield value.get_secret_value().decode("utf-8", "surrogateescape")
    elif isinstance(value, BaseModel):
        yield from secrets_of(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _secrets(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secrets(item)


def _key(folder: Path) -> bytes:
    """Return the key kept in the state folder, made at random the first time."""
    path = folder / _KEY_FILE
    try:
        private_folder(folder)
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise LeadlineError(
            f"cannot keep the key of redaction at {path}: {error.strerror}",
            do="make the folder writable, or set LEADLINE_STATE_DIR",
        ) from error
    if len(key) != _KEY_BYTES:
        raise LeadlineError(
            f"{path} holds {len(key)} bytes instead of {_KEY_BYTES}",
            do="remove it: placeholders in later threads will differ from those in earlier ones",
        )
    return key


def _make(path: Path) -> None:
    """Write a new key beside its place and link it there, so that no other process sees half of one."""
    new = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
