"""The executor that runs the model in the process and thread that it is called from."""

import gc
from collections.abc import Iterable

import numpy as np
import torch

from hookline.config import EngineConfig, Kernels
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import describe
from hookline.models.loading import load_model
from hookline.models.probe import probe
from hookline.sampling_params import SamplingParams
from hookline.scheduler.plan import AdmittedSequence, StepPlan
from hookline.worker.allocator import keep_freed_memory
from hookline.worker.executor import DeferredStep, ModelShape
from hookline.worker.forward import Forward, choose_forward
from hookline.worker.input_batch import InputBatch
from hookline.worker.memory import count_blocks
from hookline.worker.model_runner import ModelRunner
from hookline.worker.page_warmer import PageWarmer
from hookline.worker.paged_cache import PagedCache
from hookline.worker.sampler import Sampler
from hookline.worker.sampling_state import SamplingState
from hookline.worker.startup_timer import StartupTimer
from hookline_kernels import ChosenAttention
from hookline_kernels.sampling import ChosenSampling, choose_sampling


class UniprocExecutor:
    """A model, its KV cache and its runner on this machine's processors."""

    def __init__(self, config: EngineConfig, timer: StartupTimer) -> None:
        """Loads the model and sizes its cache.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option does not fit the model or the machine.
        """
        keep_freed_memory()
        if config.executor.threads is not None:
            torch.set_num_threads(config.executor.threads)
        name = config.model.model
        with timer.phase("read config"):
            description = describe(config.model)
        max_model_len = description.max_model_len(config.model.max_model_len)
        with timer.phase("load weights"):
            model = load_model(config.model, description, max_model_len)
        vocab_size = model.config.get_text_config().vocab_size
        slot = AttentionSlot.install(model)
        with timer.phase("probe"):
            probed = probe(name, model, slot, vocab_size)
        layers, dtype = probed.layers, model.dtype
        architecture, cost = type(model).__name__, cost_of(model, layers)
        may_compile = config.executor.kernels is not Kernels.TORCH
        block_size = config.cache.block_size
        with timer.phase("adapt model"):
            forward = choose_forward(
                model,
                probed,
                slot,
                block_size=block_size,
                max_model_len=max_model_len,
                may_compile=may_compile,
            )
        del model  # what the forward pass does not need goes
        chosen = choose_sampling(dtype, may_compile=may_compile)
        seqs = config.scheduler.max_num_seqs

        def new_cache(num_blocks: int) -> PagedCache:
            return PagedCache(
                layers, num_blocks, block_size, dtype, may_compile=may_compile
            )

        def runner(cache: PagedCache, tokens: int) -> ModelRunner:
            forward.bind(cache)
            batch = InputBatch(seqs, tokens, block_size)
            state = SamplingState(seqs, vocab_size, config.model.seed)
            return ModelRunner(forward, batch, state, Sampler(batch, state, chosen))

        def profile() -> None:
            budget = config.scheduler.max_num_batched_tokens
            tokens = min(budget, max_model_len - 1)
            blocks = -(-(tokens + 1) // block_size)
            with timer.phase("profile memory"):
                prompt = _one_prompt(tokens, blocks)
                runner(new_cache(blocks), tokens + 1).execute(prompt)

        num_blocks = count_blocks(
            config.cache,
            config.scheduler,
            layers,
            element_size=dtype.itemsize,
            max_model_len=max_model_len,
            profile=profile,
        )
        with timer.phase("allocate KV cache"):
            cache = new_cache(num_blocks)
            self._runner = runner(cache, max_model_len)
        self._warmer = PageWarmer([*cache.keys, *cache.values])
        self.shape = ModelShape(
            architecture=architecture,
            dtype=str(dtype).removeprefix("torch."),
            vocab_size=vocab_size,
            max_model_len=max_model_len,
            num_kv_blocks=num_blocks,
            eos_token_ids=description.eos_token_ids,
            cost=cost,
            kernels=_told(forward, cache.attention.values(), chosen),
        )
        gc.collect()
        gc.freeze()  # what is here now stays; collections need not walk over it

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._runner.execute, plan)

    def close(self) -> None:
        """Drops the model and its cache."""
        self._warmer.close()
        gc.unfreeze()
        del self._runner


def _told(
    forward: Forward, attention: Iterable[ChosenAttention], sampling: ChosenSampling
) -> str:
    """What computes, in a line; whatever is not the quickest with its reason."""
    parts = [(forward.name, forward.reason)]
    parts += [(f"{each.name} attention", each.reason) for each in attention]
    parts.append((f"{sampling.name} sampling", sampling.reason))
    words = [f"{name} ({reason})" if reason else name for name, reason in parts]
    return ", ".join(dict.fromkeys(words))


def _one_prompt(num_tokens: int, num_blocks: int) -> StepPlan:
    """A step that computes one prompt as long as a step may be."""
    sequence = AdmittedSequence(
        request_id=0,
        token_ids=np.zeros(num_tokens, np.int32).tolist(),
        num_prompt_tokens=num_tokens,
        num_computed_tokens=0,
        block_ids=range(num_blocks),
        params=SamplingParams(temperature=0.0),
        eos_token_ids=(),
        bad_words_token_ids=(),
    )
    return StepPlan(
        step=0, admitted=[sequence], request_ids=[0], num_tokens=[num_tokens]
    )
