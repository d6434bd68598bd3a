"""What is installed from wheels works without what is not."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hookline_testing.clean_environment import CleanEnvironment
from hookline_testing.distributions import read_distributions, with_needs, without
from hookline_testing.essential import essential
from hookline_testing.server_process import serving

ROOT = Path(__file__).parents[2]
OURS = read_distributions(ROOT)
MODEL = "hookline-demo-model"
FEATURES = [
    each.name for each in OURS.values() if each.folder.is_relative_to(ROOT / "plugins")
]
LIST_OURS = """
from importlib.metadata import distributions
print(*(each.name for each in distributions() if each.name.startswith("hookline")))
"""
GENERATE = """
import sys
from hookline import LLM, SamplingParams
with LLM("demo") as llm:
    [output] = llm.generate("class A:", SamplingParams(max_tokens=4))
assert len(output.outputs[0].token_ids) == 4
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""

Archives = Callable[[str], tuple[Path, Path]]
Install = Callable[[set[str]], CleanEnvironment]


@pytest.fixture
def install(archives: Archives, tmp_path: Path) -> Install:
    """Installs distributions, and no other of ours, into a new environment."""

    def make(names: set[str]) -> CleanEnvironment:
        environment = CleanEnvironment(tmp_path / "venv")
        environment.install(archives(name)[1] for name in sorted(names))
        return environment

    return make


@pytest.mark.slow
def test_core_works_alone(install: Install) -> None:
    """It knows no server and no metrics; with offline inference and models it works."""
    names = with_needs(OURS, {"hookline-core"})
    assert names == {
        "hookline-core",
        "hookline-host",
        "hookline-kernels",
        "hookline-processes",
        "hookline-registry",
    }

    added = with_needs(OURS, {"hookline-models", "hookline-offline", MODEL})
    imported = install({*names, *added}).run("python", "-c", GENERATE).split()

    assert "hookline" in imported
    assert "aiohttp" not in imported


@pytest.mark.slow
def test_server_serves_without_plugins(install: Install) -> None:
    """The server's distribution answers requests, and has the command."""
    environment = install(with_needs(OURS, {"hookline-server", MODEL}))

    assert environment.run("hookline", "--version").startswith("hookline ")
    serve(environment, "--stat-logger", "none")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pip_install_hookline_serves(archives: Archives, tmp_path: Path) -> None:
    """
    With wheels alone, no index and no compiler, pip finds all that serving needs: the
    plugins that `make` installs, and what extras add.
    """
    wheels = [archives(name)[1] for name in OURS]
    environment = CleanEnvironment(tmp_path / "venv")

    environment.install_by_name(["hookline[gpu,otel]"], wheels[0].parent)

    installed = environment.run("python", "-c", LIST_OURS).split()
    assert set(installed) == with_needs(OURS, {"hookline"})
    scripts = str(environment.command("python").parent)
    assert shutil.which("cc", path=scripts) is None
    serve(environment, environment_variables={"PATH": scripts})


@pytest.mark.timeout(600)  # the first builds all wheels
@pytest.mark.parametrize("feature", essential(FEATURES))
def test_hookline_serves_without_a_feature(feature: str, install: Install) -> None:
    """Each folder of plugins can be left out, with those that need it."""
    names = without(OURS, feature) & with_needs(
        OURS, {"hookline-server", MODEL, *FEATURES} - {"hookline-ray"}
    )

    serve(install(names), "--stat-logger", "none")


def serve(
    environment: CleanEnvironment,
    *options: str,
    environment_variables: Mapping[str, str] | None = None,
) -> None:
    python = environment.command("python")
    argv = ("--model", "demo", "--port", "0", *options)
    with serving(*argv, python=python, environment=environment_variables) as server:
        body = {"model": "demo", "prompt": "class A:", "max_tokens": 4}
        status, reply = server.post("/v1/completions", body)
        assert (status, reply["usage"]["completion_tokens"]) == (200, 4)
        assert server.end() == 0
