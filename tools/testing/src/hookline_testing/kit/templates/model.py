"""Model `sample`: a folder of weights, which `--model sample` names."""

from pathlib import Path

from hookline import hookimpl
from hookline_demo_model import folder


@hookimpl
def model_folder() -> Path:
    """Returns the folder with config.json, weights and tokenizer.

    It is the demo model's, until this package has one of its own: then return
    `Path(__file__).parent / "weights"`.
    """
    return folder()
