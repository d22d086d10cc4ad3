"""What names outside the followed package mean: built-ins, the pure standard library, host facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine


def install(machine: Machine) -> None:
    """Give a machine its library."""
    from tools.interpreter.library import (
        argument_parsers,
        builtin,
        classes,
        command_line,
        devices,
        folders,
        hardware,
        hub,
        inspecting,
        models,
        pydantic_models,
        standard,
        surroundings,
    )

    machine.library = {}
    machine.kinds = {}
    for part in (
        builtin,
        standard,
        surroundings,
        folders,
        classes,
        command_line,
        argument_parsers,
        hardware,
        devices,
        models,
        hub,
        inspecting,
        pydantic_models,
    ):
        part.install(machine)
    machine.library["kinds"] = machine.kinds
