"""Which options each machine has for itself, and which all machines share."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from hookline.config import EngineConfig
from hookline.config.options import ConfigOption, options_of
from hookline.frozen import plain
from hookline_cluster.config.cluster import ClusterConfig

T = TypeVar("T")
_SECTIONS = "sections"

LOCAL_FLAGS = frozenset(
    {
        *("model", "tokenizer", "record", "flight-recorder-bytes"),
        *("device", "threads"),
        *("num-kv-blocks", "kv-cache-memory", "kv-cache-prefault"),
        *("gpu-memory-utilization", "serve-while-compiling"),
        *("data-parallel-size-local", "data-parallel-start-rank"),
        *("data-parallel-address", "data-parallel-rpc-port"),
        *("data-parallel-secret-file", "data-parallel-join-timeout"),
        *("data-parallel-backend", "ray-address", "data-parallel-rank"),
        *("data-parallel-external-lb", "data-parallel-hybrid-lb"),
    }
)
"""Options that each machine has for itself, or else the head node's."""

_OF_LOGGERS = frozenset(
    {"stat-logger", "stat-logger-option", "page-wait-seconds", "observer-process"}
)
"""Options that mean nothing on other machines, where no logger runs."""


def shared_options(config: EngineConfig) -> dict[str, str]:
    """Returns all options that were given and concern all machines, as JSON by flag."""
    return {
        each.flag: _json(_value(config, each))
        for each in options_of(EngineConfig)
        if each.flag not in LOCAL_FLAGS | _OF_LOGGERS and _is_given(config, each)
    }


def contradiction(head: EngineConfig, given: Mapping[str, str]) -> str | None:
    """Returns the first option that another machine and the head node have different.

    Args:
        head: The head node's configuration.
        given: The other machine's shared options.
    """
    own = {each.flag: each for each in options_of(EngineConfig)}
    for flag, theirs in given.items():
        ours = _json(_value(head, own[flag])) if flag in own else "unknown"
        if ours != theirs:
            return f"--{flag} is {theirs} there and {ours} on the head node"
    return None


def localized(head: EngineConfig, local: EngineConfig) -> EngineConfig:
    """Returns the head node's configuration of an engine with this machine's options.

    The name of the model in the API stays the head node's, whatever its folder is here.
    """
    cluster = dataclasses.replace(
        ClusterConfig.of(head), machines=ClusterConfig.of(local).machines
    )
    given = list(_given_here(local))
    own = {
        each.path[1]: local.sections[each.path[1]]
        for each in given
        if _is_in_section(each)
    }
    made = dataclasses.replace(
        head,
        sections=local.sections | head.sections | own | {ClusterConfig.key: cluster},
        model=dataclasses.replace(head.model, served_model_name=head.model.served_name),
    )
    for each in given:
        if not _is_in_section(each):
            made = _replaced(made, each.path, _value(local, each))
    return made


def _given_here(local: EngineConfig) -> Iterator[ConfigOption]:
    for each in options_of(EngineConfig):
        if each.flag in LOCAL_FLAGS and _is_given(local, each):
            yield each


def _is_in_section(option: ConfigOption) -> bool:
    """Whether an option is that of a distribution's section, which is taken whole."""
    return option.path[0] == _SECTIONS


def _is_given(config: EngineConfig, each: ConfigOption) -> bool:
    return _value(config, each) != each.default


def _value(config: EngineConfig, each: ConfigOption) -> object:
    found: object = config
    for name in each.path:
        if not isinstance(found, Mapping):
            found = getattr(found, name)
        elif name in found:  # a section, which is plain data if it was sent
            found = found[name]
        else:
            return each.default
    return found


def _replaced(config: T, path: Sequence[str], value: object) -> T:
    name, *rest = path
    if rest:
        value = _replaced(getattr(config, name), rest, value)
    return dataclasses.replace(config, **{name: value})  # type: ignore[type-var]


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=plain, order="deterministic").decode()
