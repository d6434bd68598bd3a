"""The dashboard: it shows every metric, and Grafana can read it."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from hookline_dashboards.expressions import Names
from hookline_dashboards.files import generated_files
from hookline_dashboards.grafana import uid
from hookline_dashboards.panel import Panel, Row
from hookline_dashboards.rows import NOT_SHOWN, dashboard_rows
from hookline_metrics import CATALOGUE, Kind
from hookline_metrics.catalogue import DIALECTS
from hookline_testing.table_walk import for_each_row

NAMES = Names(CATALOGUE)
ROWS = dashboard_rows(CATALOGUE)
PANELS = [(row, panel) for row in ROWS for panel in row.panels]
WIDTH = 24


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    return dashboard_of("hookline")


def dashboard_of(dialect: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        generated_files()[f"deploy/grafana/{uid(dialect)}.json"]
    )
    return loaded


def all_panels(drawn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in drawn["panels"]:
        yield panel
        yield from panel.get("panels", ())


def panel_id(each: tuple[Row, Panel]) -> str:
    return f"{each[0].title}/{each[1].title}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_import_asks_for_the_data_source_and_provisioning_need_not(
    dialect: str,
) -> None:
    """
    What the import fills in is the variable's value alone, which Grafana chooses where
    it was not filled in; it requires exactly the kinds of panels that are drawn.
    """
    loaded = dashboard_of(dialect)
    [asked] = loaded["__inputs"]
    [chosen] = [
        each for each in loaded["templating"]["list"] if each["type"] == "datasource"
    ]
    required = {(each["type"], each["id"]) for each in loaded["__requires"]}
    drawn = {each["type"] for each in all_panels(loaded)} - {"row"}

    assert (asked["type"], asked["pluginId"]) == ("datasource", chosen["query"])
    assert chosen["current"]["value"] == "${DS_PROMETHEUS}"
    assert json.dumps(loaded).count("${DS_") == 1
    assert asked["name"] == "DS_PROMETHEUS"
    assert required == {
        ("grafana", "grafana"),
        ("datasource", "prometheus"),
        *(("panel", each) for each in drawn),
    }


@for_each_row("each", PANELS, ids=panel_id)
def test_panel_names_metrics_of_the_catalogue(each: tuple[Row, Panel]) -> None:
    """Each query names at least one metric, and only those that are exposed so."""
    _, panel = each

    for query in panel.queries:
        assert NAMES.used_in(query.expression)


def test_every_metric_has_a_panel_or_a_reason() -> None:
    """No metric of the own dialect is forgotten, and none is excused for nothing."""
    queries = " ".join(
        query.expression for _, panel in PANELS for query in panel.queries
    )

    shown = {metric.name for metric in NAMES.used_in(queries)}

    assert shown | NOT_SHOWN.keys() == NAMES.metrics.keys()
    assert shown & NOT_SHOWN.keys() == set()


def test_unknown_names_are_errors() -> None:
    """A name that is not in the catalogue, or not exposed so, cannot be used."""
    for wrong in (
        "hookline_no_such_metric",
        "hookline_preemptions",
        "hookline_step_tokens",
        "hookline_engine_up_total",
    ):
        with pytest.raises(KeyError):
            NAMES.used_in(f"rate({wrong}[5m])")


def test_names_in_recorded_series_are_no_metrics() -> None:
    """The metric's name inside a recorded series' name is not taken for a metric."""
    assert NAMES.used_in("engine:hookline_saturation_ratio:avg1m > 1") == ()


def test_row_without_metrics_is_left_out() -> None:
    """A row is there once the catalogue has a metric for it, and not before."""
    template = NAMES.metrics["hookline_preemptions"]
    drafts = dataclasses.replace(template, name="hookline_spec_decode_num_draft_tokens")
    others = [each for each in CATALOGUE if "_spec_decode_" not in each.name]

    without = [row.title for row in dashboard_rows(others)]
    rows = {row.title: row for row in dashboard_rows((*others, drafts))}

    assert "Speculative decoding" not in without
    (panel,) = rows["Speculative decoding"].panels
    assert panel.title == "Draft tokens"
    assert (
        "rate(hookline_spec_decode_num_draft_tokens_total{"
        in panel.queries[0].expression
    )


def test_means_divide_sums_by_counts() -> None:
    """Wherever a histogram's sum is used, it is divided by the same one's count."""
    for _, panel in PANELS:
        for query in panel.queries:
            if "_sum{" in query.expression:
                above, below = query.expression.split(" / ")
                assert above.replace("_sum{", "_count{") == below


def test_histograms_are_not_drawn_as_levels() -> None:
    """A histogram is asked for quantiles, means, rates or buckets, nothing else."""
    for _, panel in PANELS:
        for query in panel.queries:
            (metric, *_) = NAMES.used_in(query.expression)
            if metric.kind is Kind.HISTOGRAM:
                assert "rate(" in query.expression or "increase(" in query.expression


def test_ids_are_unique(drawn: dict[str, Any]) -> None:
    """No two panels have the same id or the same title."""
    ids = [panel["id"] for panel in all_panels(drawn)]
    titles = [panel.title for _, panel in PANELS]

    assert len(set(ids)) == len(ids)
    assert all(0 < number < 2**31 for number in ids)
    assert len(set(titles)) == len(titles)


def test_panels_do_not_overlap(drawn: dict[str, Any]) -> None:
    """Every panel that is seen at once has its own place within the width."""
    taken = set()

    for panel in drawn["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken
                taken.add((x, y))


def test_closed_rows_hold_their_panels(drawn: dict[str, Any]) -> None:
    """Panels of a closed row stand inside it, those of an open one behind it."""
    rows = [panel for panel in drawn["panels"] if panel["type"] == "row"]

    assert [row["title"] for row in rows] == [row.title for row in ROWS]
    for row, data in zip(rows, ROWS, strict=True):
        assert row["collapsed"] is not data.is_open
        assert len(row["panels"]) == (0 if data.is_open else len(data.panels))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_panels_can_be_read_by_a_stranger(dialect: str) -> None:
    """Each panel has its metrics' HELP, its unit, its data source and its queries."""
    names = Names(CATALOGUE, dialect)
    rows = dashboard_rows(CATALOGUE, dialect)
    drawn = dashboard_of(dialect)
    panels = [panel for panel in all_panels(drawn) if panel["type"] != "row"]

    for panel, data in zip(
        panels, [panel for row in rows for panel in row.panels], strict=True
    ):
        references = [target["refId"] for target in panel["targets"]]
        (first, *_) = names.series_in(data.queries[0].expression)
        assert panel["title"] == data.title
        assert panel["description"].startswith(f"`{first.name}`: {first.help}")
        assert panel["fieldConfig"]["defaults"]["unit"] == data.unit
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len(set(references)) == len(references) == len(data.queries)


def test_dashboard_has_its_variables(drawn: dict[str, Any]) -> None:
    """Data source, model, server and engine can be chosen; rates follow the zoom."""
    names = [variable["name"] for variable in drawn["templating"]["list"]]
    text = json.dumps(drawn)

    assert names == ["datasource", "model_name", "instance", "engine"]
    assert drawn["schemaVersion"] >= 39
    for name in names:
        assert f"${name}" in text or f"${{{name}}}" in text
    assert "[$__rate_interval]" in text
