"""The dashboards of all dialects: names, titles, links, deploys, valid PromQL."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookline_dashboards.files import generated_files
from hookline_dashboards.grafana import uid
from hookline_dashboards.links import SEE_ALSO
from hookline_dashboards.rows import dashboard_rows
from hookline_metrics import CATALOGUE
from hookline_metrics.catalogue import DIALECTS

DASHBOARDS: dict[str, dict[str, Any]] = {
    dialect: json.loads(generated_files()[f"deploy/grafana/{uid(dialect)}.json"])
    for dialect in DIALECTS
}


def panels_of(dialect: str) -> Iterator[dict[str, Any]]:
    for panel in DASHBOARDS[dialect]["panels"]:
        yield from (panel,) if panel["type"] != "row" else panel["panels"]


def expressions_of(dialect: str) -> list[str]:
    return [
        target["expr"] for panel in panels_of(dialect) for target in panel["targets"]
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_titles_are_unique_and_say_what_is_shown(dialect: str) -> None:
    """
    No title stands twice, and only known ones are one word.
    """
    titles = [panel["title"] for panel in panels_of(dialect)]
    single = {title for title in titles if " " not in title}

    assert len(set(titles)) == len(titles)
    assert single <= {"Engines", "Saturation", "Preemptions", "max_tokens"}


@pytest.mark.parametrize("field", ["title", "uid"])
def test_dashboards_can_be_told_apart(field: str) -> None:
    """
    No two dashboards replace each other in one Grafana.
    """
    assert len({each[field] for each in DASHBOARDS.values()}) == len(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_prometheus_parses_every_expression(
    promtool: Path, tmp_path: Path, dialect: str
) -> None:
    """
    Panels and annotations are PromQL once Grafana has filled in the variables.
    """
    annotations = DASHBOARDS[dialect]["annotations"]["list"]
    expressions = [*expressions_of(dialect), *(each["expr"] for each in annotations)]
    rules = [
        {
            "record": f"panel:{number}",
            "expr": re.sub(r"\$\w+", ".*", each.replace("$__rate_interval", "1m")),
        }
        for number, each in enumerate(expressions)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"hookline"}))
def test_other_dialects_use_only_their_names(dialect: str) -> None:
    """
    Each name is exposed in the dialect without an option for deprecated names.
    """
    exposed = {
        metric.exposed(alias.name)
        for metric in CATALOGUE
        for alias in metric.aliases(dialect)
        if alias.hidden_since is None
    }
    used = {
        re.sub("_(bucket|sum|count)$", "", name)
        for expression in expressions_of(dialect)
        for name in re.findall(r"[\w:]+(?=\{)", expression)
    }

    assert used
    assert used <= exposed


def test_split_metric_is_shown_piece_by_piece() -> None:
    """
    SGLang's queues, one name each, are the lines of one panel.
    """
    (overview, *_) = dashboard_rows(CATALOGUE, "sglang")
    (panel,) = [each for each in overview.panels if "waiting" in each.title]

    assert [query.legend for query in panel.queries] == [
        "requests running",
        "requests waiting capacity",
        "requests waiting grammar",
        "requests waiting remote_kv",
    ]
    assert panel.queries[1].expression == (
        'sum (sglang:num_queue_reqs{model_name=~"$model_name",dp_rank=~"$engine",'
        'instance=~"$instance"})'
    )


def test_stack_without_its_parts_is_left_out() -> None:
    """
    SGLang's prompt tokens have no source, so there is no panel of sources.
    """
    titles = [panel["title"] for panel in panels_of("sglang")]

    assert "Tokens per second" in titles
    assert "Prompt tokens by source" not in titles


def test_links_lead_to_panels_that_are_there() -> None:
    """
    Each listed title exists, and its link has that panel's id.
    """
    panels = {panel["title"]: panel for panel in panels_of("hookline")}

    assert set(SEE_ALSO) <= panels.keys()
    for title, targets in SEE_ALSO.items():
        links = panels[title]["links"]
        assert [link["title"] for link in links] == list(targets)
        for link in links:
            assert (
                f"/d/hookline?viewPanel={panels[link['title']]['id']}&" in link["url"]
            )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dashboard_is_in_the_others_menu(dialect: str) -> None:
    """
    Its tag is the one that the links at the top list.
    """
    drawn = DASHBOARDS[dialect]
    (link,) = drawn["links"]

    assert set(link["tags"]) <= set(drawn["tags"])


def test_deploys_are_marked_by_version_and_configuration() -> None:
    """
    The annotation shows the labels that it groups by.
    """
    (annotation,) = DASHBOARDS["hookline"]["annotations"]["list"]
    shown = re.findall(
        r"\{\{(\w+)\}\}", annotation["titleFormat"] + annotation["textFormat"]
    )

    assert set(shown) == set(annotation["tagKeys"].split(","))
    assert {"version", "isa", "config_hash"} <= set(shown)
    assert annotation["expr"].count("hookline_engine_info{") == 2
