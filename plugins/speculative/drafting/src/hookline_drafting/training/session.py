"""Trains a draft model of one method for one target."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import PROPOSER
from hookline_drafting.contexts import TrainingContext, TrainingReport
from hookline_drafting.training.rows import make_rows
from hookline_drafting.training.settings import TrainingSettings


def train_draft(
    config: EngineConfig, settings: TrainingSettings, log: Callable[[str], None]
) -> TrainingReport:
    """Calls the method's plugin to train a draft model.

    Args:
        config: Configuration of the target's engine; `speculative` is ignored.
        settings: Method, data and output folder.
        log: Called with lines of progress.

    Raises:
        ConfigError: The method is unknown or cannot be trained, or an option is wrong.
        ModelLoadError: The target cannot be loaded.
    """
    config = replace(config, speculative=None)
    context = TrainingContext(
        config=config,
        num_speculative_tokens=settings.num_speculative_tokens,
        options=settings.options,
        make_rows=partial(make_rows, config, settings, log),
        num_prompt_tokens=settings.prompt_tokens if settings.is_generated else 0,
        folder=settings.folder,
        log=log,
    )
    report = call_plugin(
        PROPOSER, settings.method, context, option="method", hook="train_draft"
    )
    if not isinstance(report, TrainingReport):
        raise ConfigError("method", f"{settings.method!r} cannot be trained")
    return report
