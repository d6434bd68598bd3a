"""Links between dashboards, and from panels to those that explain them."""

from collections.abc import Iterable, Mapping, Sequence

from hookline_dashboards.grafana_look import Json

SEE_ALSO: Mapping[str, tuple[str, ...]] = {
    "Engines up": ("Engines", "Engine restarts", "Time since last step and report"),
    "Running and waiting requests": ("Queue time", "Saturation", "KV cache usage"),
    "Saturation": ("Saturation by component",),
    "Requests rejected": ("Running and waiting requests", "Saturation"),
    "Time to first token": ("Queue time", "Prefill time"),
    "Inter-token latency": ("Mean step time by phase", "Batch size", "Preemptions"),
    "End-to-end latency": ("Mean request latency by phase",),
    "Queue time": ("Running and waiting requests", "KV cache usage"),
    "Preemptions": ("KV blocks", "KV cache usage", "Time preempted"),
    "Recomputed tokens (share)": ("Preemptions",),
    "KV cache usage": ("KV blocks", "Preemptions"),
    "SLO attainment (60 s)": ("Missed objectives by phase",),
    "Missed objectives by phase": ("Mean request latency by phase",),
    "Prefix cache hit rate": ("Prompt tokens by source",),
    "Estimated speedup (60 s)": ("Acceptance rate (60 s)",),
    "HTTP requests": ("Requests rejected", "Requests finished"),
}
"""Titles of the panels that explain a panel, by its title."""

_KEPT = "${__url_time_range}&${__all_variables}"


def to_dashboards() -> list[Json]:
    """Returns the links at the top: to all dashboards of Hookline."""
    return [
        {
            "type": "dashboards",
            "title": "Hookline",
            "tags": ["hookline"],
            "asDropdown": True,
            "keepTime": True,
            "includeVars": True,
            "targetBlank": False,
            "icon": "external link",
            "tooltip": "The dashboards of all dialects",
            "url": "",
        }
    ]


def to_panels(
    titles: Iterable[str], uid: str, ids: Mapping[str, int]
) -> Sequence[Json]:
    """Returns links to the panels with these titles that the dashboard has."""
    return [
        {
            "title": title,
            "url": f"/d/{uid}?viewPanel={ids[title]}&{_KEPT}",
            "targetBlank": False,
        }
        for title in titles
        if title in ids
    ]
