"""Manifests are what an API server takes, and ask servers for what they do."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hookline_cluster.config import ClusterConfig
from hookline_testing.manifests import compact, problem_of
from hookline_testing.serve_options import options_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMAS = Path(__file__).parent / "schemas"
FILES = sorted([*FOLDER.glob("*.yaml"), *(ROOT / "deploy/kuberay").glob("*.yaml")])
PAGES = ROOT / "tests/plugins/loggers/prometheus/golden"
PROBES = {
    "startupProbe": "/health/ready",
    "readinessProbe": "/health/ready",
    "livenessProbe": "/health/live",
}
READ_BY_PICKERS = {
    "vllm": {
        "vllm:num_requests_waiting": set[str](),
        "vllm:num_requests_running": set[str](),
        "vllm:kv_cache_usage_perc": set[str](),
        "vllm:lora_requests_info": {
            *("max_lora", "running_lora_adapters", "waiting_lora_adapters"),
        },
        "vllm:cache_config_info": {"block_size", "num_gpu_blocks"},
    },
    "sglang": {
        "sglang:num_queue_reqs": set[str](),
        "sglang:num_running_reqs": set[str](),
        "sglang:token_usage": set[str](),
        "sglang:cache_config_info": {"page_size", "num_pages"},
    },
}
"""Names and labels that llm-d's endpoint picker reads from servers whose label
`llm-d.ai/engine-type` has this value: the defaults of its core-metrics-extractor at
520af478."""


def objects(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


def named(name: str, kind: str, *, of: str) -> dict[str, Any]:
    [found] = [
        each
        for each in objects(FOLDER / name)
        if each["kind"] == kind and each["metadata"]["name"] == of
    ]
    return found


def containers(node: Any) -> Iterator[dict[str, Any]]:
    """Containers with the server's image, wherever they are in an object."""
    if isinstance(node, dict):
        if str(node.get("image", "")).startswith("hookline:"):
            yield node
        for each in node.values():
            yield from containers(each)
    elif isinstance(node, list):
        for each in node:
            yield from containers(each)


