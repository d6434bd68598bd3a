"""`hookline plugins new`: packages of each kind, which conform as they are written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.config import EngineConfig
from hookline.config.extensions import DRAFTING
from hookline.exceptions import ConfigError
from hookline.payloads import ExtensionContext
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import EXTENSION, KINDS
from hookline_registry import PluginKind, installed
from hookline_server.cli import main
from hookline_testing.conformance import assert_conforms, faults_of
from hookline_testing.kit.project import TEMPLATES, files_of
from hookline_testing.plugin_site import PluginSite

NAME = "hookline-my-own"
SLOW = {
    *("extension", "logits_processor", "model_family", "model_loader"),
    "quantization_method",
}
"""Kinds whose suites import torch, or run a model."""
CASES = [
    pytest.param(kind, id=kind.name, marks=[pytest.mark.slow] * (kind.name in SLOW))
    for kind in KINDS
]


def test_every_kind_has_a_template_and_a_suite() -> None:
    """No kind of plugin is without, and none is there for a kind that is gone."""
    kinds = {kind.name for kind in KINDS}
    suites = TEMPLATES.parent.parent / "conformance" / "suites"
    for folder in (TEMPLATES, suites):
        names = {file.stem for file in folder.glob("*.py")} - {"__init__"}

        assert names == kinds, folder.name


@pytest.mark.parametrize("kind", CASES)
def test_a_new_plugin_conforms(
    kind: PluginKind, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is written for a kind is found by its name, and has no fault."""
    (tmp_path / "site").mkdir()
    argv = ["plugins", "new", NAME, "--kind", kind.name, "--folder", str(tmp_path)]

    with PluginSite(tmp_path / "site") as site:
        assert main(argv) == 0
        site.install_project(tmp_path / NAME)
        faults = faults_of(kind.name, "my-own")

    assert faults == ()
    assert str(tmp_path / NAME) in capfd.readouterr().out


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_placeholder_is_left(kind: PluginKind) -> None:
    """The files have the author's names, and compile."""
    files = files_of(kind, NAME)

    left = re.compile(r"\bsample(_|\b)|\bSample[A-Z]")
    assert not [path for path, text in files.items() if left.search(path + text)]
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--kind", "logger"], "NAME is missing"),
        (["mine"], "--kind is missing"),
        (["Mine!", "--kind", "logger"], "is no name of a package"),
        (["mine", "--kind", "logr"], "invalid choice: 'logr'"),
        (["there", "--kind", "logger"], "cannot be written: File exists"),
    ],
)
def test_what_cannot_be_written_is_said(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name or kind is one line, and no folder is written over."""
    (tmp_path / "there").mkdir()

    assert main(["plugins", "new", *argv, "--folder", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def test_without_the_templates_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Templates belong to a distribution of their own."""
    monkeypatch.setenv("HOOKLINE_PLUGINS", "no:hookline-testing")

    assert main(["plugins", "new", "mine"]) == 2
    assert "pip install hookline-testing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("logger", "prometheus"),
        ("recorder", "metrics"),
        ("proposer", "ngram"),
        ("connector", "cpu_offload"),
        ("tool_parser", "hermes"),
        ("reasoning_parser", "deepseek_r1"),
        ("structured_output_backend", "llguidance"),
        ("engine", "native"),
        ("executor", "simulated"),
        ("config_section", "metrics"),
        ("command", "bench"),
        ("model", "demo"),
    ],
)
def test_our_own_plugins_conform(kind: str, name: str) -> None:
    """What authors are asked for, Hookline's own plugins do."""
    assert_conforms(kind, name)


@pytest.mark.parametrize(
    "name",
    [
        each.name
        for each in installed(EXTENSION.group)
        # Its method's plugin refuses them; an engine of vLLM's has no side of ours.
        if each.name not in {DRAFTING, "vllm"}
    ],
)
def test_our_extensions_refuse_an_unknown_option(name: str) -> None:
    """A mistyped option of `--extension-config` or of a feature's own is an error."""
    context = ExtensionContext(config=EngineConfig(), options={"no_such_option": 1})

    with pytest.raises(ConfigError, match=r"no_such_option|unknown key"):
        call_plugin(EXTENSION, name, context, option=name)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_new_plugin_installs_and_its_test_passes(tmp_path: Path) -> None:
    """Pip installs it as it is, and its own test finds it."""
    argv = ["plugins", "new", NAME, "--kind", "logger", "--folder", str(tmp_path)]
    assert main(argv) == 0
    site, project = tmp_path / "site", tmp_path / NAME
    install = ["-m", "pip", "install", "--no-build-isolation", "--no-deps", "-q"]
    install += ["--target", str(site), str(project)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    runs = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]

    done = subprocess.run(
        runs,
        cwd=project,
        env={"PYTHONPATH": str(site), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
