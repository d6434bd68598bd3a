"""Renders docs/dashboards.md: panels, alerts and recorded series."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hookline_dashboards.description import metrics_of
from hookline_dashboards.expressions import Names
from hookline_dashboards.grafana import uid
from hookline_dashboards.panel import Row
from hookline_dashboards.rows import NOT_SHOWN
from hookline_dashboards.rule import Alert, Group, Recording
from hookline_dashboards.service_alerts import SLO_TARGET
from hookline_metrics.metric import OWN_DIALECT, Metric

_HEAD = """\
# Dashboard and alerts

Generated from the metrics catalogue by `python -m hookline_dashboards`; do not edit by
hand. Panels, rules and alerts are data in `tools/dashboards/src/hookline_dashboards/`.

## Prometheus

[`deploy/prometheus/`](../deploy/prometheus/) has a configuration with all rules.
Replace `localhost:8000` by your servers and start it:

```sh
prometheus --config.file=deploy/prometheus/prometheus.yml
```

In an existing Prometheus, add `recording_rules.yml` and `alert_rules.yml` to
`rule_files`, and scrape the servers in a job named `hookline`, which HooklineTargetDown
expects; with API keys, set one with the scope `metrics` as `authorization`. The rules
use the metric names of the dialect `hookline`, which is in the default of
`--metrics-dialect`.
This tests each alert, firing and not firing:

```sh
promtool test rules deploy/prometheus/alert_tests.yml
```

### Native histograms

Pages in Prometheus' protobuf format have each histogram also as a native one, with
buckets that are at most 10 % wider than the one below. The compose file's Prometheus
takes both:

| Prometheus | native | classic beside them, for the dashboards and rules |
|---|---|---|
| 2.40 to 2.44 | `--enable-feature=native-histograms` | not possible |
| 2.45 to 2.55 | the same | `scrape_classic_histograms: true` of the job |
| 3.0 to 3.8 | the same | `always_scrape_classic_histograms: true` of the job |
| 3.9 and newer | `scrape_native_histograms: true` of the job | the same |

A Prometheus that takes native histograms alone has no series with `_bucket`, `_count`
and `_sum`, which the panels and rules read. Where that cannot be set,
`--prometheus-native-histogram-bucket-factor 1` leaves them out of the page. Queries of
native histograms need no `le`:

```promql
histogram_quantile(0.99, sum(rate(hookline_time_to_first_token_seconds[5m])))
```

With Prometheus's operator, `serviceMonitor.scrapeNativeHistograms` and
`serviceMonitor.scrapeClassicHistograms` of the Helm chart say the same.

## Grafana

Dashboards, New, Import:
[`deploy/grafana/hookline.json`](../deploy/grafana/hookline.json). It needs Grafana 11
or newer and a Prometheus data source with the scrape interval of Prometheus's
configuration, as all rates are over `$__rate_interval`. The variables at the top select
models, servers and engines. Collapsed rows send no queries until they are expanded.

Blue lines mark deploys: an engine began to run a version, kernels (`isa`) or
configuration (`config_hash`) that it did not run in the hour before. The links of a
panel lead to the panels that explain it.

Servers without the dialect `hookline` (`--metrics-dialect`) have the dashboards
[below](#other-dialects), which mark no deploys.

`docker compose -f deploy/compose/compose.yml up` starts a server with a Prometheus and
a Grafana that have all of this.

## Kubernetes

[`deploy/helm/hookline/`](../deploy/helm/hookline/) is a Helm chart: servers with
probes, a Service, an autoscaler on saturation, and, for Prometheus's operator and
Grafana's chart, a ServiceMonitor, the rules and the dashboards. The image is that of
`deploy/compose/Dockerfile`, in a registry of yours:

```sh
helm install demo deploy/helm/hookline \\
    --set image.repository=registry.example/hookline \\
    --set serviceMonitor.enabled=true,prometheusRule.enabled=true \\
    --set dashboards.enabled=true
```

[`values.yaml`](../deploy/helm/hookline/values.yaml) explains each value; `config` has
the options of `hookline serve`, and API keys are in a Secret that `apiKeys` names.
"""

_ALERTS = f"""\
Objectives are set by `--slo` or by a request; the alerts assume that {SLO_TARGET:.0%}
of requests have to meet them. For notifications, configure an Alertmanager and route by
the label `severity`: critical immediately, warning within the working day.
"""

_OTHERS = """\
Their dashboards have those of these panels whose numbers the dialect has:
"""

_RECORDED = """\
Their expressions are in
[`recording_rules.yml`](../deploy/prometheus/recording_rules.yml).
"""


def document(
    rows: Mapping[str, Sequence[Row]],
    names: Mapping[str, Names],
    groups: Iterable[Group],
) -> str:
    """Returns the page as Markdown, from rows and names by dialect."""
    rules = [rule for group in groups for rule in group.rules]
    alerts = [rule for rule in rules if isinstance(rule, Alert)]
    recordings = [rule for rule in rules if isinstance(rule, Recording)]
    lines = [_HEAD, "## Panels", ""]
    for row in rows[OWN_DIALECT]:
        lines.extend(_row(row, names[OWN_DIALECT]))
    lines.extend(("### Other dialects", "", _OTHERS))
    lines.extend(map(_dialect, sorted(rows.keys() - {OWN_DIALECT})))
    lines.append("")
    lines.extend(("### Metrics without a panel", ""))
    lines.extend(f"- `{name}`: {reason}" for name, reason in NOT_SHOWN.items())
    lines.extend(("", "## Alerts", "", _ALERTS))
    for alert in alerts:
        lines.extend(_alert(alert))
    lines.extend(("## Recorded series", "", _RECORDED))
    lines.extend(f"- `{rule.name}`" for rule in recordings)
    return "\n".join((*lines, ""))


def _row(row: Row, names: Names) -> Iterator[str]:
    yield from (f"### {row.title}", "")
    for panel in row.panels:
        metrics = ", ".join(map(_metric, metrics_of(panel, names)))
        yield f"- {panel.title}: {metrics}"
    yield ""


def _dialect(dialect: str) -> str:
    path = f"deploy/grafana/{uid(dialect)}.json"
    return f"- [`{path}`](../{path})"


def _metric(metric: Metric) -> str:
    name = f"`{metric.exposed(metric.name)}`"
    if metric.feature is None:
        return name
    return f"{name} (with `--{metric.feature}`{metric.feature.note})"


def _alert(alert: Alert) -> Iterator[str]:
    wait = "immediately" if alert.wait == "0s" else f"after {alert.wait}"
    yield from (f"### {alert.name}", "", f"{alert.severity.capitalize()}, {wait}.", "")
    yield from ("```promql", alert.expression, "```", "", alert.next_step, "")
