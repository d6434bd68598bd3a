"""The measures of the structure, on small sources and objects."""

import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_testing.structure.calls import Called, CallRecorder, moves
from hookline_testing.structure.definitions import definitions, num_fields
from hookline_testing.structure.figures import by_feature
from hookline_testing.structure.forms import Forms
from hookline_testing.structure.imports import circles, closure
from hookline_testing.structure.sources import Sources, read_sources

FILES = {
    "__init__.py": "from hookfake.b import B\n",
    "a.py": "import hookfake.b\ndef f():\n    import hookfake.lazy\n",
    "b.py": "import sys\nfrom hookfake import c\nfrom . import c as d\n",
    "c.py": "import typing\nif typing.TYPE_CHECKING:\n    import hookfake.a\n",
    "lazy.py": "from hookfake.circle import x\n",
    "circle.py": "try:\n    from hookfake.lazy import y\nfinally:\n    y = 1\n",
    "types.py": (
        "class Takes(Protocol):\n    def take(self, x): ...\n    def end(self): ...\n"
        "class Good:\n    a: int = 1\n    b: ClassVar[int]\n"
        "    def take(self, x): ...\n    def end(self): ...\n"
        "class Other:\n    def take(self, y): ...\n    def end(self): ...\n"
        "async def take(): ...\n"
    ),
}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """A small import package."""
    folder = tmp_path / "core/src/hookfake"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return read_sources(tmp_path)


def names(sources: Sources, *roots: str, with_lazy: bool = False) -> set[str]:
    read = closure(sources, roots, with_lazy=with_lazy)
    return {module.name.removeprefix("hookfake.") for module in read}


def test_closure_has_what_is_named_in_imports(sources: Sources) -> None:
    """Not packages around it, nor what only types or functions need."""
    assert names(sources, "hookfake.a") == {"a", "b", "c"}


def test_lazy_closure_has_imports_of_functions(sources: Sources) -> None:
    """With what these import in turn."""
    lazily = names(sources, "hookfake.a", with_lazy=True)

    assert lazily == {"a", "b", "c", "lazy", "circle"}


def test_circles_are_of_imports_at_import_time(sources: Sources) -> None:
    """Only modules that import one another when they are imported are a circle."""
    assert circles(sources) == [["hookfake.circle", "hookfake.lazy"]]


def test_fields_are_the_own_ones(sources: Sources) -> None:
    """Methods and variables of the class are no fields."""
    assert num_fields(sources.values(), "Good") == 1
    with pytest.raises(LookupError, match="0 classes are named Missing"):
        num_fields(sources.values(), "Missing")


def test_definitions_of_protocols_are_told_apart(sources: Sources) -> None:
    """A Protocol's method has its parameters, in a class with all its members."""
    assert definitions(sources.values(), "take") == (4, 2)
    assert definitions(sources.values(), "end") == (3, 0)


def test_moves_are_counted_between_files() -> None:
    """A call inside of the same file is no move."""
    files = ("a", "a", "b", "a", "a")

    assert moves([Called(file, str(at)) for at, file in enumerate(files)]) == 2


def test_first_feature_that_fits_gets_a_call() -> None:
    """Features without calls count as 0."""
    gate, other = Called("x/grammar_gate.py", "Gate.take"), Called("x/step.py", "f")
    calls = Counter({gate: 3, other: 9})
    features = {"grammars": ["grammar"], "gates": ["gate"]}

    assert by_feature(calls, features) == {"grammars": 3, "gates": 0}


def test_recorder_sees_our_calls_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last function, and not those of a thread that is not to be seen."""
    recorder = CallRecorder(Path(__file__).parents[1])
    monkeypatch.setattr(recorder, "_outside", ())
    previous = sys.getprofile()
    recorder.watch()
    try:
        recorder.record(until=Called(__file__, "last"))
        other = threading.Thread(target=first, name="other")
        other.start()
        other.join()
        with recorder.unseen():
            first()
        last()
        first()
        calls = recorder.stop()
    finally:
        recorder.remove()
        sys.setprofile(previous)

    assert calls["other"] == [Called(__file__, "first")]
    assert calls["MainThread"] == [Called(__file__, "last")]


def first() -> None:
    """Does nothing."""


def last() -> None:
    """Does nothing."""


@dataclass
class Foreign:
    """Not a type of ours."""

    tokens: list[int]


def test_forms_are_types_of_ours_with_the_prompt_in_a_field() -> None:
    """Also inside of collections, arrays and other objects."""
    forms = Forms("the prompt", [5, 6, 7])
    array = np.array([[1, 5, 6, 7, 0]], np.int32)
    request = GenerateRequest(prompt_token_ids=[5, 6, 7], params=SamplingParams())

    forms.look([request])
    forms.look(Foreign([5, 6, 7]))
    forms.look(SamplingParams(stop=("prompt",)))

    assert forms.found == {"hookline.request.GenerateRequest": "prompt_token_ids"}
    assert forms._carries(array, 0)
