"""Which metrics there are, and what they are called: a section of a configuration."""

import json
from dataclasses import dataclass
from typing import ClassVar

from hookline.config.options import check_options, option
from hookline.config.readers import read_label
from hookline.config.sections import ConfigSection

MOST_TENANTS = 100
"""Limit of `--max-tenants`: each tenant adds about fifty series to a page."""

MOST_ADAPTER_LABELS = 200
"""Limit of `--max-adapter-labels`: each adapter adds about a hundred series."""


def read_buckets(text: str) -> dict[str, list[float]]:
    """Reads bounds by name: `{"time_to_first_token": [0.1, 1]}`.

    Raises:
        ValueError: It has another form.
    """
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError('must be an object {"NAME": [NUMBERS]}')  # noqa: TRY004
    return {name: _bounds(name, bounds) for name, bounds in found.items()}


def _bounds(name: str, bounds: object) -> list[float]:
    if not isinstance(bounds, list):
        raise ValueError(f"{name} must have a list of numbers")  # noqa: TRY004
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, (int, float)):
            raise ValueError(f"{name}: {bound!r} is not a number")  # noqa: TRY004
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig(ConfigSection):
    """Selection, names, labels and buckets of the metrics.

    Applies to every logger that reads the catalogue.
    """

    key: ClassVar[str] = "metrics"
    group: ClassVar[str] = "metrics"

    dialects: tuple[str, ...] = option(
        "Naming schemes of the metrics: hookline, vllm, sglang.",
        default=("hookline", "vllm"),
        flag="metrics-dialect",
        metavar="NAME,…",
        commas=True,
    )
    histogram_buckets: dict[str, tuple[float, ...]] = option(
        'Upper bounds of histogram buckets, {"NAME": [NUMBERS]}; NAME is a '
        "histogram in any dialect, or a family of buckets.",
        default_factory=dict,
        metavar="JSON",
        read=read_buckets,
        json=True,
    )
    include: tuple[str, ...] = option(
        "Expose only metrics whose name matches a pattern (*, ?).",
        default=(),
        flag="include-metrics",
        metavar="PATTERN,…",
        shown_default="all",
        commas=True,
    )
    exclude: tuple[str, ...] = option(
        "Do not expose metrics whose name matches a pattern (*, ?); wins over "
        "--include-metrics.",
        default=(),
        flag="exclude-metrics",
        metavar="PATTERN,…",
        commas=True,
    )
    labels: dict[str, str] = option(
        "Constant label on every series.",
        default_factory=dict,
        flag="metrics-label",
        read=read_label,
    )
    show_hidden_for_version: str | None = option(
        "Also expose the deprecated metrics that this version still showed.",
        default=None,
        flag="show-hidden-metrics-for-version",
        metavar="X.Y",
    )
    tenants: tuple[str, ...] = option(
        "Tenant with its own label value in metrics.",
        default=(),
        flag="tenant",
        group="tenants",
        metavar="NAME",
        shown_default="the first --max-tenants that send requests",
    )
    max_tenants: int = option(
        "Maximum number of tenants with their own label value in metrics, not "
        "counting `other` and `none`; 0 leaves tenants out of the metrics.",
        default=0,
        group="tenants",
        metavar="COUNT",
        minimum=0,
        maximum=MOST_TENANTS,
    )
    max_adapter_labels: int = option(
        "Maximum number of adapters with their own label value in metrics, not "
        "counting `other` and `none`, which is the base model.",
        default=50,
        group="adapters",
        metavar="COUNT",
        minimum=1,
        maximum=MOST_ADAPTER_LABELS,
    )

    def __post_init__(self) -> None:
        check_options(self)
