"""All files generated from the catalogue."""

from collections.abc import Mapping

from hookline_dashboards.document import document
from hookline_dashboards.engine_alerts import ENGINE_ALERTS
from hookline_dashboards.expressions import Names
from hookline_dashboards.grafana import dashboard, uid
from hookline_dashboards.recordings import RECORDING_GROUPS
from hookline_dashboards.rows import dashboard_rows
from hookline_dashboards.rule_files import rule_file
from hookline_dashboards.service_alerts import SERVICE_ALERTS
from hookline_metrics.catalogue import CATALOGUE, DIALECTS

ALERT_GROUPS = (*ENGINE_ALERTS, *SERVICE_ALERTS)


def generated_files() -> Mapping[str, str]:
    """Returns the files' content by path in the repository."""
    names = {dialect: Names(CATALOGUE, dialect) for dialect in DIALECTS}
    rows = {dialect: dashboard_rows(CATALOGUE, dialect) for dialect in DIALECTS}
    dashboards = {
        f"deploy/grafana/{uid(each)}.json": dashboard(rows[each], names[each])
        for each in DIALECTS
    }
    return {
        **dashboards,
        "deploy/prometheus/recording_rules.yml": rule_file(RECORDING_GROUPS),
        "deploy/prometheus/alert_rules.yml": rule_file(ALERT_GROUPS),
        "docs/dashboards.md": document(rows, ALERT_GROUPS),
    }
