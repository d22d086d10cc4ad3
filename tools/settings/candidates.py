"""Find by text alone where a file may read or write settings, so that only these places are parsed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Set
from functools import lru_cache
from typing import Final

from tools.settings.blocks import Hit, outline
from tools.settings.reach import Profile

_NEXT = re.compile(rb"\s*\.\s*(\w+)(?:\s*\.\s*(\w+))?")
_CALLED = re.compile(rb"\s*\((?:[^()]|\([^()]*\)){0,200}\)")
_QUOTED_NEXT = re.compile(rb"\s*,\s*[\"'](\w+)[\"']")
_QUOTED = re.compile(rb"[\"'](\w+)[\"']")
_KEYWORD = re.compile(rb"(?<![\w.])(\w+)\s*=(?!=)")
_BOUND = re.compile(rb"[ \t]*(?:\w+\.)*(\w+)(?:[ \t]*:[^=\n]{0,60})?[ \t]*=(?!=)")
_ANNOTATED = re.compile(rb"(\w+)[ \t]*:[ \t]*[\"']?(?:\w+\.)*(?:Optional\[[\"']?)?$")
_WRITERS: Final = (
    b"declare_resolution",
    b".override",
    b"__dict__",
    b"vars(",
    b"setattr",
    b"_set_",
    b"replace(",
    b"evolve(",
    b"model_copy(",
)
"""What a function holds that writes settings other than by plain assignment."""
_REPLACES = re.compile(
    rb"replace\((?:self|\w*(?:args|config|cfg))\b|\b\w*(?:args|config|cfg)\.(?:_?replace|model_copy)\("
)
_PROVIDER = re.compile(rb"\n[ \t]*@[^\n]*(?:register|override|provider|post_process)")
_LETTER = re.compile(rb"\w")
_FEW: Final = 16
_FARTHEST: Final = 4000
"""Bytes between what an attribute is taken from and its name: the arguments of a call at most."""
_VIEWS: Final = (b"cfg", b"view")


def words_of(profile: Profile, names: list[str]) -> list[str]:
    """Return what the files to read must hold: the names, or where these are many, what reaches settings."""
    if len(names) <= _FEW:
        return names
    if profile.engine == "vllm":
        return ["_config", "engine_args", "VllmConfig"]
    return [*profile.names, *profile.classes, *(f"{getter}()" for getter in sorted(profile.getters))]


def reads_in(profile: Profile, data: bytes, words: Set[str]) -> Iterator[Hit]:
    """Yield the places where a file may take one of these attributes from an object with settings."""
    wanted = {word.encode() for word in words}
    spans = sorted(set(_attributes(profile, data, wanted)))
    if spans:
        yield from outline(data).hits_at(spans)


def writes_in(profile: Profile, path: str, data: bytes, words: Set[str]) -> Iterator[Hit]:
    """Yield the places where a file may assign one of these attributes, in any form."""
    wanted = {word.encode() for word in words}
    spans = set(_attributes(profile, data, wanted))
    for start, end in _written_otherwise(profile, path, data):
        for pattern in (_QUOTED, _KEYWORD):
            found = (m.span(1) for m in pattern.finditer(data, start, end) if m[1] in wanted)
            spans.update(found)
    if spans:
        yield from outline(data).hits_at(sorted(spans))


def _attributes(profile: Profile, data: bytes, wanted: Set[bytes]) -> Iterator[tuple[int, int]]:
    before = _before(data, wanted)
    for holder, is_call in holders_in(profile, data):
        for end in (end for first, last in before for end in _ends(data, holder, first, last)):
            if is_call:
                call = _CALLED.match(data, end)
                if call is None:
                    continue
                end = call.end()
            found = _NEXT.match(data, end) or _QUOTED_NEXT.match(data, end)
            if found is None:
                continue
            for group in range(1, (found.re.groups if profile.getters else 1) + 1):
                if found[group] in wanted:
                    yield found.span(group)


def _before(data: bytes, wanted: Set[bytes]) -> list[tuple[int, int]]:
    """Return the stretches of text in which what an attribute is taken from may stand."""
    if len(wanted) > _FEW:
        return [(0, len(data))]
    places = []
    for word in wanted:
        start = data.find(word)
        while start >= 0:
            places.append(start)
            start = data.find(word, start + 1)
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        first = max(0, place - _FARTHEST)
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], place
        else:
            found.append((first, place))
    return found


def _ends(data: bytes, word: bytes, first: int = 0, last: int | None = None) -> Iterator[int]:
    """Yield where an identifier ends that is a word, or ends with ``_`` and the word."""
    start = data.find(word, first, last)
    while start >= 0:
        end = start + len(word)
        before = data[start - 1 : start]
        if not _LETTER.match(data, end) and (before == b"_" or not _LETTER.match(before)):
            yield end
        start = data.find(word, end, last)


def holders_in(profile: Profile, data: bytes) -> tuple[tuple[bytes, bool], ...]:
    """Return the names by which a file may reach settings, each with whether it is called."""
    words = (tuple(profile.names), (*profile.calls, *profile.getters), tuple(profile.classes))
    return _holders(*words, bool(profile.getters), data)


@lru_cache(maxsize=1024)
def _holders(
    names: tuple[str, ...], calls: tuple[str, ...], classes: tuple[str, ...], views: bool, data: bytes
) -> tuple[tuple[bytes, bool], ...]:
    plain, called = set[bytes](), set[bytes]()
    for words, kind in ((names, plain), (calls, called)):
        for word in map(str.encode, words):
            ends = list(_ends(data, word))
            if ends:
                kind.add(word)
                plain |= {name for end in ends if (name := _bound_before(data, end))}
    for cls in map(str.encode, classes):
        for end in _ends(data, cls):
            before = data[max(0, end - len(cls) - 80) : end - len(cls)]
            if before.endswith((b"class ", b"class\t")):
                plain |= {b"self", b"cls"}
            elif found := _ANNOTATED.search(before):
                plain.add(found[1])
    if views:
        plain |= set(_VIEWS)
        called |= {b"resolving_view", b"resolved_view"}
    return tuple([*((name, False) for name in sorted(plain)), *((name, True) for name in sorted(called))])


def _bound_before(data: bytes, end: int) -> bytes | None:
    """Return the variable that the line up to an offset assigns to."""
    found = _BOUND.match(data, data.rfind(b"\n", 0, end) + 1, end)
    return found[1] if found is not None else None


def _written_otherwise(profile: Profile, path: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a file that write settings by other means than plain assignment."""
    if path.startswith("srt/arg_groups/"):
        yield 0, len(data)
        return
    tables = profile.engine == "vllm" and path.startswith("config")
    if not tables and not holders_in(profile, data):
        return
    places = sorted({*_writers(data), *(m.end() for m in _PROVIDER.finditer(data))})
    if not places and not tables:
        return
    pieces = outline(data)
    for start, end in pieces.spans():
        held = bisect_left(places, start) < bisect_left(places, end)
        if held or (tables and not pieces.in_function(start)):
            yield start, end


def _writers(data: bytes) -> Iterator[int]:
    for word in _WRITERS:
        start = data.find(word)
        while start >= 0:
            if word != b"replace(" or _REPLACES.search(data, max(0, start - 60), start + 60):
                yield start
            start = data.find(word, start + 1)
