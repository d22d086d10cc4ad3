"""Small trees whose overwrites are looked at, and a method with one of each guard."""

from __future__ import annotations

from tests.settings_small import SmallTree
from tools.settings.overwrites import Overwrite, overwrites


def tree_of(arguments: str = "", **others: str) -> SmallTree:
    files = {path.replace("__", "/") + ".py": text for path, text in others.items()}
    return SmallTree({"srt/server_args.py": arguments, **files})


def only(tree: SmallTree, name: str = "x") -> Overwrite:
    found = overwrites(tree, name)
    assert len(found) == 1, found
    return found[0]


METHOD = """
class ServerArgs:
    x: bool = False
    def __post_init__(self):
        if self.dummy:
            return
        self._handle()
    def _handle(self):
        if not self.mode:
            return
        for part in self.parts:
            if part == 1:
                log()
            elif self.y > 1:
                self.x = True
"""
