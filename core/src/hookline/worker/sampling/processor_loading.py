"""Creates the logits processors that a configuration names."""

from collections.abc import Sequence

from hookline.exceptions import ConfigError
from hookline.plugin_loading.logits_processors import OPTION, load_processor_factory
from hookline.worker.sampling.guarded_processor import GuardedProcessor
from hookline.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.worker.sampling.logits_processors import LogitsProcessors
from hookline.worker.sampling.processors import builtin_processors
from hookline_registry import Failure, isolate


def logits_processors(
    context: LogitsProcessorContext, extensions: Sequence[LogitsProcessor] = ()
) -> LogitsProcessors:
    """Creates the built-in processors and those of the configuration, in that order.

    Args:
        context: Context of the configuration's processors.
        extensions: Processors of extensions, which come among the built-in ones.

    Raises:
        ConfigError: A plugin is broken or refuses the configuration.
    """
    names = context.config.logits_processors
    plugins = [GuardedProcessor(name, _create(name, context)) for name in names]
    builtin = builtin_processors(context.max_num_seqs, context.vocab_size, extensions)
    return LogitsProcessors(context.max_num_seqs, builtin, plugins)


def _create(name: str, context: LogitsProcessorContext) -> LogitsProcessor:
    made = isolate(load_processor_factory(name), context=context)
    if isinstance(made, Failure):
        if isinstance(made.error, ConfigError):
            raise made.error
        reason = f"{name!r} cannot be created: {made.summary}"
        raise ConfigError(OPTION, reason) from made.error
    if isinstance(made, type) or not isinstance(made, LogitsProcessor):
        members = "needs_prepare, admit, release, prepare, apply"
        raise ConfigError(OPTION, f"{name!r} creates no LogitsProcessor ({members})")
    return made
