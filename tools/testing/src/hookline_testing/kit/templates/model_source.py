"""Model source `sample`: finds models that are neither folders nor installed."""

from dataclasses import replace

from hookline import hookimpl
from hookline.config import EngineConfig
from hookline_demo_model import folder

PREFIX = "sample://"


@hookimpl
def locate_model(context: EngineConfig) -> EngineConfig | None:
    """Returns the configuration with a folder for its model; None for other names.

    It may download the model first. Raise `hookline.exceptions.ModelLoadError` if it
    cannot be had.
    """
    name = context.model.model
    if not name.startswith(PREFIX):
        return None
    model = replace(context.model, model=str(folder()), served_model_name=name)
    return replace(context, model=model)
