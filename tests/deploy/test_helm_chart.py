"""The Helm chart fits its values, the server's options, rules and dashboards."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookline_cluster.config import ClusterConfig
from hookline_metrics import CATALOGUE
from hookline_testing.manifests import problem_of
from hookline_testing.serve_options import options_of

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "hookline"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
TEMPLATES = {path.name: path.read_text("utf-8") for path in CHART.glob("templates/*")}
EVERYTHING = {
    "apiKeys": {"existingSecret": "keys"},
    "serviceMonitor": {"enabled": True, "authorization": {"existingSecret": "token"}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
KEYS = {"keys": [{"name": "one", "key": "sk-one"}]}
RAY = {
    "engines": {"mode": "ray", "count": 3},
    "apiKeys": {"existingSecret": "keys", "key": "k"},
    "volumes": [{"name": "weights", "emptyDir": {}}],
    "volumeMounts": [{"name": "weights", "mountPath": "/models"}],
    "nodeSelector": {"disk": "fast"},
}
SCHEMAS = Path(__file__).parent / "schemas"
ALWAYS = ["ConfigMap", "Deployment", "Service"]


def closed_objects(
    schema: dict[str, Any], values: dict[str, Any]
) -> list[tuple[set[str], set[str]]]:
    """The keys that the schema allows and that the values have, object by object."""
    if schema.get("additionalProperties") is not False:
        return []
    inner = [
        pair
        for key, value in values.items()
        if isinstance(value, dict)
        for pair in closed_objects(schema["properties"][key], value)
    ]
    return [(set(schema["properties"]) - {"global"}, set(values)), *inner]


def test_schema_has_exactly_the_values() -> None:
    """
    A value that is not in values.yaml is refused, and each that is there is known.
    """
    objects = closed_objects(SCHEMA, VALUES)

    assert len(objects) >= 8
    for allowed, there in objects:
        assert allowed == there


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_read_values_that_are_there(name: str) -> None:
    """
    Each path into the values leads somewhere.
    """
    for path in re.findall(r"\.Values((?:\.\w+)+)", TEMPLATES[name]):
        value: Any = VALUES
        for key in path.strip(".").split("."):
            assert key in value
            value = value[key]


def test_every_value_is_read_by_a_template() -> None:
    """
    No value is without effect.
    """
    text = "".join(TEMPLATES.values())

    assert [key for key in VALUES if f".Values.{key}" not in text] == []


def test_server_takes_the_configuration_and_the_arguments(tmp_path: Path) -> None:
    """
    The values' options and the arguments of the container are those of `serve`.
    """
    keys = tmp_path / VALUES["apiKeys"]["key"]
    keys.write_text(yaml.safe_dump(KEYS))
    path = tmp_path / "serve.yaml"
    path.write_text(yaml.safe_dump(VALUES["config"]))
    given = re.findall(r"^ +- (--[\w-]+)=", TEMPLATES["deployment.yaml"], re.MULTILINE)
    values = {
        "--config": path,
        "--host": "0.0.0.0",  # noqa: S104
        "--port": VALUES["service"]["port"],
        "--shutdown-delay": VALUES["shutdownDelaySeconds"],
        "--api-keys": keys,
        "--data-parallel-size": 2,
    }
    command = ["serve", *(f"{flag}={values[flag]}" for flag in given)]

    config, settings = options_of(command)

    assert set(given) == set(values)
    assert config.model.model == VALUES["config"]["model"]
    assert settings.port == VALUES["service"]["port"]
    assert VALUES["terminationGracePeriodSeconds"] > settings.shutdown_seconds + 10


def test_files_are_the_generated_ones() -> None:
    """
    The chart has every dashboard and rule of the repository, as links to the files.
    """
    found = {path.resolve() for path in CHART.glob("files/*/*")}
    dashboards = {path.stem for path in (ROOT / "deploy/grafana").glob("*.json")}
    names = SCHEMA["properties"]["dashboards"]["properties"]["names"]

    assert found == {
        *(ROOT / "deploy/grafana").glob("*.json"),
        *(ROOT / "deploy/prometheus").glob("*_rules.yml"),
    }
    assert set(names["items"]["enum"]) == dashboards


def test_scrapes_have_the_job_that_the_alerts_expect() -> None:
    """
    The job is the label that names the application: hookline.
    """
    alerts = (ROOT / "deploy/prometheus/alert_rules.yml").read_text("utf-8")

    assert "jobLabel: app.kubernetes.io/name" in TEMPLATES["monitoring.yaml"]
    assert "app.kubernetes.io/name: hookline" in TEMPLATES["_helpers.tpl"]
    assert 'up{job="hookline"}' in alerts


def test_scrapes_keep_the_classic_histograms() -> None:
    """
    The dashboards read buckets, so that native histograms never take their place.
    """
    values, template = VALUES["serviceMonitor"], TEMPLATES["monitoring.yaml"]

    assert values["scrapeClassicHistograms"] is True
    for field in ("scrapeClassicHistograms", "scrapeNativeHistograms"):
        assert f"{{{{- if .{field} }}}}\n  {field}: true\n" in template


def test_autoscaler_reads_a_metric_of_the_catalogue() -> None:
    """
    Both kinds of autoscaler read the saturation.
    """
    named = re.findall(r"\bhookline_\w+", TEMPLATES["autoscaler.yaml"])

    assert set(named) == {"hookline_saturation_ratio"}
    assert len(named) == 2
    assert set(named) <= {metric.name for metric in CATALOGUE}


def rendered(
    helm: Path, values: dict[str, Any], folder: Path
) -> tuple[list[dict[str, Any]], str]:
    """The objects that Helm makes, or none and what it says."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    done = subprocess.run(
        [helm, "template", "release", CHART, "--values", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(folder)},
    )
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    return (objects, "") if done.returncode == 0 else ([], done.stderr)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({}, ALWAYS),
        ({"autoscaling": {"kind": "hpa"}}, [*ALWAYS, "HorizontalPodAutoscaler"]),
        ({"autoscaling": {"kind": "keda"}}, [*ALWAYS, "ScaledObject"]),
        ({"engines": {"count": 4}}, ALWAYS),
        (RAY, ["ConfigMap", "RayJob", "Service"]),
        (
            EVERYTHING,
            [
                *ALWAYS,
                "ConfigMap",
                "PrometheusRule",
                "PrometheusRule",
                "ServiceMonitor",
            ],
        ),
    ],
    ids=["default", "hpa", "keda", "engines", "ray", "everything"],
)
def test_helm_renders_what_an_api_server_takes(
    helm: Path, tmp_path: Path, values: dict[str, Any], kinds: list[str]
) -> None:
    """
    Helm takes the values and makes the objects that they ask for, by their schemas.
    """
    objects, error = rendered(helm, values, tmp_path)

    assert error == ""
    assert sorted(each["kind"] for each in objects) == sorted(kinds)
    assert len({(each["kind"], each["metadata"]["name"]) for each in objects}) == len(
        objects
    )
    found = {each["kind"]: problem_of(each, SCHEMAS) for each in objects}
    assert {kind: problem for kind, problem in found.items() if problem} == {}


