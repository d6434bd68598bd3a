"""Loads the extensions that a configuration needs, and no others."""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from hookline.config.engine import EngineConfig
from hookline.config.extensions import (
    DRAFTING,
    FAIR,
    GRAMMARS,
    KV_TRANSFER,
    KV_TRANSFER_OPTION,
    OPTION,
    PIPELINE,
    POOLER_OPTION,
    SPECULATIVE_OPTION,
    STRUCTURED_OUTPUTS_OPTION,
)
from hookline.config.model import Convert, Runner
from hookline.exceptions import ConfigError
from hookline.frozen import EMPTY, frozen_json, frozen_map
from hookline.model_description import find_folder
from hookline.payloads import EngineFacts, ExtensionContext, ExtensionFacts
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import EXTENSION
from hookline.pooling import POOLING
from hookline_registry import installed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCapabilities:
    """Capabilities of an executor for extensions and logits processors.

    Attributes:
        hidden_states: Whether it has the model's hidden states.
        draft_trees: Whether it verifies trees of drafts, not only chains.
        logits: Whether it has logits, which logits processors can change.
    """

    hidden_states: bool = False
    draft_trees: bool = False
    logits: bool = False


_ALL = ExecutorCapabilities(hidden_states=True, draft_trees=True, logits=True)


@dataclass(frozen=True, slots=True)
class _Need:
    """An extension that a configuration needs.

    Attributes:
        name: Its name.
        options: Its section of the configuration.
        option: The command's option, for errors.
        is_optional: Whether the engine does without it if it is not installed.
        distribution: What it belongs to, for the error if it is not installed; empty if
            that is not known.
    """

    name: str
    options: Mapping[str, object]
    option: str
    is_optional: bool = False
    distribution: str = ""


def load_extensions(
    config: EngineConfig,
    *,
    capabilities: ExecutorCapabilities = _ALL,
    is_rank: bool = False,
    only: Collection[str] | None = None,
) -> dict[str, object]:
    """Makes the extensions of an engine or of a rank, by their names.

    Args:
        config: The engine's configuration.
        capabilities: Capabilities of the executor.
        is_rank: Whether this is a rank in a process of its own.
        only: Names of the extensions to make, if they are needed; None makes all.

    Raises:
        ConfigError: An extension is unknown or broken, or an option is invalid.
        ModelLoadError: The model's description is missing or damaged.
    """
    found = {}
    for need in _needs(config):
        if only is not None and need.name not in only:
            continue
        if not _is_installed(need.name):
            if need.is_optional:
                continue
            if need.distribution:
                raise ConfigError(
                    need.option,
                    f"belongs to {need.distribution}, which is not installed (pip "
                    f"install {need.distribution})",
                )
        context = ExtensionContext(
            config=deepcopy(config),  # its maps can be changed
            options=frozen_json(need.options),
            has_logits=capabilities.logits,
            has_hidden_states=capabilities.hidden_states,
            has_draft_trees=capabilities.draft_trees,
            is_rank=is_rank,
        )
        made = call_plugin(EXTENSION, need.name, context, option=need.option)
        if made is not None:
            found[need.name] = made
    return found


def typed_facts(facts: EngineFacts) -> EngineFacts:
    """Returns an engine's facts with its extensions' sections as objects of their own.

    They come from other processes as plain data.

    Raises:
        ConfigError: An extension is unknown here, or broken.
    """
    plain = {
        name: section
        for name, section in facts.sections.items()
        if isinstance(section, Mapping | list)
    }
    if not plain:
        return replace(facts, sections=frozen_map(facts.sections))
    typed = {
        name: call_plugin(
            EXTENSION,
            name,
            ExtensionFacts(section=section),
            option=name,
            hook="create_extension_facts",
        )
        for name, section in plain.items()
    }
    return replace(facts, sections=frozen_map({**facts.sections, **typed}))


def _needs(config: EngineConfig) -> Iterator[_Need]:
    if config.speculative is not None:  # the first: others change its drafts
        yield _Need(
            DRAFTING,
            config.speculative,
            SPECULATIVE_OPTION,
            distribution="hookline-drafting",
        )
    if config.kv_transfer is not None:  # its gate comes first
        yield _Need(
            KV_TRANSFER,
            config.kv_transfer,
            KV_TRANSFER_OPTION,
            distribution="hookline-kv-transfer",
        )
    if _embeds(config):
        yield _Need(POOLING, config.pooler or EMPTY, POOLER_OPTION)
    backend = config.structured_outputs.get("backend", "auto")
    if backend != "none":
        yield _Need(
            GRAMMARS,
            config.structured_outputs,
            STRUCTURED_OUTPUTS_OPTION,
            is_optional=backend == "auto",
        )
    if config.scheduler.is_fair:
        yield _Need(FAIR, EMPTY, "scheduling-policy", distribution="hookline-fair")
    if config.parallel.pipeline_parallel_size > 1:
        yield _Need(
            PIPELINE, EMPTY, "pipeline-parallel-size", distribution="hookline-ranks"
        )
    for name, options in config.extensions.items():
        yield _Need(name, options, OPTION)


def _is_installed(name: str) -> bool:
    return any(each.name == name for each in installed(EXTENSION.group))


def _embeds(config: EngineConfig) -> bool:
    """Whether options or the model's folder may ask for embeddings."""
    model = config.model
    if config.pooler is not None or model.runner is Runner.POOLING:
        return True
    if model.convert is not Convert.AUTO or model.runner is not Runner.AUTO:
        return model.convert is Convert.EMBED
    return (find_folder(model.model) / "modules.json").is_file()
