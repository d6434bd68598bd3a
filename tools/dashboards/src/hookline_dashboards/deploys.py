"""Annotations that mark changes of engines' versions and configurations."""

from collections.abc import Iterator

from hookline_dashboards.expressions import Names, selected
from hookline_dashboards.grafana_look import DATASOURCE, Json

INFO = "hookline_engine_info"
_LABELS = ("version", "isa", "config_hash")
_BEFORE = "1h"


def deploys(names: Names) -> Iterator[Json]:
    """Yields the annotation, unless the dialect has no version and configuration."""
    for series in names.series(INFO):
        shown = [series.labels[name] for name in _LABELS if name in series.labels]
        if len(shown) == len(_LABELS):
            yield _annotation(selected(series), ("instance", "engine", *shown))


def _annotation(info: str, labels: tuple[str, ...]) -> Json:
    """Marks label values that the engine did not have in the hour before."""
    by = f"group by ({', '.join(labels)})"
    earlier = f"last_over_time({info}[{_BEFORE}] offset $__rate_interval)"
    return {
        "name": "Deploys",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "blue",
        "expr": f"{by} ({info}) unless {by} ({earlier})",
        "step": "60s",
        "titleFormat": "Engine {{engine}} of {{instance}} changed",
        "textFormat": "version {{version}}, kernels {{isa}}, "
        "configuration {{config_hash}}",
        "tagKeys": ",".join(labels),
        "useValueForTime": False,
    }
