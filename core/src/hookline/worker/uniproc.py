"""The executor that runs the model in the process and thread that it is called from."""

import gc
from collections.abc import Iterable

from hookline.config import EngineConfig, Kernels
from hookline.kv_transfer.connector import WorkerConnector
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import describe
from hookline.models.fingerprint import fingerprint_of
from hookline.models.loading import load_model
from hookline.models.probe import Probed, probe
from hookline.models.shared_weights import shared_weights
from hookline.plugin_loading.proposers import prepare_proposer
from hookline.spec_decode.proposer import (
    Proposer,
    wanted_features,
    wants_hidden_states,
)
from hookline.spec_decode.tree import tree_of
from hookline.step.model_shape import ModelShape
from hookline.step.plan import StepPlan
from hookline.worker.allocator import keep_freed_memory
from hookline.worker.drafting.draft_trees import arrays_for
from hookline.worker.executor import DeferredStep
from hookline.worker.forward import Forward, choose_forward
from hookline.worker.machine import Machine, choose_machine
from hookline.worker.memory import count_blocks
from hookline.worker.page_warmer import PageWarmer
from hookline.worker.paged_cache import PagedCache
from hookline.worker.profile import room_for_cache
from hookline.worker.runner_maker import RunnerMaker
from hookline.worker.startup_timer import StartupTimer
from hookline.worker.step_tensors import HostFeed
from hookline.worker.threads import leave_cores, take_threads
from hookline_kernels import ChosenAttention
from hookline_kernels.sampling import ChosenSampling, choose_sampling


class UniprocExecutor:
    """A model, its KV cache and its runner, on processors or a GPU of this machine."""

    def __init__(
        self,
        config: EngineConfig,
        timer: StartupTimer,
        machine: Machine | None = None,
        *,
        proposer: Proposer | None = None,
        connector: WorkerConnector | None = None,
    ) -> None:
        """Loads the model and sizes its cache.

        Args:
            config: Of the engine.
            timer: Measures the phases.
            machine: What to run on; by default what `config` asks for.
            proposer: Drafts, if `config` says how.
            connector: Moves KV, on this side, if `config` says which.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option does not fit the model or the machine.
        """
        machine = machine or choose_machine(config.executor)
        platform = machine.platform
        keep_freed_memory()
        take_threads(config.executor)
        name = config.model.model
        with timer.phase("read config"):
            description = describe(config.model)
        max_model_len = description.max_model_len(config.model.max_model_len)
        with timer.phase("load weights"):
            model = load_model(
                config.model, description, max_model_len, platform.device
            )
        vocab_size = model.config.get_text_config().vocab_size
        slot = AttentionSlot.install(model)
        with timer.phase("probe"):
            probed = probe(name, model, slot, vocab_size)
        dtype = model.dtype
        content = b"" if connector is None else fingerprint_of(model)
        architecture, cost = type(model).__name__, cost_of(model, probed.layers)
        leave_cores(config.executor, cost)
        may_compile = config.executor.kernels is not Kernels.TORCH
        tells_hidden = proposer is not None and wants_hidden_states(proposer)
        if proposer is not None and tells_hidden:
            with timer.phase("prepare proposer"):
                prepare_proposer(proposer, config, shared_weights(name, model))
        with timer.phase("adapt model"):
            forward = choose_forward(
                model,
                probed,
                slot,
                block_size=config.cache.block_size,
                max_model_len=max_model_len,
                may_compile=may_compile,
                platform=platform,
                tells_hidden=tells_hidden,
                feature_layers=wanted_features(proposer),
            )
        del model  # what the forward pass does not need goes
        maker = RunnerMaker(
            config=config,
            machine=machine,
            forward=forward,
            layers=probed.layers,
            dtype=dtype,
            vocab_size=vocab_size,
            max_model_len=max_model_len,
            sampling=choose_sampling(dtype, may_compile=may_compile, platform=platform),
            proposer=proposer,
            tree=arrays_for(
                tree_of(proposer), platform, [each.window for each in probed.attention]
            ),
            connector=connector,
            content=content,
        )

        def room() -> int:
            with timer.phase("profile memory"):
                return room_for_cache(maker)

        num_blocks = count_blocks(
            config.cache,
            config.scheduler,
            [*probed.layers, *maker.drafting.layers],
            element_size=dtype.itemsize,
            max_model_len=max_model_len,
            room=room,
        )
        without_graphs = ""
        with timer.phase("allocate KV cache"):
            cache = maker.cache(num_blocks)
            maker.bind_proposer(num_blocks)
            if platform.is_gpu:
                feed = maker.device_feed()
                forward = maker.graphed(feed) or forward
                without_graphs = maker.reason_without_graphs
                self._runner = maker.runner(forward, feed, cache, serves=True)
            else:
                host = HostFeed(has_tiles=_has_tiles(cache, probed), tree=maker.tree)
                self._runner = maker.runner(forward, host, cache, serves=True)
        self._warmer = None
        prefault = config.cache.kv_cache_prefault
        if prefault and platform.device.type == "cpu":
            self._warmer = PageWarmer([*cache.keys, *cache.values], prefault)
        self.shape = ModelShape(
            architecture=architecture,
            dtype=str(dtype).removeprefix("torch."),
            vocab_size=vocab_size,
            max_model_len=max_model_len,
            num_kv_blocks=num_blocks,
            eos_token_ids=description.eos_token_ids,
            cost=cost,
            kernels=_told(
                forward, cache.attention.values(), maker.sampling, without_graphs
            ),
            draft_tree=tree_of(proposer),
            kv_layout=self._runner.kv_layout,
        )
        gc.collect()
        gc.freeze()  # what is here now stays; collections need not walk over it

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._runner.execute, plan)

    def close(self) -> None:
        """Drops the model and its cache."""
        if self._warmer is not None:
            self._warmer.close()
        gc.unfreeze()
        self._runner.close()
        del self._runner


def _has_tiles(cache: PagedCache, probed: Probed) -> bool:
    """Whether several tokens of a sequence go by tiles in every layer."""
    is_capped = any(layer.softcap is not None for layer in probed.attention)
    return not is_capped and all(each.has_tiles for each in cache.attention.values())


def _told(
    forward: Forward,
    attention: Iterable[ChosenAttention],
    sampling: ChosenSampling,
    without_graphs: str,
) -> str:
    """What computes, in a line; whatever is not the quickest with its reason."""
    parts = [(forward.name, forward.reason)]
    parts += [(f"{each.name} attention", each.reason) for each in attention]
    parts.append((f"{sampling.name} sampling", sampling.reason))
    if without_graphs:
        parts.append(("no CUDA graphs", without_graphs))
    words = [f"{name} ({reason})" if reason else name for name, reason in parts]
    return ", ".join(dict.fromkeys(words))
