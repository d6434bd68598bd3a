"""Models with an embedding that is not a number, and what is counted of them."""

import math
import shutil
from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import load_file, save_file

from hookline_metrics.histogram_value import HistogramValue
from hookline_metrics.snapshot import Family

NAN_TOKEN = 300
"""The token with that embedding."""


def poisoned_copy(folder: Path, target: Path) -> Path:
    """Copies a model's folder, and spoils one row of its embedding there.

    The output layer must not share the embedding's weights.
    """
    shutil.copytree(folder, target)
    file = target / "model.safetensors"
    weights = load_file(file)
    weights["model.embed_tokens.weight"][NAN_TOKEN] = math.nan
    save_file(weights, file, {"format": "pt"})
    return target


def corrupted_counts(families: Iterable[Family]) -> dict[str, float]:
    """Returns the numbers of corrupted requests by origin, without zeros."""
    [family] = [each for each in families if each.name == "hookline_requests_corrupted"]
    at = family.label_names.index("origin")
    return {
        each.labels[at]: each.value
        for each in family.samples
        if not isinstance(each.value, HistogramValue) and each.value
    }
