"""Every distribution of the repository ships exactly what it should."""

import ast
import re
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hookline import __version__
from hookline_testing.distributions import (
    Distribution,
    names_of,
    read_distributions,
    with_needs,
)
from hookline_testing.essential import essential
from hookline_testing.release.archives import problems_of
from hookline_testing.release.versions import (
    HOLDER,
    held_version,
    range_of,
    set_version,
)
from hookline_testing.structure.sources import parsed
from hookline_testing.table_walk import for_each_row

ROOT = Path(__file__).parents[2]
PACKAGES = {
    ".": set[str](),
    "core": {"hookline"},
    "core/description": {"hookline_description"},
    "core/host": {"hookline_host"},
    "core/kernels": {"hookline_kernels"},
    "core/models": {"hookline_models"},
    "metrics": {"hookline_metrics"},
    "offline": {"hookline_offline"},
    "models/demo": {"hookline_demo_model"},
    "plugins/commands/completion": {"hookline_completion"},
    "plugins/commands/insight": {"hookline_insight"},
    "plugins/commands/replay": {"hookline_replay"},
    "plugins/engines/gateway": {"hookline_gateway"},
    "plugins/engines/process": {"hookline_process_engine"},
    "plugins/engines/vllm": {"hookline_vllm"},
    "plugins/engines/vllm_engine": {"hookline_vllm_engine"},
    "plugins/executors/background_compiling": {"hookline_background_compiling"},
    "plugins/executors/null": {"hookline_null"},
    "plugins/executors/simulated": {"hookline_simulated"},
    "plugins/loggers/kv_events": {"hookline_kv_events"},
    "plugins/loggers/live": {"hookline_live"},
    "plugins/loggers/logging": {"hookline_logging"},
    "plugins/loggers/observer": {"hookline_observer"},
    "plugins/loggers/otel": {"hookline_otel"},
    "plugins/loggers/prometheus": {"hookline_prometheus"},
    "plugins/loggers/request_log": {"hookline_request_log"},
    "plugins/models/families": {"hookline_families"},
    "plugins/models/gguf": {"hookline_gguf"},
    "plugins/models/hub": {"hookline_hub"},
    "plugins/models/lora": {"hookline_lora"},
    "plugins/models/pooling": {"hookline_pooling"},
    "plugins/models/quantized": {"hookline_quantized"},
    "plugins/parsers/chat_formats": {"hookline_chat_formats"},
    "plugins/sampling/processors": {"hookline_processors"},
    "plugins/recorders/recording": {"hookline_recording"},
    "plugins/scale/cluster": {"hookline_cluster"},
    "plugins/scale/ranks": {"hookline_ranks"},
    "plugins/scale/ray": {"hookline_ray"},
    "plugins/scheduling/fair": {"hookline_fair"},
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
    "server": {"hookline_server"},
    "tools/bench": {"hookline_bench"},
    "tools/dashboards": {"hookline_dashboards"},
    "tools/faults": {"hookline_faults"},
    "tools/pd_proxy": {"hookline_pd_proxy"},
    "tools/testing": {"hookline_testing"},
}
DISTRIBUTIONS = read_distributions(ROOT)
Archives = Callable[[str], tuple[Path, Path]]
COMMON = set(DISTRIBUTIONS["hookline"].table["project"]["classifiers"])
"""Classifiers of all distributions."""
DATA = {
    "core": {"hookline/moved_modules.toml"},
    "models/demo": {
        "hookline_demo_model/weights/adapters/pirate/adapter_config.json",
        "hookline_demo_model/weights/adapters/pirate/adapter_model.safetensors",
        "hookline_demo_model/weights/config.json",
        "hookline_demo_model/weights/eagle/config.json",
        "hookline_demo_model/weights/eagle/model.safetensors",
        "hookline_demo_model/weights/medusa/config.json",
        "hookline_demo_model/weights/medusa/medusa_lm_head.safetensors",
        "hookline_demo_model/weights/model.safetensors",
        "hookline_demo_model/weights/tokenizer.json",
        "hookline_demo_model/weights/tokenizer_config.json",
    },
    "plugins/loggers/live": {
        f"hookline_live/static/{name}"
        for name in (
            *("index.html", "style.css", "icon.svg"),
            *("app.js", "data.js", "draw.js", "stream.js"),
        )
    },
}


def folder_of(distribution: Distribution) -> str:
    return distribution.folder.relative_to(ROOT).as_posix()


def test_every_project_is_checked_here() -> None:
    """A new plugin or model folder has to name its packages in this file."""
    found = set(map(folder_of, DISTRIBUTIONS.values()))

    assert found == set(PACKAGES)


@pytest.mark.parametrize(
    "project", essential(sorted(PACKAGES), ".", "core", "core/kernels", "tools/bench")
)
def test_wheel_ships_exactly_its_packages(project: str, archives: Archives) -> None:
    """
    A wheel, built by way of its sdist, has its own packages, typed, and no more; an
    index, an installer and a reader miss nothing in either.
    """
    [name] = [each for each, one in DISTRIBUTIONS.items() if folder_of(one) == project]

    sdist, wheel = archives(name)

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = archive.read(f"{wheel.name.rsplit('-', 3)[0]}.dist-info/METADATA")
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == PACKAGES[project]
    assert {f"{package}/__init__.py" for package in top} <= names
    assert DATA.get(project, set()) <= names
    assert (problems_of(sdist), problems_of(wheel)) == ([], [])
    assert b"Project-URL: Repository, https://example.org/us\n" in text
    assert not re.search(rb"\]\((?!https?:|#)", text)  # links that lead nowhere


