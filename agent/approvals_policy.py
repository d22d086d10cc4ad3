"""Say which command policy is in force, as a digest: an approval given under another one is void."""

from __future__ import annotations

import hashlib
from pathlib import Path

import tools
from agent.config import Settings


def policy_digest(settings: Settings) -> str:
    """Return the sha256 of the rules that judge commands now."""
    return hashlib.sha256(Path(tools.__file__).with_name("policy.yaml").read_bytes()).hexdigest()
