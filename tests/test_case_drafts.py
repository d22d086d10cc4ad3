"""What a recording says of a case: its draft, and the scenario with what changes did."""

from __future__ import annotations

from agent.config import Settings
from agent.errors import UsageError
from evals import case as cases
from evals import recordings
from evals.capture_scenario import capture_scenario
from evals.captured_host import gather, hosts_of
from evals.case_skeleton import draft
from evals.findings import fold
from evals.score import score


def test_each_recording_of_our_own_drafts_a_case_or_says_why_not() -> None:
    cache = Settings().cache_dir
    drafted = []
    for name in recordings.names():
        kept = recordings.load(name)
        try:
            made = draft(
                fold(kept.events), kept.store, name=name, scenario=kept.started.scenario or "", cache=cache
            )
        except UsageError as error:
            assert "cites nothing that can be found again" in str(error), name
            continue
        case = cases.Case.model_validate({**made.fields, "name": name})
        rated = score(case, kept.events, kept.store, cache=cache)
        assert rated.scores["outcome"] == 1 and rated.scores["evidence"] == 1, (name, rated.why)
        drafted.append(name)
    assert {"founding-solved", "founding-fixed", "healthy-fine"} <= set(drafted)


def test_changes_that_were_tried_are_recorded_with_what_they_did() -> None:
    kept = recordings.load("founding-fixed")
    (host,) = hosts_of(kept.events)
    made = capture_scenario(gather(kept.events, kept.store, host), "fixed", "host-1")
    (service,) = made.fields["services"].values()
    first, second = service["rules"]["with-c1"], service["rules"]["with-c2"]
    assert first["when"] == {"--disable-cuda-graph": False}
    assert second["when"] == {"--disable-cuda-graph": False, "--pp-async-batch-depth": 1}
    steps = [
        service["rules"]["recorded"]["step_ms"]["at"][8],
        *(rule["step_ms"]["at"][8] for rule in (first, second)),
    ]
    assert steps == sorted(steps, reverse=True)
    assert second["answers"]["/server_info"]["disable_cuda_graph"] is False
    assert second["answers"]["/server_info"]["pp_async_batch_depth"] == 1
    assert first["answers"]["/server_info"]["pp_async_batch_depth"] == 0


def test_a_change_that_did_not_come_up_is_recorded_as_one_that_does_not() -> None:
    kept = recordings.load("capturefails-rolled-back")
    (host,) = hosts_of(kept.events)
    made = capture_scenario(gather(kept.events, kept.store, host), "fails", "host-1")
    (service,) = made.fields["services"].values()
    fails = [rule for rule in service["rules"].values() if "exit" in rule]
    assert fails and "Capture cuda graph failed" in fails[0]["exit"]["text"]
    assert fails[0]["when"]["--disable-cuda-graph"] is False
