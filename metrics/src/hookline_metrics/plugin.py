"""Provides the recorder that `LLM.get_metrics` reads."""

from hookline import hookimpl
from hookline.frontend.observing import RecorderContext
from hookline_metrics.recorder import Recorder


@hookimpl
def create_recorder(context: RecorderContext) -> Recorder:
    """Returns a recorder of the metrics that the configuration chooses.

    Raises:
        ConfigError: The choice of metrics is invalid.
    """
    return Recorder(context.config)
