"""The plugin of docs/write-a-plugin.md, built and installed as its readers would."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write-a-plugin.md").read_text("utf-8")
FILES = dict(
    re.findall(
        r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL
    )
)
MOST_LINES = 30
PROMPT = "def add(a, b):"
RECEIPT = re.compile(r"^length, 5 tokens, TTFT \d+\.\d+ s$", flags=re.MULTILINE)


def call(*command: str | Path, cwd: Path) -> str:
    """Runs a command, which must succeed, and gives all that it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(command),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def build(project: Path, folder: Path) -> Path:
    """Builds a project's wheel."""
    before = set(folder.glob("*.whl"))
    hatch = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    call(*hatch, "-d", folder, cwd=project)
    [wheel] = set(folder.glob("*.whl")) - before
    return wheel


def install(folder: Path, wheels: list[Path]) -> Path:
    """Installs wheels into a new virtual environment and gives its commands' folder.

    What they depend on is seen through the running interpreter's packages, which come
    last on the path, and only once pip is done: it must not take them for installed.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    scripts = Path(sysconfig.get_path("scripts", "venv", {"base": str(folder)}))
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python")]
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    call(*pip, "install", *options, *wheels, cwd=folder)
    outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "outer.pth").write_text("\n".join(sorted(outer)), "utf-8")
    return scripts


def test_plugin_is_short() -> None:
    """Both files together have at most thirty lines."""
    lines = [line for source in FILES.values() for line in source.splitlines()]

    assert set(FILES) == {"pyproject.toml", "hookline_receipts.py"}
    assert len(lines) <= MOST_LINES


@pytest.mark.timeout(180)
def test_plugin_works_where_it_is_installed(tmp_path: Path) -> None:
    """In a clean environment beside Hookline's wheels its output is seen, its option
    is heard, and its class can be named by path."""
    project, wheels = tmp_path / "receipts", tmp_path / "wheels"
    project.mkdir()
    wheels.mkdir()
    for name, source in FILES.items():
        (project / name).write_text(source, "utf-8")
    sources = [ROOT, ROOT / "models" / "demo", project]

    scripts = install(tmp_path / "venv", [build(source, wheels) for source in sources])

    ask = "import hookline, hookline_server; print(hookline.__file__)"
    home = call(scripts / "python", "-c", ask, cwd=tmp_path)
    assert Path(home.strip()).is_relative_to(tmp_path / "venv")
    generate = [str(scripts / "hookline"), "generate", "--model", "demo"]
    generate += ["--prompt", PROMPT, "--max-tokens", "5", "--ignore-eos"]
    text = call(*generate, "--stat-logger", "receipts", cwd=tmp_path)
    assert RECEIPT.search(text), text
    assert PROMPT in text
    generate += ["--executor", "simulated"]
    option = ["--stat-logger-option", "receipts.seconds=3600"]
    text = call(*generate, "--stat-logger", "receipts", *option, cwd=tmp_path)
    assert "TTFT" not in text
    by_path = ["--stat-logger", "hookline_receipts:Receipts"]
    text = call(*generate, *by_path, cwd=project)
    assert RECEIPT.search(text), text
