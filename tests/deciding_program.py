"""Ask at the terminal about the plan of a scripted investigation: ``python deciding_program.py FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent.surfaces.approving import decide
from tests.file_host import FakeService, FileHost
from tests.trial_parts import moves, open_session, propose


async def main(root: Path) -> None:
    """Work to the end, with the decisions of whoever sits there."""
    script = moves(propose(setting="--pp-async-batch-depth", from_value=None, to_value="1"), changes=())
    session = open_session(root, FakeService(FileHost(root / "host.json")), script)
    async for _ in session.ask():
        pass
    while (events := await decide(session, unattended=False)) is not None:
        async for _ in events:
            pass
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
