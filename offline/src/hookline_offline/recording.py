"""The recorder of the metrics that `LLM.get_metrics` returns."""

from typing import cast

from hookline.config.engine import EngineConfig
from hookline.frontend.observing import RecorderContext
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import RECORDER
from hookline_metrics import Recorder
from hookline_registry import installed


def load_recorder(config: EngineConfig) -> Recorder | None:
    """Returns what records metrics, or None if no distribution does.

    Raises:
        ConfigError: The configuration of the metrics is invalid, or the plugin broken.
    """
    if not installed(RECORDER.group):
        return None
    context = RecorderContext(config=config)
    made = call_plugin(RECORDER, "metrics", context, option="metrics")
    return cast("Recorder | None", made)
