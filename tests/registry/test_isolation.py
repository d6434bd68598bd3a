"""Isolation of plugin code."""

import ast
import threading
from pathlib import Path

import pytest

from hookline_registry import Failure, isolate
from hookline_testing.structure.sources import parsed

ROOT = Path(__file__).parents[2]


class OddError(BaseException):
    """What a plugin may think of, outside of the usual tree."""


class MuteError(Exception):
    """An error that fails even while it is shown."""

    def __str__(self) -> str:
        raise OddError


def throw(error: BaseException) -> None:
    raise error


def test_a_result_is_passed_through() -> None:
    """A call that works gives its own result."""
    assert isolate(divmod, 7, 2) == (3, 1)


@pytest.mark.parametrize(
    "error", [ValueError("bad"), SystemExit(1), OddError("odd"), GeneratorExit()]
)
def test_every_exception_becomes_a_failure(error: BaseException) -> None:
    """No kind of exception gets past the isolation."""
    outcome = isolate(throw, error)

    assert isinstance(outcome, Failure)
    assert outcome.error is error
    assert outcome.error.__traceback__ is not None


def test_ctrl_c_in_the_main_thread_goes_through() -> None:
    """The user can still interrupt a plugin that takes too long to load."""
    with pytest.raises(KeyboardInterrupt):
        isolate(throw, KeyboardInterrupt())


def test_a_faked_ctrl_c_in_another_thread_does_not() -> None:
    """A plugin cannot end its thread by raising KeyboardInterrupt."""
    outcomes: list[object] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(isolate(throw, KeyboardInterrupt()))
    )

    thread.start()
    thread.join()

    (outcome,) = outcomes
    assert isinstance(outcome, Failure)


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (MuteError(), "MuteError (whose text cannot be shown)"),
    ],
)
def test_a_failure_can_always_be_shown(error: Exception, summary: str) -> None:
    """The summary never raises, even if the error's own text does."""
    assert Failure(error).summary == summary


def test_only_the_isolation_catches_everything() -> None:
    """Any other handler as broad as this one passes on what it caught."""
    # Folders with a dot in front are environments, whose libraries are not ours.
    sources = list(ROOT.glob("[!.]*/**/*.py"))

    found = {path.name for path in sources if swallows_everything(path)}

    assert len(sources) > 300
    assert found == {"isolation.py"}


def swallows_everything(path: Path) -> bool:
    text = path.read_text("utf-8")
    if "Exception" not in text and "except:" not in text:
        return False
    return any(
        isinstance(node, ast.ExceptHandler)
        and (node.type is None or "Exception" in names(node.type))
        and not isinstance(node.body[-1], ast.Raise)
        for node in ast.walk(parsed(path))
    )


def names(expression: ast.expr) -> set[str]:
    found = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    return {name.replace("BaseException", "Exception") for name in found}


def test_a_failure_names_the_line_that_raised() -> None:
    """
    A message like `KeyError: 'rows'` would say nothing without the place in the plugin.
    """
    options: dict[str, int] = {}

    failure = isolate(lambda: options["rows"])

    assert isinstance(failure, Failure)
    assert failure.place.startswith(__file__)
    assert isolate(int, "x").place == ""  # type: ignore[union-attr]
