"""Renders rows and panels as a Grafana dashboard in JSON."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

from hookline_dashboards.deploys import deploys
from hookline_dashboards.description import describe
from hookline_dashboards.expressions import Names
from hookline_dashboards.grafana_look import DATASOURCE, Json, look
from hookline_dashboards.links import SEE_ALSO, to_dashboards, to_panels
from hookline_dashboards.panel import Panel, Row, Style
from hookline_metrics.metric import OWN_DIALECT

_SCHEMA_VERSION = 39
_COLUMNS = 3
_WIDTH, _HEIGHT = 8, 8
_FORMATS = {Style.TABLE: "table", Style.HEATMAP: "heatmap"}
_TITLES: Mapping[str, str] = {
    OWN_DIALECT: "Hookline",
    "vllm": "Hookline by vLLM's metrics",
    "sglang": "Hookline by SGLang's metrics",
}
_LISTED = "hookline_requests_running"
_INPUT: Json = {
    "name": "DS_PROMETHEUS",
    "label": "Prometheus",
    "type": "datasource",
    "pluginId": "prometheus",
    "pluginName": "Prometheus",
}
"""What Grafana's import asks for. Only the variable's value refers to it, for which
Grafana takes its default data source where nothing was asked, as in provisioning."""
_OLDEST_GRAFANA = "11.0.0"
_PANEL_NAMES: Mapping[str, str] = {"timeseries": "Time series"}


def uid(dialect: str) -> str:
    """Returns the identity of a dialect's dashboard, and the stem of its file."""
    return OWN_DIALECT if dialect == OWN_DIALECT else f"{OWN_DIALECT}-{dialect}"


def dashboard(rows: Sequence[Row], names: Names) -> str:
    """Returns the JSON file for Grafana's import; deterministic."""
    panels = list(_drawn(rows, names))
    drawn = {
        "__inputs": [_INPUT],
        "__requires": list(_required(panels)),
        "uid": uid(names.dialect),
        "title": _TITLES[names.dialect],
        "description": "Hookline's engines, by metrics of the dialect "
        f"{names.dialect}. Generated from the metrics catalogue.",
        "tags": ["hookline", "llm"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": list(deploys(names))},
        "links": to_dashboards(),
        "templating": {"list": _variables(names)},
        "panels": panels,
    }
    return json.dumps(drawn, indent=2) + "\n"


def _required(panels: Sequence[Json]) -> Iterator[Json]:
    """Yields what an import looks for before it takes the dashboard."""
    yield {
        "type": "grafana",
        "id": "grafana",
        "name": "Grafana",
        "version": _OLDEST_GRAFANA,
    }
    yield {
        "type": "datasource",
        "id": "prometheus",
        "name": "Prometheus",
        "version": "1.0.0",
    }
    inner: list[Json] = [
        panel
        for row in panels
        if isinstance(collapsed := row.get("panels"), list)
        for panel in collapsed
    ]
    kinds = {str(each["type"]) for each in (*panels, *inner)}
    for kind in sorted(kinds - {"row"}):
        name = _PANEL_NAMES.get(kind, kind.capitalize())
        yield {"type": "panel", "id": kind, "name": name, "version": ""}


def _variables(names: Names) -> list[Json]:
    datasource: Json = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {"text": _INPUT["label"], "value": f"${{{_INPUT['name']}}}"},
    }
    (series,) = names.series(_LISTED)
    engine = series.labels["engine"]
    model = f'{series.name}{{model_name=~"$model_name"}}'
    server = f'{series.name}{{model_name=~"$model_name",instance=~"$instance"}}'
    return [
        datasource,
        _variable("model_name", "Model", f"label_values({series.name}, model_name)"),
        _variable("instance", "Server", f"label_values({model}, instance)"),
        _variable("engine", "Engine", f"label_values({server}, {engine})"),
    ]


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _drawn(rows: Sequence[Row], names: Names) -> Iterator[Json]:
    top = 0
    ids = {panel.title: _panel_id(row, panel) for row in rows for panel in row.panels}
    for row in rows:
        panels = list(_placed(row, names, top + 1, ids))
        yield {
            "id": _stable_id(row.title),
            "type": "row",
            "title": row.title,
            "collapsed": not row.is_open,
            "gridPos": {"h": 1, "w": _COLUMNS * _WIDTH, "x": 0, "y": top},
            "panels": [] if row.is_open else panels,
        }
        if row.is_open:
            yield from panels
            lines = -(-len(panels) // _COLUMNS)
            top += lines * _HEIGHT
        top += 1


def _placed(row: Row, names: Names, top: int, ids: Mapping[str, int]) -> Iterator[Json]:
    for index, panel in enumerate(row.panels):
        line, column = divmod(index, _COLUMNS)
        yield {
            "id": ids[panel.title],
            "title": panel.title,
            "description": describe(panel, names),
            "links": to_panels(SEE_ALSO.get(panel.title, ()), uid(names.dialect), ids),
            "datasource": DATASOURCE,
            "gridPos": {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": column * _WIDTH,
                "y": top + line * _HEIGHT,
            },
            "targets": list(_targets(panel)),
            **look(panel),
        }


def _targets(panel: Panel) -> Iterator[Json]:
    is_table = panel.style is Style.TABLE
    for number, query in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + number),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": query.expression,
            "legendFormat": query.legend,
            "format": _FORMATS.get(panel.style, "time_series"),
            "instant": is_table,
            "range": not is_table,
        }


def _panel_id(row: Row, panel: Panel) -> int:
    return _stable_id(f"{row.title}/{panel.title}")


def _stable_id(path: str) -> int:
    """Returns an id that is stable as long as the panel keeps its row and title."""
    return zlib.crc32(path.encode()) >> 1
