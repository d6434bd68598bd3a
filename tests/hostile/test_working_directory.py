"""A working directory full of modules that others have put there: none is imported."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_processes import supervised
from hookline_processes.python import start_python
from hookline_processes.supervised import Output, Supervised
from hookline_testing.essential import essential
from hookline_testing.server_process import serving
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.hostile

SECONDS = 240
NAMES = (
    *("torch", "msgspec", "zmq", "queue", "numpy", "aiohttp", "tokenizers", "hookline"),
    *("brotli", "brotlicffi", "zstandard", "uvloop", "opentelemetry", "xgrammar"),
    *("typing", "json", "argparse", "dataclasses", "socket"),
    *("sitecustomize", "usercustomize", "hookline_evil"),
)
"""Modules that Hookline or a library of it imports, or would if they were installed."""

MODULES = (
    "hookline_background_compiling.process",
    "hookline_cluster.engine_process",
    "hookline_cluster.machines.remote_engine_process",
    "hookline_cluster.ranks.connected_rank_process",
    "hookline_grammars.process",
    "hookline_observer.process",
    "hookline_process_engine.engine_process",
    "hookline_ranks.processes.rank_process",
    "hookline_server.api_servers.child",
    "hookline_server.texts.process",
)
"""What runs as a process; Ray's driver is not installed everywhere."""

IN_A_SERVER = (
    "hookline_cluster.engine_process",
    "hookline_grammars.process",
    "hookline_observer.process",
    "hookline_server.api_servers.child",
    "hookline_server.texts.process",
)
"""Those of a whole server, which is tried as well."""

GROUPS = ("commands", "engines", "executors", "extensions", "loggers", "models")
COMMANDS = ("hookline", "module", "module with an empty entry")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file in which the planted modules note that they were imported."""
    mark, folder = tmp_path / "mark", tmp_path / "downloaded"
    folder.mkdir()
    source = f"open({str(mark)!r}, 'a').write(__name__ + ' ')\nraise ImportError\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(source)
    metadata = folder / "hookline_evil-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: hookline-evil\nVersion: 1.0\n")
    groups = [f"[hookline.{each}]\nevil = hookline_evil\n" for each in GROUPS]
    (metadata / "entry_points.txt").write_text("".join(groups))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(supervised, "start_python", start_python)  # which imports
    yield mark
    assert not mark.exists(), mark.read_text()


def command_line(kind: str) -> tuple[list[str], dict[str, str]]:
    """A way to start the command, and its variables."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    if kind == "hookline":
        return [str(Path(sys.executable).with_name("hookline"))], variables
    if kind == "module with an empty entry":
        # Python itself looks for these two before a line of ours runs.
        for name in ("sitecustomize", "usercustomize"):
            Path(f"{name}.py").unlink()
        given = variables.get("PYTHONPATH", "")
        variables["PYTHONPATH"] = f"{given}:"
    return [sys.executable, "-m", "hookline_server"], variables


def test_modules_there_would_be_imported(mark: Path) -> None:
    """Without our care Python takes them, and they leave their mark."""
    subprocess.run([sys.executable, "-c", "import queue"], check=False)

    assert mark.read_text() == "queue "
    mark.unlink()


@pytest.mark.parametrize("kind", essential(COMMANDS, "hookline", COMMANDS[-1]))
@pytest.mark.usefixtures("mark")
def test_commands_import_nothing_from_there(kind: str) -> None:
    """Nor do they list a plugin that is there."""
    command, variables = command_line(kind)
    generate = ("generate", "--prompt=a", "--max-tokens=1", "--executor=simulated")
    for arguments in (("plugins",), generate, ("serve", "--help")):
        done = subprocess.run(
            [*command, *arguments],
            env=variables,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "evil" not in done.stdout


@pytest.mark.parametrize(
    "module", essential(MODULES, *[each for each in MODULES if each not in IN_A_SERVER])
)
@pytest.mark.usefixtures("mark")
def test_processes_import_nothing_from_there(module: str) -> None:
    """Each does all of its imports; that nobody tells it what to do comes later."""
    process = Supervised(module, name=module, output=Output.NONE)
    process.hang_up()
    try:
        wait_until(lambda: process.exit_code is not None, f"{module} goes on")
    finally:
        process.kill()
        process.close(SECONDS)


@pytest.mark.usefixtures("mark")
def test_a_server_with_all_its_processes_imports_nothing_from_there() -> None:
    """API servers, engine, texts, grammars, observer: they answer from there."""
    grammar = {"type": "json_object"}
    message = {"role": "user", "content": "a"}
    body = {"messages": [message], "max_tokens": 2, "response_format": grammar}
    arguments = (
        *("--port=0", "--api-server-count=2", "--threads=1", "--num-kv-blocks=256"),
        *("--observer-process", "--stat-logger=request_log"),
        *("--stat-logger-option=request_log.path=requests.jsonl",),
    )

    with serving(*arguments, is_forked=False) as server:
        status, answer = server.post("/v1/chat/completions", body)

    assert status == 200, answer
