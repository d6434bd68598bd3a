"""Renders docs/dashboards.md: how to use the dashboards, and what the alerts say."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hookline_dashboards.grafana import uid
from hookline_dashboards.panel import Row
from hookline_dashboards.rows import NOT_SHOWN
from hookline_dashboards.rule import Alert, Group
from hookline_dashboards.service_alerts import SLO_TARGET
from hookline_metrics.metric import OWN_DIALECT

_HEAD = """\
# Dashboards and alerts

`python -m hookline_dashboards` generates this page from the metrics catalogue; do not
edit it by hand. The panels, rules and alerts are data in
`tools/dashboards/src/hookline_dashboards/`.

`docker compose -f deploy/compose/compose.yml up` starts a server together with a
Prometheus and a Grafana that have all of this.

## Prometheus

[`deploy/prometheus/`](../deploy/prometheus/) has a configuration with all rules. Put
your servers in place of `localhost:8000` and start it:

```sh
prometheus --config.file=deploy/prometheus/prometheus.yml
```

If you already run Prometheus, add `recording_rules.yml` and `alert_rules.yml` to
`rule_files`, and scrape the servers in a job named `hookline`, which HooklineTargetDown
expects. If the servers have API keys, give the job one with the scope `metrics` as
`authorization`. The rules need the dialect `hookline`, which `--metrics-dialect`
includes by default. This tests that each alert fires, and when it must not:

```sh
promtool test rules deploy/prometheus/alert_tests.yml
```

### Native histograms

In Prometheus's protobuf format, the page has each histogram as a classic and as a
native one, whose buckets are at most 10 % wider than the one below. The panels and
rules read classic histograms, so let Prometheus store both, as the compose file does:

| Prometheus | native | and classic |
|---|---|---|
| 2.40 to 2.44 | `--enable-feature=native-histograms` | not possible |
| 2.45 to 2.55 | the same | `scrape_classic_histograms: true` in the job |
| 3.0 to 3.8 | the same | `always_scrape_classic_histograms: true` in the job |
| 3.9 and newer | `scrape_native_histograms: true` in the job | the same |

In the Helm chart, `serviceMonitor.scrapeNativeHistograms` and
`serviceMonitor.scrapeClassicHistograms` do this for Prometheus's operator.

A Prometheus that stores native histograms alone has no `_bucket`, `_count` and `_sum`.
Where you cannot change that, start the servers with
`--prometheus-native-histogram-bucket-factor 1`, which turns native histograms off.
Queries of native histograms need no `le`:

```promql
histogram_quantile(0.99, sum(rate(hookline_time_to_first_token_seconds[5m])))
```

## Grafana

Import [`deploy/grafana/hookline.json`](../deploy/grafana/hookline.json) (Dashboards,
New, Import), which asks for the data source, or provision the file, which takes the
default one. It needs Grafana 11 or newer, and a Prometheus data source that is
configured with Prometheus's scrape interval, because all rates are over
`$__rate_interval`. The variables at the top select models, servers and engines.
Collapsed rows send no queries until they are expanded.

Each panel's description says what its metrics mean and which option they need; its
links lead to the panels that explain it. Blue lines mark deploys: an engine began to
run a version, kernels (`isa`) or configuration (`config_hash`) that it had not run in
the hour before.

"""

_ALERTS = f"""\
Objectives are set by `--slo` or by a request; the alerts assume that {SLO_TARGET:.0%}
of requests have to meet them. For notifications, configure an Alertmanager and route by
the label `severity`: critical immediately, warning within the working day.
"""

_OTHERS = """\
Servers without the dialect `hookline` (`--metrics-dialect`) have dashboards of their
own, with the panels for which the dialect has the numbers, and without deploys:
"""

_NOT_SHOWN = """\
These metrics have no panel:
"""

_KUBERNETES = """\
## Kubernetes

[`deploy/helm/hookline/`](../deploy/helm/hookline/) is a Helm chart with servers and
their probes, a Service, and an autoscaler that follows the saturation. For Prometheus's
operator and Grafana's chart it adds a ServiceMonitor, the rules and the dashboards. The
image is that of `deploy/docker/Dockerfile`, in your own registry:

```sh
helm install demo deploy/helm/hookline \\
    --set image.repository=registry.example/hookline \\
    --set serviceMonitor.enabled=true,prometheusRule.enabled=true \\
    --set dashboards.enabled=true
```

[`values.yaml`](../deploy/helm/hookline/values.yaml) explains each value; `config` takes
the options of `hookline serve`, and `apiKeys` names the Secret with the API keys.
`engines.count` puts several engines into each pod; with `engines.mode` `ray` they are
actors on a Ray cluster of KubeRay's operator.

[`deploy/kubernetes/`](../deploy/kubernetes/) has examples without Helm:

| file | for |
|---|---|
| `inference-pool.yaml` | a gateway: InferencePool v1 with llm-d's endpoint picker |
| `leader-worker-set.yaml` | engines on several machines, as a LeaderWorkerSet |
| `keda.yaml`, `hpa.yaml` | autoscalers on the saturation |

Tests hold all manifests, and what Helm makes of the chart, against the schemas that
Kubernetes and the projects publish, and the metrics against the names and labels that
endpoint pickers read. None of them has run on a cluster.
"""


def document(rows: Mapping[str, Sequence[Row]], groups: Iterable[Group]) -> str:
    """Returns the page as Markdown, from rows by dialect and the groups of alerts."""
    rules = [rule for group in groups for rule in group.rules]
    alerts = [rule for rule in rules if isinstance(rule, Alert)]
    lines = [_HEAD + _listed(rows[OWN_DIALECT]), "", _NOT_SHOWN]
    lines.extend(f"- `{name}`: {reason}" for name, reason in NOT_SHOWN.items())
    lines.extend(("", _OTHERS))
    lines.extend(map(_dialect, sorted(rows.keys() - {OWN_DIALECT})))
    lines.extend(("", _KUBERNETES, "## Alerts", "", _ALERTS))
    for alert in alerts:
        lines.extend(_alert(alert))
    return "\n".join(lines)


def _listed(rows: Iterable[Row]) -> str:
    counted = ", ".join(f"{row.title} ({len(row.panels)})" for row in rows)
    return textwrap.fill(f"The rows, and how many panels each has: {counted}.", 88)


def _dialect(dialect: str) -> str:
    path = f"deploy/grafana/{uid(dialect)}.json"
    return f"- [`{path}`](../{path})"


def _alert(alert: Alert) -> Iterator[str]:
    wait = "immediately" if alert.wait == "0s" else f"after {alert.wait}"
    yield from (f"### {alert.name}", "", f"{alert.severity.capitalize()}, {wait}.", "")
    yield from ("```promql", alert.expression, "```", "", alert.next_step, "")
