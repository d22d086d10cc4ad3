"""Print the commands that make an unprivileged account with the root-owned helper on a host."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.contract import ToolError
from tools.display import printable
from tools.dropin_edit import DIRECTIVES
from tools.service_request import FLAGS_OF_PEOPLE
from tools.transaction import HELPER, helper_version

LIBRARY = "/usr/local/lib/leadline"
ALLOW = "/etc/leadline/allow.json"
_END = "LEADLINE_END_OF_FILE"
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@-]{0,199}\.service")
_FLAG = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_NAMES_OF_PEOPLE = re.compile(r"LD_[A-Z_]+|(BASH_)?ENV|HOME|PATH|PYTHON[A-Z0-9_]*")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_KEY = re.compile(r"(ssh|ecdsa|sk-)[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?")


@dataclass(frozen=True, slots=True)
class Account:
    """Say what account to make; what may be changed is nothing until it is named."""

    host: str
    user: str = "leadline"
    units: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    """Flags (--x) and NAMES of variables that may change in each of the units."""
    key: str = ""
    """The public key that may log in."""
    ports: tuple[int, ...] = ()
    """Ports that the units serve on: changes are verified there, and the connection may reach them."""


def check(account: Account) -> None:
    """Raise `ToolError` for what could not be written into the files as it is."""
    if "\n" in account.host or printable(account.host) != account.host:
        raise ToolError(f"{printable(account.host)!r} is not the name of a host")
    if not _USER.fullmatch(account.user) or account.user == "root":
        raise ToolError(f"{account.user!r} is not a name for an unprivileged account")
    for unit in account.units:
        if not _UNIT.fullmatch(unit):
            raise ToolError(
                f"{unit!r} is not the full name of a service, such as sglang.service; no patterns"
            )
    for setting in account.settings:
        _check_setting(setting)
    if account.settings and not account.units:
        raise ToolError("settings are allowed unit by unit; name the units as well")
    if account.settings and not account.ports:
        raise ToolError("name the ports that the units serve on (--ports 30000): a change is verified there")
    if account.key and not _KEY.fullmatch(account.key):
        raise ToolError("the key is not the one line of a public key file, such as id_ed25519.pub")


def _check_setting(setting: str) -> None:
    if not (_FLAG.fullmatch(setting) or _NAME.fullmatch(setting) or setting in DIRECTIVES):
        raise ToolError(
            f"{setting!r} is neither a flag (--x) nor the NAME of an environment variable, nor "
            "a directive that a drop-in may set"
        )
    if _is_of_people(setting):
        raise ToolError(
            f"{setting} decides who reaches the server or which code runs: it cannot be listed, "
            "a person has to change it"
        )


def _is_of_people(setting: str) -> bool:
    """Tell what the helper refuses in an allow file, and the whole file with it."""
    flag = setting.replace("_", "-")
    return any(known.startswith(flag) for known in FLAGS_OF_PEOPLE) or bool(
        _NAMES_OF_PEOPLE.fullmatch(setting)
    )


_VALUE = "[A-Za-z0-9_.,:-]+"
"""Values until the site says more: one word, no path, so that a flag cannot take what stands behind it."""
_PLAIN_VALUE = "[-A-Za-z0-9:,.%]+"


def allow_file(account: Account) -> str:
    """Return the allow file: per unit the flags and variables that may change, and patterns of values."""
    flags = {name: _VALUE for name in account.settings if name.startswith("--")}
    directives = {name: _PLAIN_VALUE for name in account.settings if name in DIRECTIVES}
    names = {name: ".*" for name in account.settings if _NAME.fullmatch(name)}
    one = {"flags": flags, "environment": names, "service": directives, "ports": list(account.ports)}
    units = dict.fromkeys(account.units, one)
    return json.dumps({"units": units}, indent=2, sort_keys=True) + "\n"


def sudoers(account: Account, *, patterns: bool) -> str:
    """Return the sudoers file; without ``patterns`` the one for a sudo that cannot check arguments."""
    head = "# Leadline: one root-owned program. It checks its arguments again by itself.\n"
    if not patterns:
        return f'{head}{account.user} ALL=(root) NOPASSWD: {HELPER} ""\n'
    allowed = [
        "^(version|allowed|left)$",
        "^(exe|cwd|stdout|mnt-ns|cmdline|environ) [0-9]+$",
        "^(begin|recover) [a-z0-9-]+ [0-9a-f]+$",
        "^(order|confirm|status|withdraw|forget|release) [a-z0-9-]+$",
        "^(extend|lease) [a-z0-9-]+ [0-9.]+$",
    ]
    if account.units:
        # A point, and a colon, mean something else in a pattern and in this file.
        names = "|".join(unit.replace(".", "[.]").replace(":", "\\:") for unit in account.units)
        allowed += [f"^cat-unit ({names})$", f"^journal ({names}) [ -~]*$"]
    lines = ", \\\n    ".join(f"{HELPER} {pattern}" for pattern in allowed)
    return f"{head}Cmnd_Alias LEADLINE = \\\n    {lines}\n{account.user} ALL=(root) NOPASSWD: LEADLINE\n"


def authorized_key(account: Account) -> str:
    """Return the line of ``authorized_keys``: no terminal, no agent, no forwarding but to the named ports."""
    ways = ["restrict"]
    if account.ports:
        ways += ["port-forwarding", *(f'permitopen="127.0.0.1:{port}"' for port in account.ports)]
    return f"{','.join(ways)} {account.key}"


def script(account: Account) -> str:
    """Return the commands in order, with comments, for a root shell on the host."""
    check(account)
    here = Path(__file__).parent
    files = [
        (HELPER, "0755", here / "leadline-svc"),
        (f"{LIBRARY}/transaction.sh", "0644", here / "transaction.sh"),
        (f"{LIBRARY}/transaction_enter.sh", "0644", here / "transaction_enter.sh"),
    ]
    parts = [_HEAD.format(host=account.host, user=account.user), *(_installed(*file) for file in files)]
    parts.append(_allowing(account))
    parts.append(_sudo(account))
    parts.append(_login(account))
    parts.append(_LAST.format(user=account.user, helper=HELPER, version=shlex.quote(helper_version())))
    return "\n".join(parts)


def _here(text: str) -> str:
    return f"<<'{_END}'\n{text}{_END}\n"


def _installed(path: str, mode: str, source: Path) -> str:
    raw = source.read_bytes()
    return f"put {path} {mode} {hashlib.sha256(raw).hexdigest()} {_here(raw.decode())}"


def _allowing(account: Account) -> str:
    text = allow_file(account)
    return f"""# 4. What may be changed: per unit the ports it serves on, where a change is verified, and the
