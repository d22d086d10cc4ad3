"""Say which command policy is in force, as a digest: an approval given under another one is void."""

from __future__ import annotations

from agent.config import Settings


def policy_digest(settings: Settings) -> str:
    """Return what names the rules that judge commands now, the site's own included."""
    from tools.policy import policy_digest as digest_of

    return digest_of(settings.policy)
