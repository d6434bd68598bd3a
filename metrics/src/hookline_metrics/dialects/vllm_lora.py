"""vLLM's metric of adapters with requests, which gateways read to choose a server.

They take the names in its labels: lists with commas. The names are those of adapters
that were loaded, so that they need no replacement, and there is one series at a time.
"""

from collections.abc import Iterable, Mapping

from hookline_metrics.adapters import ServedAdapters
from hookline_metrics.families.adapter import MOST_CHARACTERS
from hookline_metrics.metric import (
    Alias,
    Feature,
    Kind,
    Label,
    Metric,
    Point,
    Scope,
)
from hookline_metrics.readings import Reading


def _listed(names: Iterable[str]) -> str:
    """Joins names; a comma in one of them must not make it two."""
    return ",".join(name[:MOST_CHARACTERS].replace(",", "%2C") for name in names)


def _requests(adapters: ServedAdapters) -> Iterable[Point]:
    lists = _listed(adapters.waiting), _listed(adapters.running)
    return (((str(adapters.slots), *lists), adapters.at, 1),)


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "vllm_lora_requests": (Alias(name="vllm:lora_requests_info"),)
}

ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_lora_requests",
        kind=Kind.GAUGE,
        unit="1",
        help="Slots for adapters, and the adapters with waiting and with running "
        "requests, as labels; the value is the time, in seconds since the epoch.",
        labels=tuple(
            Label(name, cap=None)
            for name in ("max_lora", "waiting_lora_adapters", "running_lora_adapters")
        ),
        scope=Scope.FRONT_END,
        feature=Feature.ADAPTERS,
        is_fleeting=True,
        is_own=False,
        value=Reading(ServedAdapters, _requests),
    ),
)
