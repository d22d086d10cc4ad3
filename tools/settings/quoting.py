"""Give the words of the installed source that a citation points at, as they can be quoted."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.settings.types import Cite, SourceTree

_LONGEST = 240
"""Characters; of what is longer the first line is quoted."""


@dataclass(slots=True)
class Quoting:
    """Read lines of a package's files, each file once."""

    tree: SourceTree
    _lines: dict[str, list[str]] = field(default_factory=dict)

    def statement(self, cite: Cite) -> tuple[str, str]:
        """Return place (``PATH:LINE`` or ``PATH:FIRST-LAST``) and text of what a citation covers."""
        return self._joined(cite.path, cite.line, cite.last_line)

    def header(self, cite: Cite) -> tuple[str, str]:
        """Return place and text of the test that a citation begins with, without the block below it."""
        lines = self._of(cite.path)
        last = cite.line
        while last < cite.last_line and not lines[last - 1].split("  #")[0].rstrip().endswith(":"):
            last += 1
        return self._joined(cite.path, cite.line, last)

    def line(self, cite: Cite) -> tuple[str, str]:
        """Return place and text of the first line of a citation."""
        return self._joined(cite.path, cite.line, cite.line)

    def _joined(self, path: str, first: int, last: int) -> tuple[str, str]:
        lines = self._of(path)
        if not 0 < first <= last <= len(lines):
            return f"{path}:{first}", ""
        text = " ".join(" ".join(lines[first - 1 : last]).split())
        if first == last or len(text) > _LONGEST:
            return f"{path}:{first}", " ".join(lines[first - 1].split())[:_LONGEST]
        return f"{path}:{first}-{last}", text

    def _of(self, path: str) -> list[str]:
        if path not in self._lines:
            data = self.tree.read(path)
            self._lines[path] = (data or b"").decode("utf-8", "replace").split("\n")
        return self._lines[path]
