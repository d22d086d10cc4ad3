"""The command line: names, flags and help; bodies are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import agent
from agent.surfaces import (
    change_commands,
    completion_command,
    facts_command,
    host_command,
    init_command,
    policy_command,
    settings_options,
)
from agent.surfaces.approvals_command import approvals
from agent.surfaces.commands import OpenGroup, postpone
from agent.surfaces.config_command import config
from agent.surfaces.hosts_command import hosts
from agent.surfaces.options import (
    ApproveOption,
    BaseUrlOption,
    HostArgument,
    HostsArgument,
    InFlightOption,
    JsonOption,
    LastOption,
    LoadOption,
    ModeChoice,
    ModelOption,
    ModeOption,
    OutOption,
    Output,
    ResumeOption,
    SendRgOption,
)
from agent.surfaces.records_commands import audit, cases, playbooks
from agent.surfaces.runbooks_command import runbooks
from agent.surfaces.sessions_command import sessions
from agent.surfaces.slack_command import slack

app = typer.Typer(
    name="leadline",
    cls=OpenGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Debug hosts that serve language models: reads the source that is installed there, tests "
    "hypotheses, and backs every claim with a quote. Reads only, unless you say otherwise.",
    epilog="Try it without a key or a GPU: leadline ask lab:kimi-k26-pp8 'PP8 decode is slow'. "
    "Exit codes: docs/cli.md.",
)
app.add_typer(sessions, name="sessions")
app.add_typer(cases, name="cases")
app.add_typer(playbooks, name="playbooks")
app.add_typer(config, name="config")
app.add_typer(policy_command.policy, name="policy")
app.add_typer(host_command.host, name="host")
app.add_typer(hosts, name="hosts")
app.add_typer(runbooks, name="runbooks")
app.add_typer(approvals, name="approvals")
app.add_typer(slack, name="slack")
app.add_typer(audit, name="audit")


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", "-p", help="In place of a command: the same as `leadline ask`.")
    ] = False,
) -> None:
    """Carry the options of all commands; those alone are answered before any of this is loaded."""
    if version:
        typer.echo(f"leadline {agent.__version__}")
        raise typer.Exit


@app.command()
def ask(
    host: HostsArgument = "",
    symptom: Annotated[
        str, typer.Argument(help="What is wrong, in your words, with the numbers you see.")
    ] = "",
    resume: ResumeOption = None,
    last: LastOption = False,
    mode: ModeOption = ModeChoice.READ_ONLY,
    approve: ApproveOption = False,
    allow_in_flight: InFlightOption = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_load: LoadOption = None,
    send_rg: SendRgOption = False,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Model turns before it must conclude.")] = None,
    timeout: Annotated[float | None, typer.Option(min=1, help="Seconds before it must stop.")] = None,
    out: OutOption = None,
    output_format: Annotated[Output, typer.Option(help="stream-json prints one event a line.")] = Output.TEXT,
    json_: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 3 when a problem was found and not fixed.")
    ] = False,
) -> None:
    """Investigate one symptom on one host, or on several, and end with a checked case file.

    Example: leadline ask gpu1 "PP8 decode is slow: 24 tok/s, GPUs at 85 W of 600 W"
    """
    from agent.surfaces.ask import AskOptions, run

    run(
        AskOptions(
            host=host,
            symptom=symptom,
            resume=resume,
            last=last,
            mode=mode.value,
            approve=approve,
            allow_in_flight=allow_in_flight,
            model=model,
            base_url=base_url,
            allow_load=allow_load,
            send_rg=send_rg,
            max_turns=max_turns,
            timeout_s=timeout,
            out=out,
            output="json" if json_ else output_format.value,
            quiet=quiet,
            exit_code=exit_code,
        )
    )


@app.command()
def chat(
    host: HostsArgument = "",
    resume: ResumeOption = None,
    last: LastOption = False,
    mode: ModeOption = ModeChoice.READ_ONLY,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_load: LoadOption = None,
) -> None:
    """Investigate in a conversation: say what is wrong, watch, interrupt, steer, decide, ask on.

    Example: leadline chat gpu1 --model NAME --base-url http://gpu1:30000/v1
    """
    from agent.surfaces.chat import run
    from agent.surfaces.going_on import meant
    from agent.surfaces.open_options import OpenOptions

    found = meant(host, None, resume, last=last, example="leadline chat local")
    run(
        OpenOptions(
            host=found.host,
            resume=found.thread,
            mode=mode.value,
            model=model,
            base_url=base_url,
            allow_load=allow_load,
        )
    )


@app.command()
def tool(
    host: HostArgument,
    name: Annotated[str, typer.Argument(help="facts, run, grep, settings, read_file, journal or benchmark.")],
    arguments: Annotated[
        str, typer.Argument(help="Arguments as one JSON object; {} where none are needed.")
    ] = "{}",
    allow_load: Annotated[bool, typer.Option("--allow-load", help="Let `benchmark` send requests.")] = False,
    send_rg: SendRgOption = False,
    json_: JsonOption = False,
) -> None:
    """Call one tool by hand and print what a model would see.

    Example: leadline tool gpu1 grep '{"pattern": "disable_cuda_graph"}' --json
    """
    from agent.surfaces.by_hand import call

    call(host, name, arguments, allow_load=allow_load, send_rg=send_rg, as_json=json_)


@app.command()
def settings(
    host: settings_options.SettingsHost = None,
    name: settings_options.SettingName = None,
    pid: settings_options.PidOption = None,
    unit: settings_options.UnitOption = None,
    stand_in: settings_options.StandInOption = None,
    source: settings_options.SourceOption = None,
    argv: settings_options.ArgvOption = "",
    set_: settings_options.FactsOption = None,
    env: settings_options.EnvOption = None,
    suspects: settings_options.SuspectsOption = False,
    lint: settings_options.LintOption = False,
    ask: settings_options.AskOption = False,
    launch_line: settings_options.LaunchLineOption = None,
    json_: JsonOption = False,
) -> None:
    """Explain settings from the installed source: the value in force, why, and which line says so.

    Examples: leadline settings gpu1 disable_cuda_graph;
    leadline settings --source sglang --argv '--pp-size 8' --set gpu_arch=sm120 disable_overlap_schedule
    """
    from agent.surfaces.settings_command import SettingsOptions, run

    run(
        SettingsOptions(
            host=host,
            name=name,
            pid=pid,
            unit=unit,
            stand_in=stand_in,
            source=source,
            argv=argv,
            facts=set_ or [],
            environment=env or [],
            suspects=suspects,
            lint=lint,
            ask=ask,
            launch_line=launch_line,
            as_json=json_,
        )
    )


@app.command()
def tools(json_: JsonOption = False) -> None:
    """List the tools with the schema that a model sees."""
    from agent.surfaces.by_hand import list_tools

    list_tools(as_json=json_)


@app.command()
def scripted(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    script: Annotated[
        Path | None, typer.Option(help="YAML list of turns; without it the built-in method answers.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="N:KIND", help="Let the N-th answer go wrong, such as 3:429 or 5:cut."),
    ] = None,
) -> None:
    """Serve a scripted model on loopback, to try things out without one: OpenAI-compatible, with faults.

    Example: leadline scripted --port 8080 --fault 3:429 --fault 5:cut
    """
    from agent.surfaces.scripted import serve

    serve(port, script, fault or [])


@app.command()
def replay(
    transcript: Annotated[
        Path, typer.Argument(help="A transcript with artifacts/ beside it, or the folder of both.")
    ],
    json_: JsonOption = False,
) -> None:
    """Investigate again from a recording, on no host, and compare how it goes with what was recorded.

    Example: leadline replay case/transcript.jsonl
    """
    from agent.surfaces.replay import run

    run(transcript, as_json=json_)


change_commands.register(app)
completion_command.register(app)
init_command.register(app)
facts_command.register(app)


postpone(app)
