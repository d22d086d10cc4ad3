"""What is read late, function bodies and classes, comes out as if it had been read at once."""

from __future__ import annotations

from typing import Any

from tests.settings_small import SmallTree
from tools.interpreter.base import World
from tools.interpreter.machine import Machine
from tools.interpreter.values import External, GuestClass, Unknown
from tools.settings.evaluation import parsed_or_none
from tools.settings.trees import skimmed
from tools.settings.types import HostFacts

KINDS = """
    from sglang.base import Base

    class First(Base):
        kind = "one"

        def name(self):
            text = self.kind
            text = text + "!"
            text = text + "?"
            return text

    class Second(First):
        other = First

        def name(self):
            return super().name() + self.other.kind

    class Noted(Base):
        seen = NOT_DEFINED
"""
BASE = """
    class Base:
        kind = "none"
"""
TABLE = """
    from sglang.kinds import First, Noted, Second

    TABLE = {"first": First, "second": Second, "noted": Noted}

    def names():
        return sorted(TABLE)

    def made(name):
        return TABLE[name]().name()

    def seen():
        return TABLE["noted"].seen
"""


def machine_of(files: dict[str, str]) -> Machine:
    tree = SmallTree(files)
    return Machine(tree, "sglang", World(HostFacts(), {}), lambda path: parsed_or_none(tree, path))


def called(machine: Machine, module: str, name: str, *given: Any) -> Any:
    found = machine.module_named(f"sglang.{module}")
    assert found is not None
    return machine.call(machine.module_attribute(found, name), given, {})


def small() -> Machine:
    return machine_of({"base.py": BASE, "kinds.py": KINDS, "table.py": TABLE})


def followed(machine: Machine, first: str) -> bool:
    """Tell whether the class body that begins with a statement was followed."""
    lines = (machine.tree.read("kinds.py") or b"").decode().splitlines()
    return ("kinds.py", next(n for n, text in enumerate(lines, 1) if first in text)) in machine.reached


def test_the_keys_of_a_registry_need_no_class_body() -> None:
    machine = small()
    assert called(machine, "table", "names") == ["first", "noted", "second"]
    assert not followed(machine, 'kind = "one"')


def test_a_class_that_was_put_off_is_the_same_object_everywhere() -> None:
    machine = small()
    assert called(machine, "table", "made", "second") == "one!?one"
    assert followed(machine, 'kind = "one"')
    kinds = machine.module_named("sglang.kinds")
    assert kinds is not None
    second = machine.module_attribute(kinds, "Second")
    assert machine.get_attribute(second, "other") is machine.module_attribute(kinds, "First")
    assert isinstance(second, GuestClass) and second.mro[1] is machine.module_attribute(kinds, "First")


def test_a_class_body_that_fails_leaves_what_is_of_it_unknown() -> None:
    machine = small()
    assert isinstance(called(machine, "table", "seen"), Unknown)
    assert [name for name, _ in machine.swallowed] == ["sglang.kinds.Noted"]


def test_a_class_that_acts_when_it_is_made_is_not_put_off() -> None:
    machine = machine_of(
        {
            "m.py": """
                SEEN = []

                class Base:
                    def __init_subclass__(cls, **options):
                        SEEN.append(cls.__name__)

                class One(Base):
                    kind = 1

                def known():
                    One
                    return list(SEEN)
            """
        }
    )
    assert called(machine, "m", "known") == ["One"]


def test_a_class_that_needs_itself_is_unknown_there_alone() -> None:
    machine = machine_of(
        {
            "m.py": """
                class One:
                    kind = 1
                    again = One.kind

                def kind():
                    return One.kind

                def again():
                    return One.again
            """
        }
    )
    assert called(machine, "m", "kind") == 1
    assert isinstance(called(machine, "m", "again"), Unknown)


def test_only_called_functions_are_read_and_their_parameters_are_there_before() -> None:
    files = {
        "m.py": """
            LIMIT = 3

            def used(a, b=LIMIT, *, c={"x": 1}, **rest):
                total = a
                total = total + b
                total = total + c["x"]
                return total

            def unused(
                a: str = "(:",
            ) -> None:
                x = 1
                x = 2
                x = 3

            async def later(a):
                x = a
                x = a
                x = a
                return x
        """
    }
    machine = machine_of(files)
    assert called(machine, "m", "used", 1) == 5
    module = skimmed(machine.tree, "m.py")
    assert module is not None
    assert [piece.name for piece in module.unread] == [b"unused", b"later"]
    assert isinstance(called(machine, "m", "later", 1), Unknown)


def test_a_function_that_this_python_cannot_read_keeps_the_others() -> None:
    text = """
        def fine(a):
            x = a
            x = x + 1
            x = x + 1
            return x

        def newer(a):
            x = a
            x = x +
            x = x + 1
            return 7
    """
    machine = machine_of({"m.py": text})
    assert called(machine, "m", "fine", 1) == 3
    assert called(machine, "m", "newer", 1) == 7


def test_a_symbol_of_another_package_is_no_class_to_put_off() -> None:
    machine = machine_of({"m.py": "from torch import nn\n\ndef f():\n    return nn.Module\n"})
    assert called(machine, "m", "f") == External("torch.nn.Module")
