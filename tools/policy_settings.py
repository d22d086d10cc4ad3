"""What a site may say about commands: its own rules, and whether free-form commands run at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

SWITCHED_OFF: Final = (
    "refused: this site has switched free-form commands off ([policy] free_form); use facts, grep, "
    "read_file, settings and journal"
)


class PolicySettings(BaseModel):
    """Settings of the command policy; a file of rules that cannot be used is an error at start."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    free_form: bool = Field(
        default=True, description="May `run` run commands that only read? Off: the tool is not offered."
    )
    rules: Path | None = Field(default=None, description="The site's own rules: docs/policy.md.")

    @field_validator("rules")
    @classmethod
    def _usable(cls, path: Path | None) -> Path | None:
        """Read the file now: with rules that cannot be used nothing may start."""
        if path is None:
            return None
        from tools.policy import policy_in_force
        from tools.policy_load import PolicyError

        if not path.is_absolute():
            raise ValueError(f"{path} is not a full path")
        try:
            policy_in_force(cls.model_construct(rules=path))
        except PolicyError as error:
            raise ValueError(str(error)) from error
        return path
