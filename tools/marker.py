"""Start commands so that every process they leave can be found again, and kill those by that mark."""

from __future__ import annotations

import math
from collections.abc import Sequence

VARIABLE = "LEADLINE_RUN"
"""Environment variable that every process of a command inherits."""

_BACKSTOP_S = 5
_START = 'n=$1; shift; if timeout -k 5 1 true 2>/dev/null; then exec timeout -k 5 "$n" "$@"; fi; exec "$@"'

# The pattern is put together on the host: were it whole in our own command line, a ForceCommand's
# SSH_ORIGINAL_COMMAND would put it in the killer's environment, and the killer would find itself.
_KILL = """
mark=$1=$2
if ! [ -r /proc/self/environ ]; then echo unknown; exit 0; fi
round=0
while :; do
  pids=
  for file in $(grep -lsF -- "$mark" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}; pids="$pids ${pid%/environ}"
  done
  if [ -z "$pids" ]; then echo gone; exit 0; fi
  if [ $round -ge 40 ]; then echo left $pids; exit 1; fi
  if [ $round -ge 20 ]; then kill -s KILL $pids 2>/dev/null
  elif [ $round -eq 0 ]; then kill -s TERM $pids 2>/dev/null; fi
  round=$((round + 1))
  sleep 0.1 2>/dev/null || sleep 1
done
"""


def started_with(run_id: str, argv: Sequence[str], timeout_s: float) -> list[str]:
    """Return the argv that runs ``argv`` marked, and under the host's own ``timeout`` where it has one.

    The host's limit lies a little past ours: it ends the command when we cannot, and an exit code of 124
    stays the command's own.
    """
    backstop = str(math.ceil(timeout_s) + _BACKSTOP_S)
    return ["env", f"{VARIABLE}={run_id}", "sh", "-c", _START, "sh", backstop, *argv]


def kill_argv(run_id: str) -> list[str]:
    """Return the argv that ends every process of a run: TERM, two seconds, KILL.

    It prints ``gone``, ``left PID...``, or ``unknown`` on a host without ``/proc``.
    """
    return ["sh", "-c", _KILL, "sh", VARIABLE, run_id]