#    flags and variables, each with a pattern that the whole value must match. Narrow the patterns,
#    such as "[0-9]+"; what it names may restart the service.
mkdir -p -m 0755 /etc/leadline
if [ -e {ALLOW} ]; then
    echo "{ALLOW} stands already and is kept as it is"
else
    put {ALLOW} 0644 {hashlib.sha256(text.encode()).hexdigest()} {_here(text)}fi
"""


def _sudo(account: Account) -> str:
    return f"""# 5. The one thing that sudo allows. From 1.9.10 on it checks the arguments by patterns; a
#    wildcard would let more through than it seems to. An older sudo allows the program without any
#    argument; it reads verb and arguments from standard input then, and all checks are its own.
version=$(sudo -V | sed -n '1s/^Sudo version \\([0-9.]*\\).*/\\1/p')
new=$(mktemp /etc/sudoers.d/leadline.XXXXXX) # sudo reads no file with a point in its name
if [ "$(printf '%s\\n' 1.9.10 "$version" | sort -V | head -n 1)" = 1.9.10 ]; then
    cat >"$new" {_here(sudoers(account, patterns=True))}else
    cat >"$new" {_here(sudoers(account, patterns=False))}fi
chmod 0440 "$new"
visudo -cqf "$new" || {{
    rm -f "$new"
    echo "sudo does not take these lines; nothing was allowed" >&2
    exit 1
}}
mv -f "$new" /etc/sudoers.d/leadline
"""


def _login(account: Account) -> str:
    head = "# 6. Who may log in: this key, without a terminal, an agent or forwarding.\n"
    if not account.key:
        place = f"~{account.user}/.ssh/authorized_keys"
        return f"{head}#    No key was given (--key FILE.pub): put it after `restrict ` into {place}\n"
    # The account owns that folder and may put links there: it writes itself, no link is followed as root, and
    # it does so in a session of its own, so that nothing of it can type into root's terminal.
    return f"""{head}line={shlex.quote(authorized_key(account))}
setsid -w su -s /bin/sh {account.user} -c 'umask 077; cd && mkdir -p .ssh && {{
    grep -qxF -- "$1" .ssh/authorized_keys 2>/dev/null || printf "%s\\n" "$1" >>.ssh/authorized_keys; }}' \\
    sh "$line" </dev/null
"""


_HEAD = """# An unprivileged account for Leadline on {host}, whose only privilege is one program of root.
# Nothing of this was run. Read it, then run it on the host as root:  sh setup.sh
# It may be run again: it writes its files anew, and keeps the allow file.
set -eu
umask 022
[ "$(id -u)" = 0 ] || {{ echo "run this as root" >&2; exit 1; }}

# 1. What the program needs: systemd, sudo, and Python 3.6 or later at /usr/bin/python3.
for program in sudo visudo systemctl systemd-run busctl journalctl flock sha256sum setsid useradd; do
    command -v "$program" >/dev/null || {{ echo "$program is missing on this host" >&2; exit 1; }}
done
/usr/bin/python3 -IS -c 'import json, subprocess, sys; sys.exit(sys.version_info < (3, 6))' || {{
    echo "Python 3.6 or later with its standard library is missing at /usr/bin/python3" >&2
    exit 1
}}
open=$(find / /usr /usr/local /usr/local/sbin /usr/local/lib -maxdepth 0 \\( -perm /022 -o ! -user root \\))
[ -z "$open" ] || {{ echo "others than root may write to: $open; take that right away first" >&2; exit 1; }}

# 2. The account: no password, no group but its own. It needs none of adm, systemd-journal, docker, sudo.
id {user} >/dev/null 2>&1 || useradd --create-home --user-group --shell /bin/sh --password '*' {user}

# 3. The program, and the two files that it runs for a change: each compared with its sha256 before it counts.
put() {{ # PATH MODE SHA256: write standard input there
    cat >"$1.new"
    echo "$3  $1.new" | sha256sum -c --quiet - || {{ rm -f "$1.new"; exit 1; }}
    chown root:root "$1.new"
    chmod "$2" "$1.new"
    mv -f "$1.new" "$1"
}}
mkdir -p -m 0755 /usr/local/lib/leadline
"""
_LAST = """# 7. Whether it works, as that account.
said=$(setsid -w su -s /bin/sh {user} -c \
    'sudo -n {helper} version || echo version | sudo -n {helper}' </dev/null)
[ "$said" = {version} ] || {{ echo "the program does not answer as it should: $said" >&2; exit 1; }}
echo "done: {user} may call {helper} and nothing else"
"""


def words(text: str) -> Sequence[str]:
    """Return the items of a list with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
