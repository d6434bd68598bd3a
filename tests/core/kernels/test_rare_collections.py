"""How often the interpreter looks for garbage beside a started engine."""

import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from hookline_kernels.runtime import gc_freeze


class FakeGc(SimpleNamespace):
    """Remembers the thresholds, and looks at nothing."""

    def __init__(self, *threshold: int) -> None:
        super().__init__(threshold=threshold)

    def get_threshold(self) -> tuple[int, ...]:
        return self.threshold

    def set_threshold(self, *threshold: int) -> None:
        self.threshold = threshold

    def nothing(self) -> None:
        """Collects and freezes nothing."""

    collect = freeze = unfreeze = nothing


def module(fake: FakeGc) -> dict[str, Any]:
    """The module's functions for other collections: the tests' own replace them."""
    found = runpy.run_path(gc_freeze.__file__)
    found["freeze_gc"].__globals__["gc"] = fake
    return found


@pytest.mark.parametrize("usual", [(700, 10, 10), (0, 10, 10), (50_000, 5, 5)])
def test_collections_are_rare_from_start_to_end(usual: tuple[int, int, int]) -> None:
    """A start raises the first threshold alone, unless it is off or higher."""
    fake = FakeGc(*usual)
    found = module(fake)

    found["freeze_gc"]()
    started = fake.threshold
    found["unfreeze_gc"]()

    young = found["YOUNG_OBJECTS"] if usual[0] == 700 else usual[0]
    assert started == (young, *usual[1:])
    assert fake.threshold == usual


def test_an_end_leaves_what_others_have_set() -> None:
    """A program's own threshold stays when its engine ends."""
    fake = FakeGc(700, 10, 10)
    found = module(fake)

    found["freeze_gc"]()
    fake.set_threshold(9, 9, 9)
    found["unfreeze_gc"]()

    assert fake.threshold == (9, 9, 9)
