"""Slash commands on what was found: hosts, hypotheses, evidence, outputs, changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent.events import EvidenceAdded, HypothesisMoved, PlanMade, ToolFinished, ToolStarted
from agent.state import Evidence, Hypothesis
from agent.surfaces.side_by_side import Opened
from agent.surfaces.slash_types import Candidate, Command, Desk, DeskCommand, Reply, changes_of
from tools.artifacts import ArtifactStore

if TYPE_CHECKING:
    from agent.session import Session

_QUOTE_SHOWN = 60


def _hosts(desk: Desk, argument: str) -> str:
    session = desk.session
    views = {view.get("host"): (call, view) for call, view in _facts(session)} if session is not None else {}
    connected = session.work.hosts if session is not None else desk.hosts
    rows = []
    for name in desk.names:
        host = connected.get(name)
        key = f", key {host.key_fingerprint}" if host is not None and host.key_fingerprint else ""
        rows.append(f"{name}: {'connected' if host is not None else 'not connected'}{key}")
        call, view = views.get(name, ("", {}))
        rows += [f"   {line}" for line in _machine(view)]
        if session is not None:
            rows.append(f"   as seen by {call}: /show {call}" if call else "   no facts yet")
    if session is None:
        down = desk.hosts.down if isinstance(desk.hosts, Opened) else []
        rows += [f"{host.name}: not reached, and left out: {host.what}; {host.do}" for host in down]
        rows.append("what runs there is read first, once you have said what is wrong")
    return "\n".join(rows) or "no host: only the log that was given is judged"


def _facts(session: Session) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for event in session.events:
        if isinstance(event, ToolFinished) and event.tool == "facts" and event.status == "ok":
            try:
                view = json.loads(event.view)
            except ValueError:  # it was cut, so it can only be shown
                view = {"host": event.host}
            yield event.call, view if isinstance(view, dict) else {}


def _machine(view: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the GPUs and one for each engine, as far as the facts say."""
    hardware = view.get("hardware")
    gpus = hardware.get("gpus") if isinstance(hardware, dict) else None
    if isinstance(gpus, list) and gpus and isinstance(gpus[0], dict):
        yield f"{len(gpus)} x {gpus[0].get('name', 'GPU')}"
    engines = view.get("engines")
    for one in engines if isinstance(engines, list) else ():
        if isinstance(one, dict):
            package = one.get("package")
            version = package.get("version") if isinstance(package, dict) else one.get("version")
            words = [str(one.get("engine", "engine")), str(version or "")]
            yield f"{' '.join(filter(None, words))}, {one.get('unit') or 'no unit'}, pid {one.get('pid')}"


def _hypotheses(session: Session, argument: str) -> str:
    last = {e.hypothesis.id: e.hypothesis for e in session.events if isinstance(e, HypothesisMoved)}
    standing = sorted(last.values(), key=lambda item: item.rank)
    return "\n".join(_hypothesis(item) for item in standing) or "no hypothesis yet"


def _hypothesis(item: Hypothesis) -> str:
    rows = [f"{item.id} {item.status}: {item.statement}"]
    for prediction in item.predictions:
        links = [link for link in item.links if link.prediction == prediction.id]
        found = ", ".join(f"{link.evidence} {'matches' if link.matched else 'does not'}" for link in links)
        rows.append(f"   {prediction.id} {prediction.favours}: {prediction.says} [{found or 'no evidence'}]")
    return "\n".join(rows)


def _evidence(session: Session, argument: str) -> str:
    known = _known_evidence(session)
    if not argument:
        return "\n".join(_short(item) for item in known.values()) or "no evidence yet"
    item = known.get(f"E{argument.lstrip('Ee')}")
    if item is None:
        return f"no evidence {argument}; there is: {', '.join(known) or 'none yet'}"
    quote = "\n".join(f"    {line}" for line in item.citation.quote.splitlines())
    more = f"\n{item.note}" if item.note else ""
    return f"{_short(item)}\n{quote}{more}\nwhole output: /show {item.citation.artifact}"


