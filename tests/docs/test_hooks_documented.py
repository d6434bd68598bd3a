"""Hooks, payloads and plugins agree with docs/hooks.md and with one another."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_args, get_type_hints

import msgspec
import pytest

from hookline import hookspecs
from hookline.config import EngineConfig
from hookline.engine.scheduler.scheduler import Scheduler
from hookline.pages import PageEvent, PageRequest, PageResponse
from hookline.payloads import EngineFacts, EngineStopped, LoggerContext
from hookline.plugins.kinds import (
    CONNECTOR,
    KINDS,
    LOGGER,
    PROPOSER,
    QUANTIZATION_METHOD,
)
from hookline_kv_events.config import KVEventsConfig, KVEventsSection
from hookline_metrics.front_end_parts import PARTS
from hookline_registry import InstalledPlugin, PluginRegistry, installed
from hookline_testing import RecordingLogger
from hookline_testing.hook_types import types_of
from hookline_testing.table_walk import for_each_row

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text("utf-8")
SECTIONS = {
    part.partition("\n")[0].strip(): part
    for part in re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
}
HOOKS: list[FunctionType] = [
    value
    for value in vars(hookspecs).values()
    if isinstance(value, FunctionType) and hasattr(value, "hookline_spec")
]
OPTIONS = {"otel": {"traces_endpoint": "http://127.0.0.1:9"}}
"""For the loggers that cannot be made without."""
CONFIGS = {
    "kv_events": EngineConfig(
        sections={
            "kv_events": KVEventsSection(
                publication=KVEventsConfig(
                    enable_kv_cache_events=True, endpoint="inproc://kv-events"
                )
            )
        }
    )
}
"""Likewise; what they make has to be stopped."""
KINDS_OF = {
    kind.group: kind for kind in (LOGGER, PROPOSER, CONNECTOR, QUANTIZATION_METHOD)
}
PLUGINS = [plugin for group in KINDS_OF for plugin in installed(group)]
CODE = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def name_of(value: object) -> str:
    return str(getattr(value, "__name__", getattr(value, "name", "")))


TYPES_ONLY = {
    "EngineConfig": EngineConfig,
    "EngineFacts": EngineFacts,
    "Scheduler": Scheduler,
}
"""Names that modules of payloads import for type checkers only."""


def fields_of(kind: type) -> list[str]:
    """Names of the public fields; none for anything but payloads and their parts."""
    known = (
        *("hookline.", "hookline_registry.", "hookline_metrics.front_end_parts"),
        "hookline_processes.logged_record",
    )
    if not kind.__module__.startswith(known):
        return []
    if kind.__module__.startswith(("hookline.kv_transfer", "hookline.spec_decode")):
        return []  # a connector's and a proposer's own, not loggers'
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return []


def parts_of(annotation: object) -> Iterator[type]:
    """Every class in an annotation, and in the annotations of its fields."""
    for inner in get_args(annotation):
        yield from parts_of(inner)
    if isinstance(annotation, type) and (names := fields_of(annotation)):
        yield annotation
        hints = get_type_hints(annotation, localns=TYPES_ONLY)
        for name in names:
            yield from parts_of(hints[name])


def payload_of(hook: FunctionType) -> type | None:
    """The class of the only argument, if there is one."""
    kinds = types_of(hook)
    kinds.pop("return")
    if not kinds:
        return None
    [payload] = kinds.values()
    assert isinstance(payload, type)
    return payload


def told_parts() -> list[type]:
    """The payloads' parts, without users' configuration."""
    payloads = {payload for hook in HOOKS if (payload := payload_of(hook))}
    tellers = payloads | set(PARTS.values())
    parts = {part for teller in tellers for part in parts_of(teller)}
    undescribed = (
        "hookline.config",
        "hookline.sampling_values",
        "hookline_kv_transfer.config",
        "hookline_drafting.config",
        "hookline.structured_outputs",
    )
    return sorted(
        (
            part
            for part in parts - payloads
            if not part.__module__.startswith(undescribed)
        ),
        key=name_of,
    )


@for_each_row("hook", HOOKS, ids=name_of)
def test_hook_is_documented(hook: FunctionType) -> None:
    """Every hook has a docstring, and a section with its signature; it has an example,
    or a kind whose template is one."""
    signature = f"{hook.__name__}({', '.join(inspect.signature(hook).parameters)})"

    section = SECTIONS[hook.__name__]

    assert hook.__doc__
    assert f"`{signature}`" in section
    has_template = hook.__name__ in {kind.hook for kind in KINDS}
    assert has_template or f"def {hook.__name__}(" in section
    assert f"](#{hook.__name__})" in PAGE


def test_every_section_is_of_a_hook_or_a_part() -> None:
    """A hook or part that is gone leaves no section behind."""
    known = {name_of(value) for value in (*HOOKS, *told_parts())}

    found = set(SECTIONS) - {"", "Hooks", "Parts of payloads"}

    assert found == known


@for_each_row("hook", HOOKS, ids=name_of)
def test_every_field_of_a_payload_is_documented(hook: FunctionType) -> None:
    """The hook's section names its payload and each field of it."""
    payload = payload_of(hook)
    section = SECTIONS[hook.__name__]
    if payload is None or payload is object:  # the plugin's base library has it
        return
    fields = [] if payload is EngineConfig else fields_of(payload)

    missing = [name for name in fields if f"\n- `{name}`: " not in section]

    assert f"`{payload.__name__}`" in section
    assert missing == []


