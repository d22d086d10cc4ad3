"""A host whose every command is recorded: the intent before it runs, the outcome after."""

from __future__ import annotations

from collections.abc import Sequence

from agent.audit import Audit
from agent.audit_scope import scope
from tools import declared
from tools.contract import Host, Result
from tools.declared import Effect


class AuditedHost:
    """Stand before a host and keep account of what runs there."""

    def __init__(self, host: Host, audit: Audit) -> None:
        self.name = host.name
        self.key_fingerprint = host.key_fingerprint
        self._host = host
        self._audit = audit

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Run a command as the host does; raise `AuditDown` when it may write and cannot be recorded."""
        effect = _effect(stdin, retry=retry)
        intent = self._audit.command(self, argv, effect, stdin)
        try:
            result = await self._host.exec(
                argv, timeout_s=timeout_s, max_bytes=max_bytes, stdin=stdin, retry=retry
            )
        except BaseException as error:
            self._audit.ended(intent, self, effect, type(error).__name__)
            raise
        self._audit.ended(intent, self, effect, result)
        return result

    async def forward(self, port: int) -> int:
        """Open a way to a port of the host, which is recorded too."""
        self._audit.record(
            "port_opened", host=self.name, effect="read", what=scope().what, detail=f"port {port}"
        )
        return await self._host.forward(port)

    async def close(self) -> None:
        """Close the host."""
        await self._host.close()


def _effect(stdin: bytes | None, *, retry: bool) -> Effect:
    """Return what a command does: a write, unless it is known to be less.

    What may be done twice is a read, and so is what a tool that only reads runs without sending anything.
    """
    said = declared.effect()
    if said is not None:
        return said
    return "read" if retry or (scope().reads and stdin is None) else "write"
