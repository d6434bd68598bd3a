"""The demo model's README shows what its training has left."""

from pathlib import Path
from types import ModuleType

import pytest

from hookline_testing.script_module import script_module

FOLDER = Path(__file__).parents[3] / "models" / "demo"


@pytest.fixture
def report() -> ModuleType:
    """The script, imported."""
    return script_module(FOLDER / "report.py")


def test_readme_is_up_to_date(report: ModuleType) -> None:
    """The tables of the README are those of training.json and config.json; after a
    training, run models/demo/report.py."""
    text = (FOLDER / "README.md").read_text("utf-8")

    assert report.tables() in text


def test_readme_shows_a_sample(report: ModuleType) -> None:
    """A sample of the model's output stands in the README."""
    text = (FOLDER / "README.md").read_text("utf-8")

    assert report.PROMPT + "\n" in text
    assert f"$ hookline {report.GENERATE}" in text


def test_weights_fit_the_limits(report: ModuleType) -> None:
    """The model has 3 to 8 million parameters and a file of at most 16 MB."""
    parameters = report.load("training.json")["parameters"]
    size = (report.WEIGHTS / "model.safetensors").stat().st_size

    assert 3e6 <= parameters <= 8e6
    assert size <= 16e6
