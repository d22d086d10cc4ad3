"""A whole drop-in as one change: which directives of ``[Service]`` it may set, and why it may no others.

What runs programs, changes the account, or decides what the service may reach is for a person. What is left
are limits, scheduling, memory and time: settings of the service that its launch line cannot hold.
"""

from __future__ import annotations

import re
from typing import Final

from tools.contract import ToolError
from tools.display import printable

SETTING: Final = "drop-in"
"""The name under which a whole drop-in is proposed; its value is ``Key=Value; Key=Value``."""

DIRECTIVES: Final = frozenset(
    {
        "AllowedCPUs",
        "AllowedMemoryNodes",
        "CPUAffinity",
        "CPUQuota",
        "CPUQuotaPeriodSec",
        "CPUWeight",
        "IOSchedulingClass",
        "IOSchedulingPriority",
        "IOWeight",
        "LimitAS",
        "LimitCORE",
        "LimitDATA",
        "LimitFSIZE",
        "LimitLOCKS",
        "LimitMEMLOCK",
        "LimitMSGQUEUE",
        "LimitNOFILE",
        "LimitNPROC",
        "LimitSIGPENDING",
        "LimitSTACK",
        "LogRateLimitBurst",
        "LogRateLimitIntervalSec",
        "MemoryHigh",
        "MemoryLow",
        "MemoryMax",
        "MemoryMin",
        "MemorySwapMax",
        "NUMAMask",
        "NUMAPolicy",
        "Nice",
        "OOMScoreAdjust",
        "RestartSec",
        "TasksMax",
        "TimeoutAbortSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
        "TimerSlackNSec",
    }
)
"""As deploy/leadline-svc has them too; a test holds both against each other."""

_REFUSED: Final = (
    (
        r"Exec\w+|Type|BusName|PIDFile",
        "decides which programs run; a flag of the launch line is named itself",
    ),
    (
        r"(Pass|Unset)?Environment(File)?",
        "sets variables; name the variable itself as the setting",
    ),
    (
        r"User|Group|DynamicUser|SupplementaryGroups|PAMName|UMask|SetLoginEnvironment",
        "changes the account that the service runs as",
    ),
    (
        r"(Private|Protect|Restrict|Capability|SystemCall|ReadWrite|ReadOnly|Inaccessible|Bind|Root|Device|"
        r"NoExec|Temporary|Mount|Extension|SELinux|AppArmor|Smack|IPAddress|Socket|Load|SetCredential|Network|"
        r"(Runtime|State|Cache|Logs|Configuration)Directory)\w*"
        r"|NoNewPrivileges|AmbientCapabilities|SecureBits|MemoryDenyWriteExecute|LockPersonality|KeyringMode"
        r"|Delegate\w*|RemoveIPC|WorkingDirectory",
        "decides what the service may reach",
    ),
    (r"Standard\w+|TTY\w*|Syslog\w+|Utmp\w+", "decides where the service reads or writes"),
    (r"Restart|Kill\w+|SendSIG\w+|Watchdog\w+|Slice", "decides how the service is started or ended"),
)
_LINE: Final = re.compile(r"([A-Za-z]{2,40})=([-A-Za-z0-9][-A-Za-z0-9 .,:~]{0,118}[A-Za-z0-9%]|[A-Za-z0-9])")
_MOST: Final = 20


def read(value: str) -> dict[str, str]:
    """Return the directives of a value; raise `ToolError` with the reason when it may not be set."""
    parts = value.split("; ")
    if len(parts) > _MOST:
        raise ToolError(f"the drop-in sets {len(parts)} directives; at most {_MOST} can be looked over")
    found: dict[str, str] = {}
    for part in parts:
        key, _, _ = part.partition("=")
        if key not in DIRECTIVES:
            raise ToolError(f"{printable(key)[:60]}= {_why(key)}; a person has to change it")
        if _LINE.fullmatch(part) is None:
            raise ToolError(
                f"{printable(part)[:120]!r} is not one plain KEY=VALUE; write Nice=-5; LimitNOFILE=1048576, "
                "parted by a semicolon and a blank, without quotes, specifiers and resets"
            )
        if key in found:
            raise ToolError(f"{key}= stands twice in the drop-in")
        found[key] = part.partition("=")[2]
    return found


def _why(key: str) -> str:
    for pattern, why in _REFUSED:
        if re.fullmatch(pattern, key):
            return why
    return "is not among the directives that a drop-in may set (docs/changes.md)"


def text_of(value: str) -> str:
    """Return the text of the drop-in."""
    return "".join(["[Service]\n", *(f"{key}={what}\n" for key, what in read(value).items())])
