"""What is installed from wheels works without what is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_testing.clean_environment import CleanEnvironment, build_wheel
from hookline_testing.distributions import read_distributions, with_needs, without
from hookline_testing.essential import essential
from hookline_testing.server_process import serving

ROOT = Path(__file__).parents[2]
OURS = read_distributions(ROOT)
MODEL = "hookline-demo-model"
FEATURES = [
    each.name for each in OURS.values() if each.folder.is_relative_to(ROOT / "plugins")
]
GENERATE = """
import sys
from hookline import LLM, SamplingParams
with LLM("demo") as llm:
    [output] = llm.generate("class A:", SamplingParams(max_tokens=4))
assert len(output.outputs[0].token_ids) == 4
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""

Install = Callable[[set[str]], CleanEnvironment]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the wheel of a distribution, once."""
    folder, built = tmp_path_factory.mktemp("wheels"), dict[str, Path]()

    def build(name: str) -> Path:
        if name not in built:
            built[name] = build_wheel(OURS[name], folder)
        return built[name]

    return build


@pytest.fixture
def install(wheels: Callable[[str], Path], tmp_path: Path) -> Install:
    """Installs distributions, and no other of ours, into a new environment."""

    def make(names: set[str]) -> CleanEnvironment:
        environment = CleanEnvironment(tmp_path / "venv")
        environment.install(map(wheels, sorted(names)))
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
def test_hookline_serves_without_plugins(install: Install) -> None:
    """What `pip install hookline` brings answers requests, and has the command."""
    environment = install({*with_needs(OURS, {"hookline"}), MODEL})

    assert environment.run("hookline", "--version").startswith("hookline ")
    serve(environment, "--stat-logger", "none")


@pytest.mark.timeout(600)  # the first builds all wheels
@pytest.mark.parametrize("feature", essential(FEATURES))
def test_hookline_serves_without_a_feature(feature: str, install: Install) -> None:
    """Each folder of plugins can be left out, with those that need it."""
    names = without(OURS, feature) & with_needs(
        OURS, {"hookline", MODEL, *FEATURES} - {"hookline-ray"}
    )

    serve(install(names), "--stat-logger", "none")


def serve(environment: CleanEnvironment, *options: str) -> None:
    python = environment.command("python")
    argv = ("--model", "demo", "--port", "0", *options)
    with serving(*argv, python=python) as server:
        body = {"model": "demo", "prompt": "class A:", "max_tokens": 4}
        status, reply = server.post("/v1/completions", body)
        assert (status, reply["usage"]["completion_tokens"]) == (200, 4)
        assert server.end() == 0
