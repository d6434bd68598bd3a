"""The executor: a runner of steps on a device that computes nothing."""

import torch

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import StartedStep
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.model_runner import ModelRunner
from hookline.engine.worker.sampling.logits_processor import LogitsProcessorContext
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.engine.worker.step_sampling import StepSampling
from hookline.step import ModelShape, SleepLevel, StepPlan
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_kernels.runtime.gc_freeze import freeze_gc, unfreeze_gc
from hookline_kernels.runtime.stopwatch import HostStopwatch
from hookline_models.logits_processors import logits_processors
from hookline_null.device import NullFeed, NullForward, NullSampler, RandomTokens

CPU = torch.device("cpu")


class NullExecutor:
    """Prepares steps as for a GPU, which draws their tokens, and has them at once.

    Attributes:
        shape: The model that is not there.
    """

    pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def __init__(self, config: EngineConfig, shape: ModelShape) -> None:
        """Allocates the rows of the batch, and the buffers of its inputs.

        Raises:
            ConfigError: A plugin's logits processor cannot be created.
        """
        self.shape = shape
        scheduler, block_size = config.scheduler, config.cache.block_size
        rows, vocab_size = scheduler.max_num_seqs, shape.vocab_size
        context = LogitsProcessorContext(
            config=config, vocab_size=vocab_size, max_num_seqs=rows, device=CPU
        )
        batch = InputBatch(rows, shape.max_model_len, block_size)
        self._sampling = SamplingState(
            rows, vocab_size, config.model.seed, logits_processors(context)
        )
        feed = NullFeed(
            CPU,
            max_tokens=scheduler.tokens_per_step,
            max_num_seqs=rows,
            max_num_blocks=-(-shape.max_model_len // block_size),
            sizes=GraphSizes.up_to(rows),
        )
        self._runner = ModelRunner(
            NullForward(vocab_size),
            batch,
            self._sampling,
            StepSampling(
                batch,
                NullSampler(batch, self._sampling),
                draw_ahead=RandomTokens(shape, feed, config.model.seed),
            ),
            feed=feed,
            stopwatch=HostStopwatch(),
        )
        freeze_gc()

    def start(self, plan: StepPlan) -> StartedStep:
        return self._runner.start(plan)

    def check(self) -> None:
        """Has nothing to check: there is no other process."""

    def sleep(self, level: SleepLevel) -> None:
        """Has no memory to return."""

    def wake_up(self) -> None:
        """Has no memory to allocate."""

    def close(self) -> None:
        unfreeze_gc()
        self._sampling.close()
