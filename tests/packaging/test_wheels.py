"""Every distribution of the repository ships exactly what it should."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from hookline_testing.essential import essential
from hookline_testing.table_walk import for_each_row

ROOT = Path(__file__).parents[2]
PACKAGES = {
    ".": {"hookline", "hookline_metrics", "hookline_offline", "hookline_server"},
    "core/kernels": {"hookline_kernels"},
    "core/models": {"hookline_models"},
    "models/demo": {"hookline_demo_model"},
    "plugins/engines/process": {"hookline_process_engine"},
    "plugins/executors/background_compiling": {"hookline_background_compiling"},
    "plugins/executors/simulated": {"hookline_simulated"},
    "plugins/loggers/kv_events": {"hookline_kv_events"},
    "plugins/loggers/logging": {"hookline_logging"},
    "plugins/loggers/observer": {"hookline_observer"},
    "plugins/loggers/otel": {"hookline_otel"},
    "plugins/loggers/prometheus": {"hookline_prometheus"},
    "plugins/loggers/request_log": {"hookline_request_log"},
    "plugins/models/families": {"hookline_families"},
    "plugins/models/pooling": {"hookline_pooling"},
    "plugins/models/quantized": {"hookline_quantized"},
    "plugins/parsers/chat_formats": {"hookline_chat_formats"},
    "plugins/sampling/processors": {"hookline_processors"},
    "plugins/recorders/recording": {"hookline_recording"},
    "plugins/scale/cluster": {"hookline_cluster"},
    "plugins/scale/ranks": {"hookline_ranks"},
    "plugins/scale/ray": {"hookline_ray"},
    "plugins/speculative/drafting": {"hookline_drafting"},
    "plugins/speculative/eagle": {"hookline_eagle"},
    "plugins/speculative/medusa": {"hookline_medusa"},
    "plugins/connectors/cpu_offload": {"hookline_cpu_offload"},
    "plugins/connectors/kv_transfer": {"hookline_kv_transfer"},
    "plugins/connectors/p2p": {"hookline_p2p"},
    "plugins/connectors/shared_storage": {"hookline_shared_storage"},
    "plugins/speculative/ngram": {"hookline_ngram"},
    "plugins/structured/grammars": {"hookline_grammars"},
    "plugins/structured/llguidance": {"hookline_llguidance"},
    "plugins/structured/xgrammar": {"hookline_xgrammar"},
    "processes": {"hookline_processes"},
    "registry": {"hookline_registry"},
    "tools/bench": {"hookline_bench"},
    "tools/dashboards": {"hookline_dashboards"},
    "tools/faults": {"hookline_faults"},
    "tools/pd_proxy": {"hookline_pd_proxy"},
    "tools/testing": {"hookline_testing"},
}
PROJECTS = [
    ROOT / "pyproject.toml",
    *sorted(ROOT.glob("core/*/pyproject.toml")),
    ROOT / "processes" / "pyproject.toml",
    ROOT / "registry" / "pyproject.toml",
    *sorted(ROOT.glob("plugins/*/*/pyproject.toml")),
    *sorted(ROOT.glob("models/*/pyproject.toml")),
    *sorted(ROOT.glob("tools/*/pyproject.toml")),
]
DATA = {
    "models/demo": {
        "hookline_demo_model/weights/config.json",
        "hookline_demo_model/weights/eagle/config.json",
        "hookline_demo_model/weights/eagle/model.safetensors",
        "hookline_demo_model/weights/medusa/config.json",
        "hookline_demo_model/weights/medusa/medusa_lm_head.safetensors",
        "hookline_demo_model/weights/model.safetensors",
        "hookline_demo_model/weights/tokenizer.json",
        "hookline_demo_model/weights/tokenizer_config.json",
    }
}


def folder_of(project: Path) -> str:
    return project.parent.relative_to(ROOT).as_posix()


def test_every_project_is_checked_here() -> None:
    """A new plugin or model folder has to name its packages in this file."""
    found = set(map(folder_of, PROJECTS))

    assert found == set(PACKAGES)


@pytest.mark.parametrize(
    "project", essential(sorted(PACKAGES), ".", "core/kernels", "tools/bench")
)
def test_wheel_ships_exactly_its_packages(project: str, tmp_path: Path) -> None:
    """A wheel, built by way of its sdist, has its own packages, typed, and no more."""
    build = ["build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT / project)]

    subprocess.run([sys.executable, "-m", *build], check=True, capture_output=True)

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == PACKAGES[project]
    assert {f"{package}/py.typed" for package in top} <= names
    assert {f"{package}/__init__.py" for package in top} <= names
    assert DATA.get(project, set()) <= names


@for_each_row("project", PROJECTS, ids=folder_of)
def test_projects_agree_on_version_and_python(project: Path) -> None:
    """All distributions are released together, and for the same Pythons."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    facts = tomllib.loads(project.read_text("utf-8"))["project"]

    assert facts["version"] == root["version"]
    assert facts["requires-python"] == root["requires-python"]


def test_constraints_pin_every_dependency() -> None:
    """An install from the repository takes no version that was not tested."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line}

    wanted = {
        normal(requirement)
        for project in PROJECTS
        for requirement in requirements(project)
    }

    torchs_own = {"triton"}  # each build of torch wants one version, or none
    ours = {name for name in wanted if name.startswith("hookline")}
    assert wanted - torchs_own - ours <= pinned


def requirements(project: Path) -> list[str]:
    table = tomllib.loads(project.read_text("utf-8"))
    groups = table.get("dependency-groups", {}).values()
    grouped = [line for group in groups for line in group if isinstance(line, str)]
    return [*table["project"].get("dependencies", []), *grouped]


def normal(requirement: str) -> str:
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return name.lower().replace("_", "-")
