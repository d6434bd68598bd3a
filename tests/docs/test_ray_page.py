"""docs/ray.md has an example for Kubernetes that says what Hookline understands."""

import re
import shlex
from pathlib import Path

import yaml

from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import ENGINE_OPTIONS
from hookline_server.cli.options.server import SERVER_OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "ray.md"


def test_example_for_kubernetes_starts_engines_on_workers() -> None:
    """Its command is one, and the workers have the CPUs that the engines ask for."""
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    program, command, *argv = shlex.split(spec["entrypoint"])

    options = [*SERVER_OPTIONS, *ENGINE_OPTIONS]
    arguments = read_arguments(
        "serve", "", options, argv, default_loggers=(), operand="model"
    )
    config = engine_config(arguments, in_process=False)

    [workers] = spec["rayClusterSpec"]["workerGroupSpecs"]
    [worker] = workers["template"]["spec"]["containers"]
    cpus = workers["replicas"] * int(worker["resources"]["limits"]["cpu"])
    assert (program, command) == ("hookline", "serve")
    assert len(config.remote_indices) * (config.executor.threads or 1) == cpus
    assert spec["rayClusterSpec"]["headGroupSpec"]["rayStartParams"] == {
        "num-cpus": "0"
    }
