"""Recording rules and alerts as data: names, texts, and a test for each alert."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookline_dashboards.expressions import Names
from hookline_dashboards.files import ALERT_GROUPS
from hookline_dashboards.recordings import RECORDING_GROUPS
from hookline_dashboards.rows import dashboard_rows
from hookline_dashboards.rule import Alert, Recording
from hookline_metrics import CATALOGUE
from hookline_testing.table_walk import for_each_row

NAMES = Names(CATALOGUE)
RULES = [rule for group in (*RECORDING_GROUPS, *ALERT_GROUPS) for rule in group.rules]
ALERTS = [rule for rule in RULES if isinstance(rule, Alert)]
RECORDED = {rule.name for rule in RULES if isinstance(rule, Recording)}
SERIES = re.compile(r"\b\w+:hookline_\w+:\w+")
QUOTED = re.compile(r'"([^"]+)"')
LABEL = re.compile(r"\$labels\.(\w+)")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@for_each_row("rule", RULES, ids=lambda rule: rule.name)
def test_rule_names_what_there_is(rule: Recording | Alert) -> None:
    """Each rule reads metrics of the catalogue or series that are recorded."""
    recorded = SERIES.findall(rule.expression)

    assert NAMES.used_in(rule.expression) or recorded
    assert set(recorded) <= RECORDED


def test_names_are_unique() -> None:
    """No two rules have one name."""
    names = [rule.name for rule in RULES]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alert_texts_name_problem_and_instance(alert: Alert) -> None:
    """Both texts are sentences, and the summary names the instance."""
    told = set(LABEL.findall(alert.summary))

    assert alert.name.startswith("Hookline")
    assert told
    assert told <= {"instance", "engine", "model_name", "job", "kind", "logger"}
    assert alert.summary.endswith(".")
    assert alert.next_step.endswith(".")


def test_descriptions_name_panels_that_exist() -> None:
    """A panel that an alert sends its reader to is on the dashboard."""
    titles = {panel.title for row in dashboard_rows(CATALOGUE) for panel in row.panels}

    named = {title for alert in ALERTS for title in QUOTED.findall(alert.next_step)}

    assert named
    assert named <= titles


def test_every_alert_is_tested_firing_and_quiet(rules_folder: Path) -> None:
    """alert_tests.yml has for each alert a time when it fires, and one when not."""
    firing, quiet = set(), set()

    for test in loaded(rules_folder / "alert_tests.yml")["tests"]:
        steps = test["promql_expr_test"]
        found = {
            match
            for step in steps
            for sample in step["exp_samples"]
            for match in re.findall(r'alertname="(\w+)"', sample["labels"])
        }
        firing |= found
        quiet |= found if any(step["exp_samples"] == [] for step in steps) else set()

    assert firing == {alert.name for alert in ALERTS}
    assert quiet == firing


def test_rule_files_hold_the_rules(rules_folder: Path) -> None:
    """The files that Prometheus reads have every rule, and the configuration both."""
    config = loaded(rules_folder / "prometheus.yml")

    found = [
        rule.get("record") or rule["alert"]
        for name in config["rule_files"]
        for group in loaded(rules_folder / name)["groups"]
        for rule in group["rules"]
    ]

    assert found == [rule.name for rule in RULES]


def test_scrape_has_the_name_that_the_rules_look_for(rules_folder: Path) -> None:
    """`up{job="hookline"}` is there with the configuration as it stands."""
    config = loaded(rules_folder / "prometheus.yml")

    assert [scrape["job_name"] for scrape in config["scrape_configs"]] == ["hookline"]
