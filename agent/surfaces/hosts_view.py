"""Print the inventory: what ``leadline hosts list`` and ``show`` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from agent.config import files_with, load_settings
from agent.errors import UsageError
from agent.inventory import ALL, Inventory
from agent.inventory_settings import HostEntry
from agent.ssh_aliases import ssh_aliases
from agent.surfaces.console import screen_width, write_fitted
from tools.display import printable

_HEAD = ("NAME", "ADDRESS", "ROLE", "GROUPS", "UNIT", "KEY", "")


def list_hosts(words: Sequence[str], *, as_json: bool) -> None:
    """Print a line for every host, or for those that the words name."""
    inventory = Inventory.of(load_settings())
    names = inventory.select_known(words or [ALL]) if inventory.entries or words else []
    if as_json:
        for name in names:
            sys.stdout.write(json.dumps(_row(name, inventory.entries[name])) + "\n")
        return
    width = screen_width()
    if not names:
        write_fitted(_none(ssh_aliases(inventory.ssh_config)))
        return
    from tools.text_table import table

    sys.stdout.write(
        table(_HEAD, [_cells(name, inventory.entries[name]) for name in names], width, widest=1_000)
    )


def show_host(name: str, *, as_json: bool) -> None:
    """Print what the settings say of one host, field by field."""
    inventory = Inventory.of(load_settings())
    found = inventory.select_known(name)
    if len(found) != 1:
        raise UsageError(f"{name} are {len(found)} hosts", do=f"name one: {', '.join(found)}")
    entry = inventory.entries[found[0]]
    if as_json:
        sys.stdout.write(json.dumps(_row(found[0], entry)) + "\n")
        return
    files = ", ".join(str(path) for path in files_with("hosts")) or "the environment"
    lines = [f"{found[0]} ({files})"]
    for field, value in entry.model_dump(mode="json").items():
        if value not in (None, [], ""):
            shown = ", ".join(value) if isinstance(value, list) else value
            if isinstance(value, bool):
                shown = "yes" if value else "no"
            lines.append(f"  {field}: {printable(str(shown))}")
    write_fitted("".join(f"{line}\n" for line in lines))


def _row(name: str, entry: HostEntry) -> dict[str, object]:
    return {"name": name, **entry.model_dump(mode="json")}


def _cells(name: str, entry: HostEntry) -> list[str]:
    groups = ", ".join(entry.groups)
    key = "pinned" if entry.host_key else "known_hosts"
    production = "production" if entry.production else ""
    return [name, entry.ssh or name, entry.role or "", groups, entry.unit or "", key, production]


def _none(aliases: Sequence[str]) -> str:
    said = (
        'No hosts in the settings yet; write [hosts.NAME] with ssh = "user@address", or run leadline init.\n'
    )
    if aliases:
        more = f" and {len(aliases) - 10} more" if len(aliases) > 10 else ""
        said += f"Aliases of ~/.ssh/config work as they are: {', '.join(aliases[:10])}{more}\n"
    return said