@for_each_row("part", told_parts(), ids=name_of)
def test_every_field_of_a_part_is_documented(part: type) -> None:
    """Parts of payloads has sections that name each field."""
    section = SECTIONS[part.__name__]

    missing = [name for name in fields_of(part) if f"\n- `{name}`: " not in section]

    assert missing == []


@pytest.mark.parametrize("kind", [PageEvent, PageRequest, PageResponse], ids=name_of)
def test_pages_are_documented(kind: type) -> None:
    """What a page's handler takes and gives stands in the section of add_routes."""
    section = SECTIONS["add_routes"]

    assert f"`{kind.__name__}`" in section
    assert all(f"\n- `{name}`: " in section for name in fields_of(kind))


@pytest.mark.parametrize("source", CODE, ids=range(len(CODE)))
def test_examples_implement_real_hooks(source: str) -> None:
    """Each example runs, and the registry takes it as a plugin."""
    module = ModuleType("example")
    exec(compile(source, "docs/hooks.md", "exec"), module.__dict__)  # noqa: S102
    registry = PluginRegistry("hookline", hookspecs)

    registry.register(module, "example")

    assert_agrees(registry, "example", module)


def test_recording_logger_hears_everything() -> None:
    """The logger for tests implements each observing hook and no other."""
    registry = PluginRegistry("hookline", hookspecs)

    registry.register(RecordingLogger(), "recorder")

    assert set(registry.hooks_of("recorder")) == {
        hook.__name__
        for hook in HOOKS
        if not hook.__name__.startswith(("add_", "create_", "find_", "train_"))
        and hook.__name__ not in {kind.hook for kind in KINDS}
        and inspect.signature(hook).parameters  # else it asks, and tells nothing
    }


@pytest.mark.parametrize("plugin", PLUGINS, ids=name_of)
def test_plugin_agrees_with_the_specs(plugin: InstalledPlugin) -> None:
    """Every installed plugin names only real hooks and annotates them as the spec
    does, and so does the logger that it makes."""
    registry = PluginRegistry("hookline", hookspecs)

    name = registry.load(KINDS_OF[plugin.group], plugin.name)

    module = importlib.import_module(plugin.value.partition(":")[0])
    assert_agrees(registry, name, module)
    context = LoggerContext(
        name=plugin.name,
        config=CONFIGS.get(plugin.name, EngineConfig()),
        options=OPTIONS.get(plugin.name, {}),
    )
    if "create_stat_logger" in registry.hooks_of(name):
        made = registry.create(name, "create_stat_logger", context=context)
        assert made is not None
        registry.register(made, "made")
        assert_agrees(registry, "made", made)
        if plugin.name in CONFIGS:
            stopped = EngineStopped(engine_index=0, reason="test")
            registry.call_one("made", "engine_stopped", stopped=stopped)


def assert_agrees(registry: PluginRegistry, name: str, plugin: object) -> None:
    """Each hook's arguments are annotated as in the specification."""
    for hook in registry.hooks_of(name):
        implementation: Callable[..., object] = getattr(plugin, hook)
        spec = types_of(getattr(hookspecs, hook))
        found = inspect.get_annotations(
            getattr(implementation, "__func__", implementation), eval_str=True
        )
        returned = found.pop("return")
        for argument, kind in found.items():
            assert spec[argument] in {kind, object}, hook
        assert (returned is None) == (spec["return"] is None), hook