@for_each_row("distribution", DISTRIBUTIONS.values(), ids=folder_of)
def test_projects_agree_on_version_and_python(distribution: Distribution) -> None:
    """All distributions are released together, and for the same Pythons."""
    facts = distribution.table["project"]

    assert facts["version"] == __version__
    assert facts["requires-python"] == ">=3.11"
    assert facts["authors"] == DISTRIBUTIONS["hookline"].table["project"]["authors"]
    assert set(facts["classifiers"]) >= COMMON


@for_each_row("distribution", DISTRIBUTIONS.values(), ids=folder_of)
def test_projects_take_versions_of_ours_that_fit(distribution: Distribution) -> None:
    """
    `hookline` brings what was tested together; any other takes what has the same
    seams, so that one may be released alone.
    """
    is_set = distribution.name == "hookline"
    wanted = SpecifierSet(f"=={__version__}" if is_set else range_of(__version__))
    facts = distribution.table["project"]
    extras = facts.get("optional-dependencies", {})

    for line in chain(facts.get("dependencies", ()), *extras.values()):
        requirement = Requirement(line)
        if requirement.name.startswith("hookline-"):
            assert requirement.specifier == wanted


def test_hookline_brings_what_make_installs() -> None:
    """The rest by extras, of which `all` has every one."""
    facts = DISTRIBUTIONS["hookline"].table["project"]
    extras = facts["optional-dependencies"]
    [everything] = map(Requirement, extras["all"])
    makefile = (ROOT / "Makefile").read_text("utf-8")
    made = {
        name
        for name, each in DISTRIBUTIONS.items()
        if each.folder.parent.name != "tools"
        or f"{folder_of(each)}/pyproject.toml" in makefile
    }

    brought = {"hookline", *DISTRIBUTIONS["hookline"].needs}
    by_extras = DISTRIBUTIONS["hookline"].options

    assert everything.extras == extras.keys() - {"all"}
    assert made - brought - by_extras == set()
    assert brought - made == set()
    assert by_extras - DISTRIBUTIONS.keys() == set()


def test_versions_are_set_in_one_go(tmp_path: Path) -> None:
    """
    The command changes whatever names the version, so that these tests pass again.
    """
    projects = [each.folder / "pyproject.toml" for each in DISTRIBUTIONS.values()]
    deployed = (ROOT / "deploy").rglob("*.yaml")
    for path in (ROOT / HOLDER, *projects, *deployed):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text("utf-8"), "utf-8")

    changed = {path.relative_to(tmp_path) for path in set_version(tmp_path, "7.1.2")}

    assert held_version(tmp_path) == "7.1.2"
    assert changed >= {path.relative_to(ROOT) for path in projects}
    assert Path("deploy/helm/hookline/Chart.yaml") in changed
    for path in changed:
        text = (tmp_path / path).read_text("utf-8")
        assert f'"{__version__}"' not in text
        assert range_of(__version__) not in text
    with pytest.raises(ValueError, match=r"give three numbers"):
        set_version(tmp_path, "v8")


@for_each_row("distribution", DISTRIBUTIONS.values(), ids=folder_of)
def test_projects_depend_on_what_they_import(distribution: Distribution) -> None:
    """Of ours: always, or with an extra; what they import no more is not installed."""
    owners = {
        package.name: each.name
        for each in DISTRIBUTIONS.values()
        for package in each.packages
    }
    files = [path for each in distribution.packages for path in each.rglob("*.py")]

    imported = {
        owners[top] for path in files for top in imported_by(path) if top in owners
    }

    declared = {name for name in distribution.needs if name in DISTRIBUTIONS}
    if distribution.packages:  # else it is there for what it depends on
        assert declared - imported == set()
    assert imported - declared - distribution.options - {distribution.name} == set()


@for_each_row("distribution", DISTRIBUTIONS.values(), ids=folder_of)
def test_command_of_a_readme_installs_all_it_needs(distribution: Distribution) -> None:
    """In a checkout pip does not look for ours: it would ask an index for them."""
    text = (distribution.folder / "README.md").read_text("utf-8")
    names = {folder_of(each): name for name, each in DISTRIBUTIONS.items()}

    for command in re.findall(r"^\$ pip install (-e .+)$", text, re.MULTILINE):
        folders = re.findall(r"-e ([\w./]+)", command)
        installed = {names[folder] for folder in folders}
        assert with_needs(DISTRIBUTIONS, installed) == installed


def test_constraints_pin_every_dependency() -> None:
    """An install from the repository takes no version that was not tested."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = names_of(line for line in lines if "==" in line)

    wanted = {
        name
        for distribution in DISTRIBUTIONS.values()
        for name in distribution.needs | grouped(distribution)
    }

    torchs_own = {"triton"}  # each build of torch wants one version, or none
    assert wanted - torchs_own - DISTRIBUTIONS.keys() <= pinned


def grouped(distribution: Distribution) -> frozenset[str]:
    groups = distribution.table.get("dependency-groups", {}).values()
    return names_of(line for group in groups for line in group if isinstance(line, str))


def imported_by(path: Path) -> set[str]:
    """Top names of what a file imports, also in functions."""
    names = set[str]()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}
