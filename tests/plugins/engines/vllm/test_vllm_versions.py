"""The shapes of three versions of vLLM: the signatures and fields that are relied on.

`vllm_shapes.json` was read from their distributions; `=` is after what has a default.
"""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookline_testing import fake_vllm
from hookline_testing.fake_vllm import plan
from hookline_vllm.attachment import Attachment
from hookline_vllm.general import wrap_processor
from hookline_vllm.scheduling import METHODS, telling, wrap_choice
from hookline_vllm.shapes import ITERATION, OUTPUT, REQUEST, SCHEDULER, need
from hookline_vllm.stat_logger import make_stat_logger

SHAPES = json.loads(Path(__file__).with_name("vllm_shapes.json").read_text("utf-8"))
_FAKES = (
    *("EngineCoreRequest", "EngineCoreOutput", "EngineCoreEvent", "PrefillStats"),
    *("SchedulerStats", "PrefixCacheStats", "IterationStats", "PromptTokenStats"),
    "FinishedRequestStats",
)
VERSIONS = pytest.mark.parametrize("version", SHAPES)


def with_signatures(version: str, name: str) -> Any:
    """Returns a class whose methods have a version's parameters, and return them."""
    methods = {}
    for method, parameters in SHAPES[version]["methods"][name].items():
        told = [each.replace("=", "=None") for each in parameters]
        names = [each.rstrip("=") for each in parameters]
        result = "None" if method == "__init__" else f"[{', '.join(names)}]"
        made: dict[str, Any] = {}
        exec(f"def {method}({', '.join(['self', *told])}): return {result}", made)  # noqa: S102
        methods[method] = made[method]
    return type(name, (), methods)


def arguments(version: str, name: str, method: str) -> list[str]:
    """Returns the names of a method's parameters, without marks of defaults."""
    parameters = SHAPES[version]["methods"][name][method]
    return [each.rstrip("=") for each in parameters]


@VERSIONS
def test_all_fields_are_there(version: str) -> None:
    """Each name that a tier needs, and each of the fakes of the other tests."""
    fields = SHAPES[version]["fields"]
    for kind, names in (
        ("EngineCoreRequest", REQUEST),
        ("EngineCoreOutput", OUTPUT),
        ("SchedulerStats", SCHEDULER),
        ("IterationStats", ITERATION),
    ):
        need(SimpleNamespace(**dict.fromkeys(fields[kind])), *names)
    for kind in _FAKES:
        faked = {each.name for each in dataclasses.fields(getattr(fake_vllm, kind))}
        assert faked <= {*fields[kind]}, kind
    planned = plan({}, new={"a": 0})
    for kind, made in (
        ("SchedulerOutput", planned),
        ("CachedRequestData", planned.scheduled_cached_reqs),
        ("NewRequestData", planned.scheduled_new_reqs[0]),
    ):
        assert vars(made).keys() - {"preempts"} <= {*fields[kind]}, kind


@VERSIONS
@pytest.mark.parametrize("by_name", [False, True])
def test_wraps_pass_every_argument_on(version: str, by_name: bool) -> None:
    """Whatever their number, and whether they are passed by name."""
    processor = with_signatures(version, "OutputProcessor")
    wrap_processor(processor, Attachment())
    for method in ("add_request", "process_outputs", "abort_requests"):
        names = arguments(version, "OutputProcessor", method)
        values = dict.fromkeys(names, method)
        call = getattr(processor(), method)

        result = call(**values) if by_name else call(*values.values())

        assert result == [method] * len(names)


@VERSIONS
def test_scheduler_is_subclassed_and_keeps_its_signatures(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does comes first, and unchanged."""
    heard: list[str] = []

    def hear(what: str, *_: object) -> None:
        heard.append(what)

    guard = SimpleNamespace(
        tell_late=hear,
        planned=lambda *_: hear("planned"),
        updated=lambda *_: hear("updated"),
        finished=lambda _: hear("finished"),
        catch_up=lambda: hear("late"),
        catch_up_in_time=lambda: hear("in time"),
    )
    monkeypatch.setattr("hookline_vllm.scheduling.Guarded", lambda _: guard)
    base, config = with_signatures(version, "Scheduler"), SchedulerConfig(version)
    wrap_choice(config.kind)
    config.base = base
    made = config.made()()
    assert type(made) is telling(base)
    request = SimpleNamespace(num_computed_tokens=0)
    for method in METHODS:
        values = [request for _ in arguments(version, "Scheduler", method)]

        assert getattr(made, method)(*values) == values

    told = ["planned", "updated", "preempted", "added", "finished", "close"]
    assert heard == [*told, "late", "in time", "late"]


class SchedulerConfig:
    """A version's, which chooses a base."""

    def __init__(self, version: str) -> None:
        self.kind = with_signatures(version, "SchedulerConfig")
        self.kind.get_scheduler_cls = lambda _: self.base
        self.base: type = object

    def made(self) -> Any:
        return self.kind().get_scheduler_cls()


@VERSIONS
def test_stat_logger_has_every_method(version: str) -> None:
    """vLLM calls them by position or by name; one that it lacks is not in its way."""
    attachment = Attachment()
    base = with_signatures(version, "AggregateStatLoggerBase")
    logger = make_stat_logger(base, attachment)(vllm_config=None, engine_indexes=[0])
    record = arguments(version, "AggregateStatLoggerBase", "record")
    logger.record(**dict.fromkeys(record))
    logger.record(None, None, mm_cache_stats=None, engine_idx=0)
    logger.record_sleep_state(1, 2)
    logger.log()

    kinds = [type(attachment.inbox.pop()).__name__ for _ in range(3)]
    assert kinds == ["Recorded", "Recorded", "Slept"]
