"""Grafana's panel types, units and colours."""

from collections.abc import Mapping, Sequence

from hookline_dashboards.panel import Alarm, Panel, Style

Json = dict[str, object]
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}

_QUIET = "transparent"
_STEPS: Mapping[Alarm, Sequence[tuple[float | None, str]]] = {
    Alarm.NONE: ((None, _QUIET),),
    Alarm.FROM_ONE: ((None, _QUIET), (1, "red")),
    Alarm.UNEQUAL_ZERO: ((None, "red"), (0, _QUIET), (1e-9, "red")),
}
_NOT_SHOWN = ("Time", "__name__", "job")


def look(panel: Panel) -> Json:
    """Returns the parts of a panel's JSON that depend on style, unit and alarm."""
    match panel.style:
        case Style.NUMBERS:
            return _look("stat", panel, _NUMBERS)
        case Style.HEATMAP:
            return _look("heatmap", panel, {**_HEATMAP, "yAxis": {"unit": panel.unit}})
        case Style.TABLE:
            hidden = {"excludeByName": dict.fromkeys(_NOT_SHOWN, True)}
            table = _look("table", panel, {"showHeader": True})
            return {**table, "transformations": [{"id": "organize", "options": hidden}]}
        case Style.LINES | Style.STACKED:
            return _look("timeseries", panel, _LINES, _strokes(panel))


def _look(kind: str, panel: Panel, options: Json, custom: Json | None = None) -> Json:
    steps = [{"value": value, "color": colour} for value, colour in _STEPS[panel.alarm]]
    defaults: Json = {
        "unit": panel.unit,
        "color": {"mode": "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if custom is not None:
        defaults["custom"] = custom
    field = {"defaults": defaults, "overrides": []}
    return {"type": kind, "fieldConfig": field, "options": options}


def _strokes(panel: Panel) -> Json:
    is_stacked = panel.style is Style.STACKED
    return {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 30 if is_stacked else 5,
        "showPoints": "auto",
        "stacking": {"mode": "normal" if is_stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if panel.alarm is Alarm.NONE else "area"},
    }


_LINES: Json = {
    "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_NUMBERS: Json = {
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "colorMode": "none",
    "graphMode": "area",
    "textMode": "auto",
}
_HEATMAP: Json = {
    "calculate": False,
    "cellGap": 1,
    "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
    "tooltip": {"mode": "single", "yHistogram": True},
}
