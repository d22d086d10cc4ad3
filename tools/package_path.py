"""From what a call names (a PID, a path, or nothing) to the engine process and the absolute path meant."""

from __future__ import annotations

import posixpath

from tools.contract import Host, ToolContext, ToolError
from tools.policy_paths import read_denied
from tools.process import ProcessFacts, load_process


async def engine_process(
    ctx: ToolContext, host: Host, pid: int | None, process_root: int | None, path: str | None
) -> tuple[ProcessFacts | None, list[str]]:
    """Return the engine process that a call is about; an absolute path can do without one."""
    try:
        process = await load_process(ctx, host, pid, process_root)
    except ToolError as error:
        if pid is not None or path is None or not path.startswith("/"):
            raise
        return None, [f"nothing is judged: {error}"]
    return process, list(process.notes)


def resolve_path(path: str | None, process: ProcessFacts | None) -> str:
    """Return the absolute path a call means; raise `ToolError` where it cannot be told or may not be read."""
    if path is not None and "\0" in path:
        raise ToolError("a path cannot hold a NUL byte")
    if path is not None and path.startswith("/"):
        target = posixpath.normpath(path)
    elif process is None or process.package_root is None:
        where = f"of process {process.pid} " if process else ""
        raise ToolError(f"the package {where}was not found on the host; give an absolute path")
    else:
        target = posixpath.normpath(posixpath.join(process.package_root, path or ""))
        if not below(target, process.package_root):
            raise ToolError(f"{path} leads out of the package; give an absolute path")
    if reason := read_denied(target):
        raise ToolError(f"{target} is not read: {reason}")
    return target


def below(path: str, folder: str | None) -> bool:
    """Tell whether a path is a folder or lies below it."""
    return folder is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


def package_of(process: ProcessFacts | None, path: str) -> tuple[str | None, str | None]:
    """Return package and version for a file of the engine's package, else nothing."""
    if process is None or not below(path, process.package_root):
        return None, None
    return process.package, process.version
