"""What a scheduler is made from, as a recording keeps it."""

from typing import TYPE_CHECKING

import msgspec

from hookline.frozen import plain
from hookline_recording.answers import answered_sides

if TYPE_CHECKING:  # it is only read
    from hookline.engine.tap import TapContext


class Scheduling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decisions depend on besides commands, results and clock readings.

    Attributes:
        scheduler: Fields of the `SchedulerConfig`, in plain data.
        cache: Fields of the `CacheConfig`, likewise.
        num_stages: Stages of the pipeline.
        max_model_len: Context length in tokens.
        num_kv_blocks: KV blocks.
        extensions: Names of the extensions that the scheduler has.
        options: Options of those that are answered from outside, by their names.
    """

    scheduler: dict[str, object]
    cache: dict[str, object]
    num_stages: int = 1
    max_model_len: int = 0
    num_kv_blocks: int = 0
    extensions: list[str] = []
    options: dict[str, dict[str, object]] = {}


def scheduling_of(context: "TapContext") -> Scheduling:
    """Describes the scheduler of an engine."""
    config, model = context.config, context.facts.model
    scheduler = context.scheduler
    sides = () if scheduler is None else scheduler.extensions.sides
    return Scheduling(
        scheduler=msgspec.to_builtins(config.scheduler, enc_hook=plain),
        cache=msgspec.to_builtins(config.cache, enc_hook=plain),
        num_stages=config.parallel.pipeline_parallel_size,
        max_model_len=model.max_model_len,
        num_kv_blocks=model.num_kv_blocks,
        extensions=list(sides),
        options={
            name: msgspec.to_builtins(side.recorded_options(), enc_hook=plain)
            for name, side in answered_sides(scheduler).items()
        },
    )
