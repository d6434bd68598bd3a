"""Creates the logits processors of a worker, in the order of their application."""

from collections.abc import Sequence

from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.engine.worker.sampling.logits_processors import LogitsProcessors
from hookline.exceptions import ConfigError
from hookline.plugin_loading.logits_processors import (
    OPTION,
    USUAL_AFTER,
    USUAL_BEFORE,
    load_processor_factory,
    usual_installed,
)
from hookline_models.guarded_processor import GuardedProcessor
from hookline_registry import Failure, isolate


def logits_processors(
    context: LogitsProcessorContext, extensions: Sequence[LogitsProcessor] = ()
) -> LogitsProcessors:
    """Creates the usual processors and those of the configuration, in that order.

    Args:
        context: Context of the processors.
        extensions: Processors of extensions, which come among the usual ones: those
            that follow ban nothing where nothing else is left.

    Raises:
        ConfigError: A plugin is broken or refuses the configuration.
    """
    installed = usual_installed()
    before, after = (
        [_create(name, context) for name in names if name in installed]
        for names in (USUAL_BEFORE, USUAL_AFTER)
    )
    names = context.config.logits_processors
    plugins = [GuardedProcessor(name, _create(name, context)) for name in names]
    return LogitsProcessors(
        context.max_num_seqs, [*before, *extensions, *after, *plugins]
    )


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
