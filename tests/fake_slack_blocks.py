"""Block Kit as far as Slack refuses what is not of its shape, by the limits that it documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.fake_slack_world import Json

MESSAGE_BLOCKS: Final = 50
VIEW_BLOCKS: Final = 100
MARKDOWN: Final = 12_000


def problems(blocks: Any, most: int = MESSAGE_BLOCKS) -> list[str]:
    """Return what Slack would say is wrong with blocks, with the path of each."""
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    found = [f"no more than {most} items allowed [json-pointer:/blocks]"] if len(blocks) > most else []
    ids = Counter(block.get("block_id") for block in blocks if isinstance(block, dict))
    found += [f"block_id already exists: {id}" for id, times in ids.items() if id is not None and times > 1]
    markdown = sum(
        len(str(b.get("text", ""))) for b in blocks if isinstance(b, dict) and b.get("type") == "markdown"
    )
    if markdown > MARKDOWN:
        found.append(f"markdown blocks hold more than {MARKDOWN} characters together")
    for index, block in enumerate(blocks):
        found += [f"{what} [json-pointer:/blocks/{index}{where}]" for where, what in _block(block)]
    return found


Found = Iterator[tuple[str, str]]


def _block(block: Any) -> Found:
    if not isinstance(block, dict) or block.get("type") not in _KINDS:
        yield "/type", f"unsupported type: {block.get('type') if isinstance(block, dict) else block!r}"
        return
    yield from _length(block, "block_id", 255)
    yield from _KINDS[block["type"]](block)


def _section(block: Json) -> Found:
    if "text" not in block and "fields" not in block:
        yield "", "a section needs text or fields"
    if "text" in block:
        yield from _text(block["text"], "/text", 3000)
    fields = block.get("fields", [])
    if len(fields) > 10:
        yield "/fields", "no more than 10 items allowed"
    for index, one in enumerate(fields):
        yield from _text(one, f"/fields/{index}", 2000)
    if "accessory" in block:
        yield from _element(block["accessory"], "/accessory")


def _header(block: Json) -> Found:
    yield from _text(block.get("text"), "/text", 150, plain=True)


def _context(block: Json) -> Found:
    yield from _many(block.get("elements"), 10)
    for index, one in enumerate(block.get("elements") or []):
        if one.get("type") in ("mrkdwn", "plain_text"):
            yield from _text(one, f"/elements/{index}", 3000)
        elif one.get("type") != "image":
            yield f"/elements/{index}", f"unsupported type: {one.get('type')}"


def _actions(block: Json) -> Found:
    elements = block.get("elements")
    yield from _many(elements, 25)
    ids = Counter(one.get("action_id") for one in elements or [])
    yield from (("/elements", f"action_id already exists: {id}") for id, n in ids.items() if id and n > 1)
    for index, one in enumerate(elements or []):
        yield from _element(one, f"/elements/{index}")


def _input(block: Json) -> Found:
    yield from _text(block.get("label"), "/label", 2000, plain=True)
    yield from _element(block.get("element"), "/element")


def _image(block: Json) -> Found:
    if not block.get("alt_text"):
        yield "/alt_text", "missing required field: alt_text"
    yield from _length(block, "alt_text", 2000)
    if not (block.get("image_url") or block.get("slack_file")):
        yield "/image_url", "missing required field: image_url"
    yield from _length(block, "image_url", 3000)


def _markdown(block: Json) -> Found:
    if not block.get("text"):
        yield "/text", "must be more than 0 characters"


def _rich(block: Json) -> Found:
    if not isinstance(block.get("elements"), list):
        yield "/elements", "missing required field: elements"


def _table(block: Json) -> Found:
    rows = block.get("rows", [])
    if not 1 <= len(rows) <= 100:
        yield "/rows", "1 to 100 rows allowed"
    if any(len(row) > 20 for row in rows):
        yield "/rows", "no more than 20 cells a row allowed"


def _nothing(block: Json) -> Found:
    yield from ()


_KINDS: Final[dict[str, Callable[[Json], Found]]] = {
    "section": _section,
    "header": _header,
    "context": _context,
    "actions": _actions,
    "input": _input,
    "image": _image,
    "markdown": _markdown,
    "rich_text": _rich,
    "table": _table,
    "divider": _nothing,
}


def _element(element: Any, at: str) -> Found:
    if not isinstance(element, dict) or "type" not in element:
        yield at, "missing required field: type"
        return
    for where, what in _length(element, "action_id", 255):
        yield at + where, what
    if element["type"] == "button":
        yield from _text(element.get("text"), f"{at}/text", 75, plain=True)
        for where, what in (*_length(element, "value", 2000), *_length(element, "url", 3000)):
            yield at + where, what
        if element.get("style", "primary") not in ("primary", "danger"):
            yield f"{at}/style", f"unsupported style: {element['style']}"
    if "confirm" in element:
        yield from _confirm(element["confirm"], f"{at}/confirm")
    if "placeholder" in element:
        yield from _text(element["placeholder"], f"{at}/placeholder", 150, plain=True)
    options = element.get("options", [])
    if len(options) > (5 if element["type"] == "overflow" else 100):
        yield f"{at}/options", "too many options"
    for index, option in enumerate(options):
        yield from _text(option.get("text"), f"{at}/options/{index}/text", 75)
        yield from ((f"{at}/options/{index}{w}", what) for w, what in _length(option, "value", 150))


def _confirm(confirm: Json, at: str) -> Found:
    for name, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
        yield from _text(confirm.get(name), f"{at}/{name}", most)


def _text(text: Any, at: str, most: int, *, plain: bool = False) -> Found:
    kinds = ("plain_text",) if plain else ("plain_text", "mrkdwn")
    if not isinstance(text, dict) or text.get("type") not in kinds or not isinstance(text.get("text"), str):
        yield at, f"must be an object of type {' or '.join(kinds)}"
    elif not text["text"]:
        yield f"{at}/text", "must be more than 0 characters"
    elif len(text["text"]) > most:
        yield f"{at}/text", f"must be less than {most + 1} characters"


def _length(thing: Json, name: str, most: int) -> Found:
    if len(str(thing.get(name, ""))) > most:
        yield f"/{name}", f"must be less than {most + 1} characters"


def _many(elements: Any, most: int) -> Found:
    if not isinstance(elements, list) or not elements:
        yield "/elements", "must be an array of at least one item"
    elif len(elements) > most:
        yield "/elements", f"no more than {most} items allowed"


def view_problems(view: Any) -> list[str]:
    """Return what Slack would say is wrong with a modal."""
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        return ["unsupported type [json-pointer:/view/type]"]
    found = problems(view.get("blocks"), VIEW_BLOCKS)
    if view["type"] == "modal":
        for name in ("title", "submit", "close"):
            if name == "title" or name in view:
                found += [
                    f"{what} [json-pointer:{at}]"
                    for at, what in _text(view.get(name), f"/{name}", 24, plain=True)
                ]
    limits = (("private_metadata", 3000), ("callback_id", 255))
    found += [
        f"{what} [json-pointer:{at}]" for name, most in limits for at, what in _length(view, name, most)
    ]
    has_input = any(block.get("type") == "input" for block in view.get("blocks") or [])
    if has_input and "submit" not in view:
        found.append("submit is required when there are input blocks [json-pointer:/view/submit]")
    return found


def buttons(message: Json) -> dict[str, Json]:
    """Return the elements of a message that somebody can use, by action id."""
    found: dict[str, Json] = {}
    for block in message.get("blocks") or []:
        elements = block.get("elements", []) if block["type"] == "actions" else []
        if "accessory" in block:
            elements = [block["accessory"]]
        for element in elements:
            if element.get("action_id"):
                found[element["action_id"]] = element | {"block_id": block.get("block_id", "")}
    return found