def test_several_engines_are_processes_of_each_pod(helm: Path, tmp_path: Path) -> None:
    """
    The server is told how many; one needs no word.
    """
    four, _ = rendered(helm, {"engines": {"count": 4}}, tmp_path)
    one, _ = rendered(helm, {}, tmp_path)

    assert "--data-parallel-size=4" in arguments(four)
    assert not [each for each in arguments(one) if "data-parallel" in each]


def arguments(objects: list[dict[str, Any]]) -> list[str]:
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return [str(each) for each in container["args"]]


def test_ray_cluster_has_room_and_is_reached(helm: Path, tmp_path: Path) -> None:
    """
    A worker for each engine; the service leads to the server on the head alone, which
    takes the command and has the files that it names.
    """
    objects, _ = rendered(helm, RAY, tmp_path)
    [job] = [each for each in objects if each["kind"] == "RayJob"]
    [service] = [each for each in objects if each["kind"] == "Service"]
    cluster = job["spec"]["rayClusterSpec"]
    head, [workers] = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    [container] = head["template"]["spec"]["containers"]
    program, *command = job["spec"]["entrypoint"].split()
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    files = {
        "/etc/hookline/serve.yaml": {"model": "demo"},
        "/etc/hookline-keys/k": KEYS,
    }
    for path, content in files.items():
        (tmp_path / Path(path).name).write_text(yaml.safe_dump(content))
        command = [
            each.replace(path, str(tmp_path / Path(path).name)) for each in command
        ]

    config, settings = options_of(command)

    assert program == "hookline"
    assert {str(Path(path).parent) for path in files} <= mounted
    assert len(config.engine_indices) == workers["replicas"] == 3
    assert ClusterConfig.of(config).machines.backend == "ray"
    assert head["rayStartParams"] == {"num-cpus": "0"}
    labels = head["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert "metadata" not in workers["template"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["http"] == settings.port
    mounts = workers["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "weights", "mountPath": "/models"} in mounts


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"engines": {"mode": "ray"}, "autoscaling": {"kind": "keda"}}, "autoscaling"),
        ({"engines": {"mode": "ray"}, "replicas": 2}, "replicas"),
        ({"config": {"model": "demo", "data-parallel-size": 2}}, "config"),
        ({"engines": {"mode": "threads"}}, "mode"),
        ({"enginez": {}}, "enginez"),
    ],
)
def test_helm_refuses_values_without_meaning(
    helm: Path, tmp_path: Path, values: dict[str, Any], word: str
) -> None:
    """
    With the place of the value in its error.
    """
    objects, error = rendered(helm, values, tmp_path)

    assert objects == []
    assert word in error
