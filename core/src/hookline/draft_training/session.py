"""Has one method trained for one target."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hookline.config import EngineConfig
from hookline.draft_training.rows import make_rows
from hookline.draft_training.settings import TrainingSettings
from hookline.exceptions import ConfigError
from hookline.payloads import TrainingContext, TrainingReport
from hookline.plugin_loading.proposers import ask_plugin


def train_draft(
    config: EngineConfig, settings: TrainingSettings, say: Callable[[str], None]
) -> TrainingReport:
    """Asks the method's plugin to train, and has sequences of tokens ready for it.

    Args:
        config: Of the target's engine; what it says of speculation does not count.
        settings: What to do.
        say: Told a line of progress now and then.

    Raises:
        ConfigError: The method is unknown or cannot be trained, or an option is wrong.
        ModelLoadError: The target cannot be loaded.
    """
    config = replace(config, speculative=None)
    context = TrainingContext(
        config=config,
        num_speculative_tokens=settings.num_speculative_tokens,
        options=settings.options,
        make_rows=partial(make_rows, config, settings, say),
        num_given_tokens=settings.prompt_tokens if settings.is_said else 0,
        folder=settings.folder,
        say=say,
    )
    report = ask_plugin(settings.method, "train_draft", context, option="method")
    if not isinstance(report, TrainingReport):
        raise ConfigError("method", f"{settings.method!r} has nothing to train")
    return report
