"""Give launch lines to SGLang's own argument code, in the steps in which its launcher takes them."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from typing import Any

from evals.truth.inside.plain import choices_of, plain, raised

MODULES = ("sglang.srt.server_args",)


def _module() -> Any:
    return importlib.import_module(MODULES[0])


def options() -> dict[str, list[str] | None]:
    """Return the option strings of this version, each with its choices where it has some."""
    parser = argparse.ArgumentParser()
    _module().ServerArgs.add_cli_args(parser)
    return choices_of(parser)


class Line:
    """Follow one launch line; ``stage`` says how far it came."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.stage = "parse"
        self.record: dict[str, Any] = {}

    def follow(self, argv: list[str]) -> None:
        """Parse, derive and check; what the argument code raises goes through."""
        module = _module()
        parser = argparse.ArgumentParser(prog="sglang serve")
        module.ServerArgs.add_cli_args(parser)
        given = {name: plain(value) for name, value in vars(parser.parse_args(list(argv))).items()}
        self.stage = "post_init"
        held = module.prepare_server_args(list(argv))
        if hasattr(
            held, "resolve_once"
        ):  # later versions derive on the launcher's call, not when constructed
            self.stage = "resolve_once"
            held.resolve_once()
        fields = _fields(held)
        self.record |= {"ok": True, "fields": fields, "check": self._check(held, fields)}
        self.record["changed"] = {
            name: [given[name], value]
            for name, value in fields.items()
            if name in given and given[name] != value
        }
        if not hasattr(held, "resolved_dict"):
            simple = (bool, int, float, str, type(None))
            more = {n: v for n, v in vars(held).items() if n not in fields and isinstance(v, simple)}
            self.record |= {"extra_attrs": {n: plain(v) for n, v in more.items()}} if more else {}

    def _check(self, held: Any, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what the check says that the launcher makes next; refusing there is a result too."""
        try:
            held.check_server_args()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the answer
            return {"ok": False, "exception": raised(error, self.site)}
        after = _fields(held)
        return {"ok": True, "changed": {n: v for n, v in after.items() if v != fields.get(n)}}


def _fields(held: Any) -> dict[str, Any]:
    if hasattr(held, "resolved_dict"):
        return {name: plain(value) for name, value in held.resolved_dict().items()}
    return {one.name: plain(getattr(held, one.name)) for one in dataclasses.fields(held)}
