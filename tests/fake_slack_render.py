"""A thread of the fake Slack as text, and as a page that Chromium makes a picture of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape

from tests.fake_slack_world import Json, World

_STYLE = """
body { margin: 0; background: #fff; color: #1d1c1d; font: 15px/1.47 "DejaVu Sans", sans-serif; width: 760px; }
main { padding: 14px 20px 18px; }
h1 { font-size: 16px; margin: 0 0 10px; border-bottom: 1px solid #ddd; padding-bottom: 8px; }
h2 { font-size: 17px; margin: 4px 0; }
p { margin: 2px 0; }
article { display: flex; gap: 10px; padding: 7px 0; }
.face { width: 34px; height: 34px; border-radius: 7px; color: #fff; text-align: center; line-height: 34px;
  font-weight: bold; flex: none; }
.what { min-width: 0; flex: 1; overflow-wrap: anywhere; }
.who { font-weight: 800; }
.app { background: #e8e8e8; color: #616061; font-size: 10px; padding: 1px 4px; border-radius: 3px;
  margin-left: 5px; font-weight: 600; }
.at { color: #616061; font-size: 12px; margin-left: 6px; }
pre { background: #f8f8f8; border: 1px solid #ddd; border-radius: 4px; padding: 7px 9px; margin: 4px 0;
  font: 12px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
code { background: #f8f8f8; border: 1px solid #ddd; border-radius: 3px; padding: 0 3px; color: #c01343;
  font: 12.5px "DejaVu Sans Mono", monospace; }
blockquote { border-left: 4px solid #ddd; margin: 3px 0; padding: 0 0 0 10px; }
.button { display: inline-block; border: 1px solid #bbb; border-radius: 6px; padding: 4px 11px;
  margin: 5px 7px 2px 0; font-size: 13px; font-weight: 600; }
.primary { background: #007a5a; color: #fff; border-color: #007a5a; }
.danger { background: #e01e5a; color: #fff; border-color: #e01e5a; }
.context { color: #616061; font-size: 12.5px; }
.file { border: 1px solid #ddd; border-radius: 8px; padding: 7px 11px; margin-top: 4px; }
table { border-collapse: collapse; margin: 4px 0; font-size: 13px; }
td, th { border: 1px solid #ddd; padding: 3px 8px; text-align: left; }
hr { border: 0; border-top: 1px solid #ddd; }
.mention { background: #e8f5fa; color: #1264a3; border-radius: 3px; padding: 0 2px; }
"""
_FACES = ("#611f69", "#2b6cb0", "#b7791f", "#2f855a", "#c05621", "#553c9a")


def thread_text(world: World, channel: str, ts: str) -> str:
    """Return a thread as text: who, what, buttons in brackets, files."""
    lines = [f"#{world.channels[channel].name}"]
    for message in world.channels[channel].thread(ts):
        name = world.members[message["user"]].name
        edited = " (edited)" if "edited" in message else ""
        body = [line for part in _parts_text(message) for line in part.split("\n")]
        lines += [f"{name}{edited}:", *(f"  {line}" for line in body)]
        if message.get("reactions"):
            lines.append("  " + " ".join(f":{reaction}:" for reaction in message["reactions"]))
    for note in world.ephemeral:
        if note["channel"] == channel and note.get("thread_ts") in (ts, None):
            who = world.members[str(note["to"])].name
            lines += [
                f"(only {who} sees:)",
                *(f"  {line}" for line in "\n".join(_parts_text(note)).split("\n")),
            ]
    return "\n".join(lines)


def _parts_text(message: Json) -> Iterator[str]:
    blocks = [block for block in message.get("blocks") or [] if block["type"] != "rich_text"]
    if message.get("text") and (not blocks or "streaming_state" in message):
        yield message["text"]
    for block in blocks:
        yield from _block_text(block)
    for file in message.get("files", []):
        yield f"[file: {file['title']}]"


def _block_text(block: Json) -> Iterator[str]:
    kind = block["type"]
    if "text" in block:
        yield block["text"] if kind == "markdown" else block["text"]["text"]
    yield from (one["text"] for one in block.get("fields", []))
    if kind == "context":
        yield " ".join(one.get("text", "[image]") for one in block["elements"])
    if kind == "actions":
        yield " ".join(f"[{_label(one)}]" for one in block["elements"])
    if "accessory" in block:
        yield f"[{_label(block['accessory'])}]"
    if kind == "divider":
        yield "---"
    if kind == "image":
        yield f"[image: {block['alt_text']}]"
    if kind == "table":
        yield from (" | ".join(str(cell.get("text", "")) for cell in row) for row in block["rows"])


def _label(element: Json) -> str:
    label = element.get("text") or element.get("placeholder") or {"text": element["type"]}
    return str(label["text"])


def thread_html(world: World, channel: str, ts: str, since: str = "") -> str:
    """Return a thread, or what was written ``since`` one of its messages, as one page without a script."""
    told = [f"<h1># {escape(world.channels[channel].name)} · thread</h1>"]
    thread = [message for message in world.channels[channel].thread(ts) if message["ts"] >= since]
    told += [_message_html(world, message) for message in thread]
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>thread</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(told)}</main></body></html>"
    )


def _message_html(world: World, message: Json) -> str:
    member = world.members[message["user"]]
    colour = _FACES[sum(member.id.encode()) % len(_FACES)]
    at = datetime.fromtimestamp(float(message["ts"]), UTC).strftime("%H:%M")
    app = "<span class=app>APP</span>" if message.get("bot_id") else ""
    head = f"<span class=who>{escape(member.name)}</span>{app}<span class=at>{at}</span>"
    face = f'<div class=face style="background: {colour}">{escape(member.name[0].upper())}</div>'
    edited = "<span class=at>(edited)</span>" if "edited" in message else ""
    body = "".join(_parts_html(world, message))
    marks = " ".join(f":{escape(name)}:" for name in message.get("reactions", []))
    return (
        f"<article>{face}<div class=what>{head}{body}{edited}<div class=context>{marks}</div></div></article>"
    )


def _parts_html(world: World, message: Json) -> Iterator[str]:
    blocks = [block for block in message.get("blocks") or [] if block["type"] != "rich_text"]
    if message.get("text") and (not blocks or "streaming_state" in message):
        yield (markdown_html if message.get("markdown") else mrkdwn_html)(message["text"], world)
    for block in blocks:
        yield from _block_html(world, block)
    for file in message.get("files", []):
        yield f"<div class=file>📄 {escape(file['title'])}</div>"


def _block_html(world: World, block: Json) -> Iterator[str]:
    kind = block["type"]
    if kind == "header":
        yield f"<h2>{escape(block['text']['text'])}</h2>"
    elif kind == "markdown":
        yield markdown_html(block["text"], world)
    elif "text" in block:
        yield _text_html(world, block["text"])
    yield from (_text_html(world, one) for one in block.get("fields", []))
    if kind == "context":
        inside = " ".join(_text_html(world, one) for one in block["elements"] if "text" in one)
        yield f"<div class=context>{inside}</div>"
    if kind == "actions":
        yield "<div>" + "".join(map(_button_html, block["elements"])) + "</div>"
    if "accessory" in block:
        yield _button_html(block["accessory"])
    if kind == "divider":
        yield "<hr>"
    if kind == "image":
        yield f"<div class=file>🖼 {escape(block['alt_text'])}</div>"
    if kind == "table":
        rows = (
            "".join(f"<td>{escape(str(cell.get('text', '')))}</td>" for cell in row) for row in block["rows"]
        )
        yield "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _button_html(element: Json) -> str:
    return f'<span class="button {escape(element.get("style", ""))}">{escape(_label(element))}</span>'


def _text_html(world: World, text: Json) -> str:
    if text["type"] == "plain_text":
        return f"<p>{escape(text['text'])}</p>"
    return mrkdwn_html(text["text"], world)


def mrkdwn_html(text: str, world: World) -> str:
    """Return Slack's own markup as HTML."""

    def inline(line: str) -> str:
        line = re.sub(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])", r"<b>\1</b>", line)
        line = re.sub(r"(?<![\w_])_([^_\n]+)_(?![\w_])", r"<i>\1</i>", line)
        return re.sub(r"(?<![\w~])~([^~\n]+)~(?![\w~])", r"<s>\1</s>", line)

    return _back(_lines_html(_aside(text), world, inline))


def markdown_html(text: str, world: World) -> str:
    """Return Markdown, as streams and markdown blocks hold it, as HTML."""

    def inline(line: str) -> str:
        line = re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", line)
        line = re.sub(r"^#{1,6} (.*)$", r"<b>\1</b>", line)
        return re.sub(r"(?<![\w_*])[_*]([^_*\n]+)[_*](?![\w_*])", r"<i>\1</i>", line)

    # What a backslash takes its meaning from is set aside until the markup is read.
    aside = re.sub(r"\\([!-/:-@\[-`{-~])", lambda found: chr(0xE000 + ord(found[1])), _aside(text))
    return _back(_lines_html(aside, world, inline))


def _aside(text: str) -> str:
    """Set aside what is written as an entity: to Slack it is no mark, whatever it looks like."""
    return text.replace("&lt;", "\ue03c").replace("&gt;", "\ue03e").replace("&amp;", "\ue026")


def _back(html: str) -> str:
    return re.sub(r"[\ue000-\ue07f]", lambda found: escape(chr(ord(found[0]) - 0xE000)), html)


def _lines_html(text: str, world: World, inline: Callable[[str], str]) -> str:
    told = []
    for index, part in enumerate(re.split(r"```(?:[a-z]+\n)?", text)):
        if index % 2:
            told.append(f"<pre>{escape(part.strip(chr(10)))}</pre>")
            continue
        for line in part.strip("\n").split("\n"):
            quoted = line.startswith(">")
            pieces = re.split(r"`([^`\n]+)`", line.removeprefix(">"))
            shown = "".join(
                f"<code>{escape(piece)}</code>" if at % 2 else inline(_mentions(escape(piece), world))
                for at, piece in enumerate(pieces)
            )
            told.append(f"<blockquote>{shown}</blockquote>" if quoted else f"<p>{shown}</p>" if line else "")
    return "".join(told)


def _mentions(escaped: str, world: World) -> str:
    def name(found: re.Match[str]) -> str:
        member = world.members.get(found[1])
        return f"<span class=mention>@{escape(member.name if member else found[1])}</span>"

    escaped = re.sub(r"&lt;@([UW][A-Z0-9]+)&gt;", name, escaped)
    return re.sub(r"&lt;(https?://[^|&]+)(?:\|([^&]+))?&gt;", lambda m: f"<u>{m[2] or m[1]}</u>", escaped)