SERVERS = [
    pytest.param(container, id=f"{path.stem}-{container['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for each in objects(path)
    for container in containers(each)
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_manifests_fit_the_published_schemas(path: Path) -> None:
    """
    Kubernetes' own, and those of custom resources; nobody's field is misspelt.
    """
    found = {f"{each['kind']}": problem_of(each, SCHEMAS) for each in objects(path)}

    assert found
    assert {kind: problem for kind, problem in found.items() if problem} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_schemas_refuse_what_nobody_knows(path: Path) -> None:
    """
    A misspelt field of any object's specification is found.
    """
    for each in objects(path):
        wrong = copy.deepcopy(each)
        below = next((k for k in ("spec", "data", "roleRef") if k in wrong), "metadata")
        if below in {"data", "metadata"}:
            wrong["specs"] = {}
        else:
            wrong[below]["replicaz"] = 1

        assert problem_of(wrong, SCHEMAS)


def test_pod_templates_of_custom_resources_are_checked() -> None:
    """
    Kubernetes' schema of pods holds inside of them, too.
    """
    wrong = named("leader-worker-set.yaml", "LeaderWorkerSet", of="hookline")
    template = wrong["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["containers"][0]["imagee"] = "hookline"

    assert "imagee" in problem_of(wrong, SCHEMAS)


def test_schemas_are_cut_down_from_definitions() -> None:
    """
    Without descriptions and the status, closed, with what may be anything left open.
    """
    field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    port = {"x-kubernetes-int-or-string": True, "description": "A port."}
    spec = {
        "type": "object",
        "properties": {"free": {**field, "properties": {}}, "port": port},
        "required": ["port"],
    }
    top = {"type": "object", "properties": {"spec": spec, "status": field}}
    version = {"name": "v2", "storage": True, "schema": {"openAPIV3Schema": top}}
    definition = {
        "spec": {"names": {"kind": "Thing"}, "group": "a.b", "versions": [version]}
    }

    name, schema = compact(definition)

    assert name == "thing-a.b-v2.json"
    assert schema["properties"]["spec"] == {
        "type": "object",
        "required": ["port"],
        "properties": {
            "free": {"type": "object"},
            "port": {"type": ["integer", "string"]},
        },
        "additionalProperties": False,
    }
    assert "status" not in schema["properties"]
    assert "description" not in json.dumps(schema)


@pytest.mark.parametrize("container", SERVERS)
def test_servers_take_the_arguments(container: dict[str, Any], tmp_path: Path) -> None:
    """
    Each option of a container is one of `serve`, with what the controllers put in.
    """
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    filled = {
        "$(LWS_GROUP_SIZE)": "2",
        "$(LWS_WORKER_INDEX)": "1",
        "$(LWS_LEADER_ADDRESS)": "127.0.0.1",
        "$(POD_IP)": "127.0.0.1",
        "/etc/hookline-machines/secret": str(secret),
    }
    arguments = [
        re.sub("|".join(map(re.escape, filled)), lambda found: filled[found[0]], each)
        for each in container["args"]
    ]

    config, settings = options_of(arguments)

    assert "$" not in " ".join(arguments)
    if "--headless" in arguments:
        assert ClusterConfig.of(config).machines.start_rank == 1
        return
    machines = ClusterConfig.of(config).machines
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert settings.port == ports["http"]
    assert ports.get("engines", machines.rpc_port) == machines.rpc_port
    assert settings.host == ("0.0.0.0",)  # noqa: S104


@pytest.mark.parametrize("container", SERVERS)
def test_servers_are_given_as_little_as_possible(container: dict[str, Any]) -> None:
    """
    A read-only root file system, and no privileges; what is written has a volume.
    """
    rights = container["securityContext"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]}

    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert mounted >= {"/home/hookline/.cache", "/tmp"}  # noqa: S108


@pytest.mark.parametrize("container", SERVERS)
def test_servers_with_an_api_have_all_probes(container: dict[str, Any]) -> None:
    """
    A start is given minutes; a server that lives is not ended while it is not ready.
    """
    if "--headless" in container["args"]:
        assert not PROBES.keys() & container.keys()
        return

    assert {name: container[name]["httpGet"]["path"] for name in PROBES} == PROBES
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600


def test_pool_finds_its_servers_and_its_picker() -> None:
    """
    Selectors, ports and names fit together, and the picker may read what it watches.
    """
    name = "inference-pool.yaml"
    pool = named(name, "InferencePool", of="hookline")
    servers = named(name, "Deployment", of="hookline")["spec"]["template"]
    picker = named(name, "Deployment", of="hookline-picker")["spec"]["template"]
    service = named(name, "Service", of="hookline-picker")
    [container] = picker["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    given = dict(each.lstrip("-").split("=") for each in container["args"])
    role = named(name, "Role", of="hookline-picker")
    readable = {
        (rule["apiGroups"][0], each)
        for rule in role["rules"]
        for each in rule["resources"]
    }
    route = named(name, "HTTPRoute", of="hookline")

    labels = servers["metadata"]["labels"]
    reference = pool["spec"]["endpointPickerRef"]
    assert pool["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert [each["number"] for each in pool["spec"]["targetPorts"]] == [
        each["containerPort"] for each in servers["spec"]["containers"][0]["ports"]
    ]
    assert reference["name"] == service["metadata"]["name"]
    [port] = service["spec"]["ports"]
    assert reference["port"]["number"] == port["port"] == ports[port["targetPort"]]
    assert given["grpc-port"] == str(ports["grpc"])
    assert given["pool-name"] == pool["metadata"]["name"]
    assert given["pool-namespace"] == pool["metadata"]["namespace"]
    config = named(name, "ConfigMap", of="hookline-picker")["data"]
    assert given["config-file"].rpartition("/")[2] in config
    assert ("inference.networking.k8s.io", "inferencepools") in readable
    assert ("", "pods") in readable
    [rule] = route["spec"]["rules"]
    assert rule["backendRefs"][0]["name"] == pool["metadata"]["name"]


def test_picker_uses_the_plugins_that_it_declares() -> None:
    """
    Each plugin of the profile is there, and none is without effect.
    """
    data = named("inference-pool.yaml", "ConfigMap", of="hookline-picker")["data"]
    config = yaml.safe_load(data["picker.yaml"])
    [profile] = config["schedulingProfiles"]

    declared = {each["type"] for each in config["plugins"]}
    assert {each["pluginRef"] for each in profile["plugins"]} == declared


@pytest.mark.parametrize("engine_type", READ_BY_PICKERS)
@pytest.mark.parametrize("page", ["everything", "scripted"])
def test_endpoint_pickers_find_their_metrics(engine_type: str, page: str) -> None:
    """
    Under exactly these names, as gauges, with the labels that hold the numbers.
    """
    wanted = READ_BY_PICKERS[engine_type]
    lines = (PAGES / f"{page}.{engine_type}.text").read_text("utf-8").splitlines(True)
    text = "".join(
        each for each in lines if wanted.keys() & set(re.split(r"[ {]", each))
    )
    families = {each.name: each for each in text_string_to_metric_families(text)}

    for name, labels in wanted.items():
        family = families[name]
        assert family.type == "gauge"
        assert len(family.samples) == 1
        [sample] = family.samples
        assert labels <= sample.labels.keys()
        for label in labels - {"running_lora_adapters", "waiting_lora_adapters"}:
            assert int(sample.labels[label]) >= 0


def test_servers_say_whose_names_their_metrics_have() -> None:
    """
    The label that endpoint pickers read has a value that the test above holds.
    """
    labels = [
        line.split()[1]
        for path in sorted(FOLDER.glob("*.yaml"))
        for line in path.read_text("utf-8").splitlines()
        if line.strip().startswith("llm-d.ai/engine-type:")
    ]

    assert len(labels) == 2
    assert set(labels) <= READ_BY_PICKERS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pods_get_no_variables_of_services(path: Path) -> None:
    """
    That of a service `hookline` would be the option `--port`: HOOKLINE_PORT.
    """
    specs = [spec for each in objects(path) for spec in pods(each)]

    assert all(spec.get("enableServiceLinks") is False for spec in specs)


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Specifications of pods that have the server's image."""
    if isinstance(node, dict):
        if any(
            str(each["image"]).startswith("hookline")
            for each in node.get("containers", ())
        ):
            yield node
        for each in node.values():
            yield from pods(each)
    elif isinstance(node, list):
        for each in node:
            yield from pods(each)
