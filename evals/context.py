"""What every job of a run works with, in whichever process it is done."""

from __future__ import annotations

from pathlib import Path

from agent.config import Settings, load_settings
from agent.state import Record
from evals.jobs import Asked


class RunContext(Record):
    """Name the run's folder and what was asked; a worker process is given this and nothing else."""

    folder: Path
    asked: Asked

    def settings(self) -> Settings:
        """Return the settings of the jobs: threads and labs lie in the run's folder, and load is allowed."""
        settings = settings_of(self.asked)
        tools = settings.tools.model_copy(update={"allow_load": True})
        return settings.model_copy(update={"state_dir": self.folder, "tools": tools})


def settings_of(asked: Asked) -> Settings:
    """Return the settings in force under the flags of a run."""
    flags = {
        "model": asked.model,
        "base_url": asked.base_url,
        "judge_model": asked.judge_model,
        "judge_base_url": asked.judge_base_url,
    }
    return load_settings(**{name: value for name, value in flags.items() if value is not None})
