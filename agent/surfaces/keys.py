"""Keys, completion and colours of the input line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

Complete = Callable[[str], Iterable[tuple[str, str]]]
"""From what is typed so far: the words that may take the place of its last one, each with what it is."""

STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse",
        "status": "ansibrightblack",
        "status.host": "bold",
        "status.production": "bold ansired",
        "status.ready": "ansigreen",
        "status.working": "ansicyan",
        "status.held": "bold ansiyellow",
        "status.needs": "bold ansimagenta",
    }
)


class Commands(Completer):
    """Complete slash commands and what they take."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what may take the place of the last word."""
        typed = document.text_before_cursor
        last = typed.rpartition(" ")[2]
        for word, told in self._complete(typed):
            yield Completion(word, start_position=-len(last), display_meta=told)


def bindings(
    later: Callable[[], None],
    edit: Callable[[], None],
    suspend: Callable[[], None],
    fold: Callable[[str], str],
) -> KeyBindings:
    """Return the keys: a further line, the editor, Tab for completion or for later."""
    keys = editing(edit, suspend, fold)

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("tab")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text.startswith(("/", "!")):
            _next(event.current_buffer)
        else:
            later()

    return keys


def editing(edit: Callable[[], None], suspend: Callable[[], None], fold: Callable[[str], str]) -> KeyBindings:
    """Return what goes in every mode: the keys for the person's editor and the shell, and a paste."""
    keys = KeyBindings()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(fold(event.data.replace("\r\n", "\n").replace("\r", "\n")))

    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        edit()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        suspend()

    return keys


def _next(buffer: Buffer) -> None:
    if buffer.complete_state:
        buffer.complete_next()
    else:
        buffer.start_completion(select_first=False, insert_common_part=True)
