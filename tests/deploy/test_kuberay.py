"""The examples for KubeRay are commands that the server takes, on clusters that fit."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hookline_cluster.config import ClusterConfig
from hookline_testing.serve_options import options_of

FOLDER = Path(__file__).parents[2] / "deploy" / "kuberay"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


def documents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job and the service of an example."""
    job, service = yaml.safe_load_all(path.read_text("utf-8"))
    return job, service


def container(group: dict[str, Any]) -> dict[str, Any]:
    [found] = group["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_workers_have_room_for_what_the_server_places(path: Path) -> None:
    """
    Its options exist, and as many actors with as many CPUs fit the workers.
    """
    job, _ = documents(path)
    [workers] = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    program, *command = job["spec"]["entrypoint"].split()

    config, _ = options_of(command)

    ranks = len(config.engine_indices) * config.parallel.world_size
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]
    room = int(container(workers)["resources"]["limits"]["cpu"])
    assert program == "hookline"
    assert "ray" in {ClusterConfig.of(config).machines.backend, config.executor_name}
    assert config.executor.threads == room
    assert ranks == workers["replicas"]
    assert head["rayStartParams"] == {"num-cpus": "0"}  # the server is there


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_service_leads_to_the_server(path: Path) -> None:
    """
    To the port of the pod on which the server runs.
    """
    job, service = documents(path)
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]
    _, settings = options_of(job["spec"]["entrypoint"].split()[1:])
    ports = {each["name"]: each["containerPort"] for each in container(head)["ports"]}
    [port] = service["spec"]["ports"]

    labels = head["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert ports[port["targetPort"]] == settings.port == port["port"]


def test_every_way_to_use_ray_has_an_example() -> None:
    """
    Engines as actors, and ranks of one engine.
    """
    assert [each.stem for each in EXAMPLES] == ["engines", "ranks"]
