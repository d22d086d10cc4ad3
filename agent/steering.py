"""What a person changes of a running session besides what is said: the model, and what it is sent."""

from __future__ import annotations

from agent.compaction import foldable, folded, tokens_of
from agent.config import Settings, with_model
from agent.errors import UsageError
from agent.events import Compacted, ModelChosen
from agent.investigation import Investigation
from agent.models.select import PLAYBOOK, model_of
from agent.own_secrets import redactor


def fold_now(work: Investigation) -> Compacted | None:
    """Fold the results of all but the latest turn to one line each; None when that would save nothing."""
    if work.model.name == PLAYBOOK:
        raise UsageError("the built-in playbooks read whole results and send nothing", do="nothing to fold")
    before = work.messages.list
    calls = foldable(before)
    if not calls:
        return None
    event = Compacted(
        turn=work.history.last_turn,
        calls=calls,
        tokens_before=tokens_of(before),
        tokens_after=tokens_of(folded(before, frozenset(calls))),
    )
    work.transcript.append(event)
    return event


def choose(work: Investigation, name: str, base_url: str | None = None) -> Settings:
    """Let another model take the next turn; return the settings that name it.

    A turn that is under way is still taken by the model that was asked.
    """
    if name == PLAYBOOK:
        raise UsageError(
            "the built-in playbooks follow a thread from its beginning",
            do="leave, and begin another chat without --model",
        )
    settings = named(work.settings, name, base_url)
    model = model_of(settings)
    work.transcript.append(ModelChosen(turn=work.history.last_turn, model=model.name), durable=True)
    work.model = model
    work.settings = settings
    return settings


def named(settings: Settings, name: str, base_url: str | None = None) -> Settings:
    """Return settings that name another model; a key goes to no endpoint but its own."""
    if name in settings.models:
        chosen = with_model(settings, name, base_url)
        redactor(chosen)  # its key is a secret of ours from now on
        return chosen
    update: dict[str, str | None] = {"model": name}
    if base_url is not None and base_url != settings.base_url:
        update |= {"base_url": base_url, "api_key": None}
    return settings.model_copy(update=update)
