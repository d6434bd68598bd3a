"""The phase `profile`: runs a model's largest steps to measure their memory."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from hookline.engine.worker.runner_maker import RunnerMaker
from hookline.exceptions import ConfigError
from hookline.sampling_params import SamplingParams
from hookline.step import AdmittedSequence, StepPlan
from hookline_kernels.runtime.gpu_memory import NoRoomError, Profiled, measure
from hookline_models.machines.graph_plan import GraphPlan
from hookline_models.machines.host_feed import HostFeed
from hookline_models.machines.memory import bytes_of_blocks, host_room

_log = logging.getLogger(__name__)

_GREEDY = SamplingParams(temperature=0.0)
_ALL_OF_A_PROMPT = SamplingParams(temperature=0.0, prompt_logprobs=0)
_ALL_OF_SAMPLING = SamplingParams(
    temperature=1.0, top_p=0.9, repetition_penalty=1.1, logprobs=0
)


def main_memory_room(maker: RunnerMaker) -> int:
    """Returns the bytes of main memory that a long prompt leaves for the KV cache."""
    _run_a_prompt(maker)
    return host_room(_sharers(maker)) - _spare(maker)


def device_room(maker: RunnerMaker, sharers: int = 1) -> int:
    """Returns the bytes that are left on a device after the largest steps.

    Args:
        maker: Makes the model's runners.
        sharers: Number of engines that divide the device's memory.

    Raises:
        ConfigError: Nothing is left.
    """
    run = partial(_run_largest_steps, maker)
    memory = measure(maker.platform.device, run, is_shared=sharers > 1)
    share = maker.config.cache.gpu_memory_utilization / sharers
    maker.model.forward.bind(maker.cache(1))  # drops the cache of the profile
    _log.info("%s", memory)
    try:
        return memory.room(share) - _spare(maker)
    except NoRoomError as error:
        raise ConfigError("gpu-memory-utilization", str(error)) from error


def _spare(maker: RunnerMaker) -> int:
    """Bytes that extensions' layers need beyond those of the blocks."""
    own = maker.extensions.own_layers
    return sum(each.spare_bytes(maker.model.cache_dtype) for each in own)


def _sharers(maker: RunnerMaker) -> int:
    """Number of ranks, of all engines, that divide the memory."""
    config = maker.config
    return config.engines_here * config.parallel.num_here


def _run_a_prompt(maker: RunnerMaker) -> None:
    """Runs one step with a prompt of the maximum length."""
    tokens, blocks = _longest_prompt(maker)
    cache = maker.cache(blocks)
    plan = _plan([_sequence(0, tokens, range(blocks), _GREEDY)])
    state = maker.batch_state()
    maker.runner(maker.model.forward, HostFeed(), cache, state).execute(plan)


class _LargestSteps(NamedTuple):
    """The two steps that take most memory.

    Attributes:
        num_blocks: KV blocks that they need.
        prompts: Prompts that fill the token budget, with the logits of all tokens.
        samples: Single tokens with drafts, sampled for the most requests in all ways.
    """

    num_blocks: int
    prompts: StepPlan
    samples: StepPlan

    @classmethod
    def of(cls, maker: RunnerMaker) -> "_LargestSteps":
        scheduler, (tokens, blocks) = maker.config.scheduler, _longest_prompt(maker)
        seqs, budget = scheduler.max_num_seqs, scheduler.tokens_per_step
        count = min(seqs, -(-budget // tokens))
        drafts = _most_drafts(maker)
        width = -(-(1 + drafts) // maker.config.cache.block_size)
        prompts = [
            _sequence(
                at,
                min(tokens, budget - at * tokens),
                range(at * blocks, (at + 1) * blocks),
                _ALL_OF_A_PROMPT,
            )
            for at in range(count)
        ]
        singles = [
            _sequence(
                count + at, 1, range(at * width, (at + 1) * width), _ALL_OF_SAMPLING
            )
            for at in range(seqs)
        ]
        return cls(
            num_blocks=max(seqs * width, count * blocks),
            prompts=_plan(sorted(prompts, key=lambda each: len(each.token_ids))),
            samples=_plan(singles, released=range(count), drafts=drafts),
        )


def _run_largest_steps(maker: RunnerMaker) -> Profiled:
    steps = _LargestSteps.of(maker)
    graphs, state = maker.device_steps, maker.batch_state()
    assert isinstance(graphs, GraphPlan)
    feed = graphs.buffers()
    cache = maker.cache(steps.num_blocks)
    runner = maker.runner(maker.model.forward, feed, cache, state)
    runner.execute(steps.prompts)
    runner.execute(steps.samples)
    graphed = graphs.graphed(feed)
    sizes = reversed(graphs.sizes.sizes)
    return Profiled(
        bytes_of_blocks(
            steps.num_blocks,
            maker.config.cache,
            maker.model.layers,
            maker.model.cache_dtype,
        ),
        [partial(graphed.capture, size) for size in sizes] if graphed else [],
    )


def _most_drafts(maker: RunnerMaker) -> int:
    """Maximum number of drafts of each request in a step that is full of requests."""
    scheduler, most = maker.config.scheduler, maker.extensions.most_drafts
    share = scheduler.tokens_per_step // scheduler.max_num_seqs
    return min(most, maker.model.shape.max_model_len - 1, max(0, share - 1))


def _longest_prompt(maker: RunnerMaker) -> tuple[int, int]:
    """Returns its length in tokens, and the blocks that hold it and one token more."""
    budget = maker.config.scheduler.tokens_per_step
    tokens = max(1, min(budget, maker.model.shape.max_model_len - 1))
    return tokens, -(-(tokens + 1) // maker.config.cache.block_size)


def _sequence(
    request_id: int, num_tokens: int, block_ids: Sequence[int], params: SamplingParams
) -> AdmittedSequence:
    return AdmittedSequence(
        request_id=request_id,
        token_ids=[0] * num_tokens,
        num_prompt_tokens=num_tokens,
        num_computed_tokens=0,
        block_ids=block_ids,
        params=params,
        eos_token_ids=(),
        bad_words_token_ids=(),
    )


def _plan(
    sequences: Sequence[AdmittedSequence],
    released: Sequence[int] = (),
    *,
    drafts: int = 0,
) -> StepPlan:
    """Plans a step that computes whole sequences and `drafts` drafts after each."""
    return StepPlan(
        step=0,
        released=released,
        admitted=sequences,
        request_ids=[each.request_id for each in sequences],
        num_tokens=[len(each.token_ids) + drafts for each in sequences],
        drafts={each.request_id: [0] * drafts for each in sequences if drafts},
    )
