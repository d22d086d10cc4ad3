"""Answer `systemd-analyze verify` for the part of the unit format that services use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from evals.lab.inside import unitfile
from evals.lab.inside.control import Output

_KNOWN = {
    "Unit": (
        "Description Documentation After Before Wants Requires PartOf BindsTo Conflicts "
        "StartLimitIntervalSec StartLimitBurst ConditionPathExists"
    ),
    "Service": (
        "Type User Group WorkingDirectory Environment EnvironmentFile UnsetEnvironment "
        "PassEnvironment ExecStartPre ExecStart ExecStartPost ExecStop ExecReload Restart "
        "RestartSec TimeoutStartSec TimeoutStopSec TimeoutSec RemainAfterExit KillMode KillSignal "
        "LimitNOFILE LimitMEMLOCK LimitCORE LimitNPROC AllowedCPUs CPUQuota CPUAffinity CPUWeight "
        "MemoryMax MemoryHigh TasksMax Nice OOMScoreAdjust StandardOutput StandardError "
        "SyslogIdentifier Slice Delegate PrivateTmp NoNewPrivileges SuccessExitStatus NUMAPolicy "
        "NUMAMask IOWeight UMask RuntimeDirectory"
    ),
    "Install": ("WantedBy RequiredBy Alias Also"),
}


async def run(argv: list[str], output: Output) -> int:
    """Run one command line and return its exit code."""
    words = [word for word in argv if not word.startswith("-")]
    if words[:1] != ["verify"]:
        output.err(f"Unknown command verb {words[0]}." if words else "Command line to execute required.")
        return 1
    code = 0
    for word in words[1:]:
        path = Path(word)
        if not path.is_file():
            output.err(f"Failed to prepare filename {word}: No such file or directory")
            code = 1
            continue
        starts: list[str] = []
        for file in (path, *_dropins(path)):
            for problem in _problems(file, starts):
                output.err(problem)
        program = unitfile.words(starts[-1].lstrip("-@:+!"))[0] if starts else ""
        if program and not os.access(program, os.X_OK):
            output.err(f"{path.name}: Command {program} is not executable: No such file or directory")
            code = 1
    return code


def _dropins(path: Path) -> list[Path]:
    _, installed = unitfile.find(path.name)
    found = {file.name: file for file in (*installed, *(path.parent / f"{path.name}.d").glob("*.conf"))}
    return [found[name] for name in sorted(found)]


def _problems(file: Path, starts: list[str]) -> Iterator[str]:
    """Yield what systemd would warn of; collect the launch lines."""
    text = file.read_text(errors="replace")
    numbers = {line.strip(): number for number, line in enumerate(text.splitlines(), 1)}
    for key, value in unitfile.assignments(text):
        section, _, name = key.partition(".")
        if section in _KNOWN and name not in _KNOWN[section].split():
            number = next((n for line, n in numbers.items() if line.startswith(name)), 1)
            yield f"{file}:{number}: Unknown key name '{name}' in section '{section}', ignoring."
        elif key == "Service.ExecStart":
            starts[:] = [*starts, value] if value else []
