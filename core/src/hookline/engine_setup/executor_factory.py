"""Factories of executors, the values of the entry-point group `hookline.executors`."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext, MakeRanks
from hookline.exceptions import ConfigError
from hookline.plugin_loading.extensions import ExecutorCapabilities
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import EXECUTOR
from hookline.startup_timer import StartupTimer
from hookline_registry import RegistryError, UnknownPluginError

RANKS = "mp"
"""Name of the executor that divides a model among processes."""
_USUAL = {
    RANKS: (
        "hookline-ranks",
        ", which tensor-parallel-size and pipeline-parallel-size need,",
    ),
    "uniproc": ("hookline-models", ", which loads and runs models,"),
}
"""Executors that a configuration implies: their distributions, and what needs them."""

RUNS_MODEL = ExecutorCapabilities(hidden_states=True, draft_trees=True, logits=True)
"""Capabilities of executors that compute with workers."""


def _as_given(config: EngineConfig, _timer: StartupTimer) -> EngineConfig:
    return config


@dataclass(frozen=True, slots=True)
class ExecutorFactory:
    """Creates executors of one kind.

    Attributes:
        create: Builds an executor with its model loaded and its KV cache allocated. May
            raise `ModelLoadError` or `ConfigError`.
        capabilities: Capabilities of the executors.
        has_processes: Its workers are processes of their own. They load the plugins
            themselves: the context has none.
        make_single_rank: Makes the context of one of its ranks that is on its own, for
            the trial that compiles kernels; None if it divides no model.
        resolve: Returns the configuration with the defaults of the device that runs the
            model, before anything is made of it; may import what the executor needs,
            and raise `ConfigError`.
    """

    create: Callable[[ExecutorContext], Executor]
    capabilities: ExecutorCapabilities = field(default_factory=ExecutorCapabilities)
    has_processes: bool = False
    make_single_rank: MakeRanks | None = None
    resolve: Callable[[EngineConfig, StartupTimer], EngineConfig] = _as_given

    def __call__(self, context: ExecutorContext) -> Executor:
        return self.create(context)


AdaptFactory = Callable[[ExecutorFactory], ExecutorFactory]
"""Returns a factory of executors that do more than those of the one given."""


def load_executor_factory(name: str) -> ExecutorFactory:
    """Imports the executor factory of that name, and no other.

    Raises:
        ConfigError: No such executor is installed, or it cannot be imported.
    """
    try:
        factory = hook_of(EXECUTOR, name)()
    except UnknownPluginError as error:
        if name not in _USUAL:
            raise ConfigError("executor", str(error)) from error
        distribution, need = _USUAL[name]
        raise ConfigError(
            "executor",
            f"{name}{need} belongs to {distribution}, which is not installed "
            f"(pip install {distribution})",
        ) from error
    except RegistryError as error:
        raise ConfigError("executor", str(error)) from error
    if not isinstance(factory, ExecutorFactory):
        raise ConfigError("executor", f"{name!r} is not an ExecutorFactory")
    return factory