def _known_evidence(session: Session) -> dict[str, Evidence]:
    return {e.evidence.id: e.evidence for e in session.events if isinstance(e, EvidenceAdded)}


def _short(item: Evidence) -> str:
    return f"{item.id} {item.kind}: {item.citation.render()}"


def _some_evidence(session: Session) -> Iterable[Candidate]:
    for item in _known_evidence(session).values():
        yield Candidate(item.id, " ".join(item.citation.quote.split())[:_QUOTE_SHOWN])


def show(session: Session, argument: str) -> str | Reply:
    """Return what a call returned, or a whole output that is kept of it."""
    if not argument:
        return _which(session)
    call, dot, _ = argument.partition(".")
    call = f"t{call.lstrip('tT')}"
    begun = {e.call: e for e in session.events if isinstance(e, ToolStarted)}
    done = {e.call: e for e in session.events if isinstance(e, ToolFinished)}
    if call not in done:
        state = "is still at work" if call in begun else "is not a call"
        return f"{call} {state}; there are: {', '.join(done) or 'none yet'}"
    refs = {ref.handle: ref for event in done.values() for ref in event.artifacts}
    if not dot:
        kept = [f"{ref.handle}: {ref.label} ({ref.size:,} bytes)" for ref in done[call].artifacts]
        more = "\n\nkept whole, see /show HANDLE:\n" + "\n".join(kept) if kept else ""
        title = begun[call].describe if call in begun else ""
        return Reply(f"{call} {title or done[call].tool}\n{_readable(done[call].view)}{more}", whole=True)
    ref = refs.get(f"t{argument.lstrip('tT')}")
    if ref is None:
        handles = [one.handle for one in done[call].artifacts]
        return f"no output {argument}; there is: {', '.join(handles) or 'none'}"
    return Reply(
        ArtifactStore(session.folder / "artifacts").get(ref.sha256).decode(errors="replace"), whole=True
    )


def _which(session: Session) -> str:
    rows = [f"  {one.word}  {one.help}" for one in some_calls(session)]
    return "\n".join(["which one? /show t1 shows what a call returned", *rows]) if rows else "no call yet"


def _readable(view: str) -> str:
    """Return what a model was shown with a line for each value, where it is JSON."""
    try:
        return json.dumps(json.loads(view), indent=1, ensure_ascii=False)
    except ValueError:
        return view


def some_calls(session: Session) -> Iterable[Candidate]:
    """Offer every call and every output kept of it."""
    titles = {e.call: e.describe or e.tool for e in session.events if isinstance(e, ToolStarted)}
    for event in session.events:
        if isinstance(event, ToolFinished):
            yield Candidate(event.call, titles.get(event.call, event.tool))
            for ref in event.artifacts:
                yield Candidate(ref.handle, f"{ref.label} ({ref.size:,} bytes)")


def _diff(session: Session, argument: str) -> str:
    diffs = {e.change: str(e.plan.get("diff", "")) for e in session.events if isinstance(e, PlanMade)}
    rows = []
    for change in changes_of(session.events).values():
        value = f"{change.from_value or '(not set)'} -> {change.to_value or '(left out)'}"
        rows.append(f"{change.id} {change.status}: {change.setting} {value} on {change.unit}")
        rows += [f"    {line}" for line in diffs.get(change.id, "").splitlines()]
    return "\n".join(rows) or "no change was proposed"


COMMANDS: dict[str, Command | DeskCommand] = {
    "/hosts": DeskCommand("/hosts", "the machines of this session, and what runs there", _hosts),
    "/hypotheses": Command("/hypotheses", "what may be the cause, and where each stands", _hypotheses),
    "/evidence": Command(
        "/evidence N", "a quote, and where it stands; all of them without N", _evidence, _some_evidence
    ),
    "/show": Command(
        "/show tN",
        "what a call returned; /show tN.M the whole output behind it",
        show,
        some_calls,
        reads=True,
    ),
    "/diff": Command("/diff", "the changes, and how each edits its unit", _diff),
}
