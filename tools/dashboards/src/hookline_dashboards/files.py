"""All files generated from the catalogue."""

from collections.abc import Mapping

from hookline.metrics.catalogue import CATALOGUE
from hookline_dashboards.document import document
from hookline_dashboards.engine_alerts import ENGINE_ALERTS
from hookline_dashboards.expressions import Names
from hookline_dashboards.grafana import dashboard
from hookline_dashboards.recordings import RECORDING_GROUPS
from hookline_dashboards.rows import dashboard_rows
from hookline_dashboards.rule_files import rule_file
from hookline_dashboards.service_alerts import SERVICE_ALERTS

ALERT_GROUPS = (*ENGINE_ALERTS, *SERVICE_ALERTS)


def generated_files() -> Mapping[str, str]:
    """Returns the files' content by path in the repository."""
    names, rows = Names(CATALOGUE), dashboard_rows(CATALOGUE)
    groups = (*RECORDING_GROUPS, *ALERT_GROUPS)
    return {
        "deploy/grafana/hookline.json": dashboard(rows, names),
        "deploy/prometheus/recording_rules.yml": rule_file(RECORDING_GROUPS),
        "deploy/prometheus/alert_rules.yml": rule_file(ALERT_GROUPS),
        "docs/dashboards.md": document(rows, names, groups),
    }
