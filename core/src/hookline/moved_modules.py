"""Names that a package finds on first access (PEP 562), also those that have moved.

Old names of documented modules work for one more release.
"""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED: Mapping[str, str] = {
    "hookline.config.kv_transfer": "hookline_kv_transfer.config",
    "hookline.config.kv_events": "hookline_kv_events.config",
    "hookline.config.machines": "hookline_cluster.config.machines",
    "hookline.json_options": "hookline.config.readers",
    "hookline.core.recording": "hookline_recording.recording",
    "hookline.kv_transfer": "hookline_kv_transfer",
    "hookline.metrics": "hookline_metrics",
    "hookline.config.speculative": "hookline_drafting.config",
    "hookline.stats.expert_stats": "hookline_metrics.expert_stats",
    "hookline.stats.grammars": "hookline_metrics.grammars",
    "hookline.plugin_loading.method_options": "hookline_drafting.method_options",
    "hookline.models.adapt": "hookline_kernels.modules",
    "hookline.models.attention": "hookline_models.forwards.attention",
    "hookline.models.family": "hookline_models.family",
    "hookline.models.layer_span": "hookline_models.forwards.layer_span",
    "hookline.models.model_part": "hookline_models.checkpoints.model_part",
    "hookline.models.quantized_layer": "hookline_kernels.modules.quantized_layer",
    "hookline.quantization": "hookline_models.quantization",
    "hookline.worker.loading": "hookline_models.forwards",
    "hookline.worker.sampling.sampled_positions": (
        "hookline.worker.sampling.logits_processor"
    ),
    "hookline.llm": "hookline_offline.llm",
    "hookline.reply_parsing": "hookline_server.reply_parsing",
    "hookline.spec_decode": "hookline_drafting",
    "hookline.structured": "hookline_grammars",
}
"""New name of each module; those inside it have moved along."""

MOVED_NAMES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "hookline.config": {
        "hookline_drafting": ("SpeculativeConfig",),
        "hookline_kv_transfer": ("KVRole", "KVTransferConfig", "LoadFailurePolicy"),
        "hookline_simulated.config": ("SimulationConfig",),
    },
    "hookline.front_end_parts": {
        "hookline_metrics.front_end_parts": (
            "ConnectionStats",
            "EngineLink",
            "EventLoopStats",
            "LinkStats",
            "LogStats",
            "ObserverStats",
            "ParserFailures",
            "ParserKind",
            "ResponseEviction",
            "ResponseStoreStats",
            "ScalingCause",
            "ScalingStats",
            "ServerAddress",
            "TextQueueName",
            "TextQueueStats",
            "TextStats",
            "UnknownFieldStats",
        ),
    },
    "hookline.payloads": {
        "hookline_models.quantization": ("QuantizationContext",),
        "hookline_drafting": ("ProposerContext", "TrainingContext", "TrainingReport"),
        "hookline_kv_transfer": ("ConnectorContext",),
    },
    "hookline.stats": {
        "hookline.config.extensions": ("GRAMMARS",),
        "hookline.stats.finished_request": (
            "FinishedGroup",
            "FinishedRequest",
            "MAX_STALLS",
            "RequestTimes",
        ),
        "hookline.stats.iteration_stats": (
            "FirstScheduled",
            "FirstToken",
            "IterationStats",
        ),
        "hookline.stats.prefix_cache": (
            "BlockEviction",
            "HitRateWindow",
            "PrefixCacheCounts",
        ),
        "hookline.stats.scheduler_stats": (
            "MOST_TENANTS",
            "Residue",
            "SchedulerStats",
            "TenantStats",
        ),
        "hookline.stats.step_work": ("NO_RANKS", "NO_THREADS", "RankUse", "ThreadUse"),
        "hookline_metrics.connector_events": (
            "ConnectorEvent",
            "ConnectorLookup",
            "MOST_EVENTS",
            "TierAllocation",
            "TierEvent",
            "TierLookup",
            "TierMove",
        ),
        "hookline_metrics.expert_stats": ("ExpertStats",),
        "hookline_metrics.grammars": (
            "GRAMMAR_NEWS",
            "GRAMMAR_STATS",
            "GRAMMAR_USE",
            "GrammarCompiling",
            "GrammarNews",
            "GrammarStats",
            "GrammarUse",
        ),
        "hookline_metrics.transfer_stats": (
            "KVLoad",
            "MOST_TIERS",
            "TierStats",
            "TransferStats",
        ),
    },
}
"""Names that have left a module, by that module and by the modules that have them."""


def new_name(name: str) -> str | None:
    """Returns the new name of a module, or None if it has not moved."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return None


def moved_name(module: str, name: str) -> object:
    """Returns what has left a module: for its `__getattr__`.

    Raises:
        AttributeError: The module never had it.
    """
    homes = MOVED_NAMES.get(module, {})
    if (
        new := next((new for new, names in homes.items() if name in names), None)
    ) is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        f"{module}.{name} has moved to {new}; the old name will go with the next "
        "release",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(importlib.import_module(new), name)


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]]
) -> Callable[[str], object]:
    """Returns the package's `__getattr__`.

    Args:
        package: Its name.
        homes: Its names, by the modules that define them.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if (module := modules.get(name)) is None:
            return moved_name(package, name)
        return getattr(importlib.import_module(module), name)

    return find


class _AliasLoader(Loader):
    """Loads the module of the new name in the place of the old one."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(
            f"{spec.name} has moved to {self._new}; the old name will go with the next "
            "release",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(self._new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has been executed under its new name; it keeps its own spec."""
        module.__spec__ = self._own_spec


class MovedModules(MetaPathFinder):
    """Finds modules by the names that they had before they moved."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the new name says where
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Returns a spec that loads the module of the new name; else None."""
        new = new_name(fullname) if fullname.startswith("hookline.") else None
        return None if new is None else ModuleSpec(fullname, _AliasLoader(new))


def find_moved_modules() -> None:
    """Lets old names be imported; may be called twice.

    The finder comes first, or modules inside of a package that has moved would be
    loaded a second time, from its folder.
    """
    if not any(isinstance(each, MovedModules) for each in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
