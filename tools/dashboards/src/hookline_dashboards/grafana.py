"""Renders rows and panels as a Grafana dashboard in JSON."""

import json
import zlib
from collections.abc import Iterable, Iterator

from hookline_dashboards.description import describe
from hookline_dashboards.expressions import Names
from hookline_dashboards.grafana_look import Json, look
from hookline_dashboards.panel import Panel, Row, Style

_SCHEMA_VERSION = 39
_DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 3
_WIDTH, _HEIGHT = 8, 8
_FORMATS = {Style.TABLE: "table", Style.HEATMAP: "heatmap"}


def dashboard(rows: Iterable[Row], names: Names) -> str:
    """Returns the JSON file for Grafana's import; deterministic."""
    drawn = {
        "uid": "hookline",
        "title": "Hookline",
        "description": "Hookline's engines. Generated from the metrics catalogue.",
        "tags": ["hookline", "llm"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": list(_drawn(rows, names)),
    }
    return json.dumps(drawn, indent=2) + "\n"


def _variables() -> list[Json]:
    datasource: Json = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }
    return [
        datasource,
        _variable("model_name", "Model", "hookline_engine_up"),
        _variable(
            "instance", "Server", 'hookline_engine_up{model_name=~"$model_name"}'
        ),
        _variable(
            "engine",
            "Engine",
            'hookline_engine_up{model_name=~"$model_name",instance=~"$instance"}',
        ),
    ]


def _variable(name: str, label: str, series: str) -> Json:
    query = f"label_values({series}, {name})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _drawn(rows: Iterable[Row], names: Names) -> Iterator[Json]:
    top = 0
    for row in rows:
        panels = list(_placed(row, names, top + 1))
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


def _placed(row: Row, names: Names, top: int) -> Iterator[Json]:
    for index, panel in enumerate(row.panels):
        line, column = divmod(index, _COLUMNS)
        yield {
            "id": _stable_id(f"{row.title}/{panel.title}"),
            "title": panel.title,
            "description": describe(panel, names),
            "datasource": _DATASOURCE,
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
            "datasource": _DATASOURCE,
            "editorMode": "code",
            "expr": query.expression,
            "legendFormat": query.legend,
            "format": _FORMATS.get(panel.style, "time_series"),
            "instant": is_table,
            "range": not is_table,
        }


def _stable_id(path: str) -> int:
    """Returns an id that is stable as long as the panel keeps its row and title."""
    return zlib.crc32(path.encode()) >> 1
