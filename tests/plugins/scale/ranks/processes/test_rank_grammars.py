"""Grammar backends of a rank are there before the steps that follow grammars."""

from types import SimpleNamespace
from typing import Any

import pytest

from hookline_grammars import rank_grammars as grammars
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.rank_grammars import RankGrammars

SETTINGS: Any = object()


class Backends:
    """Notes when backends are made, and which."""

    made: list[object]

    def __init__(self, settings: object) -> None:
        self.made.append(settings)

    def backend(self, index: int) -> None:
        self.made.append(index)


def plan_of(*admitted: CompiledGrammar | None) -> Any:
    found = [
        SimpleNamespace(sections={"grammars": each} if each else {})
        for each in admitted
    ]
    return SimpleNamespace(admitted=found)


def test_a_backend_is_made_before_its_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its import is no part of an output's time; without grammars nobody imports it."""
    made: list[object] = []
    monkeypatch.setattr(Backends, "made", made, raising=False)
    monkeypatch.setattr(grammars, "OwnBackends", Backends)
    own = RankGrammars(SETTINGS)

    own.expect(plan_of(None))
    before = list(made)
    own.expect(plan_of(None, CompiledGrammar(b"key", b"data", 1)))
    own.expect(plan_of(None))

    assert before == []
    assert made == [SETTINGS, 1]
