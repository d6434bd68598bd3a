"""Every process of Python is started by one function, which keeps its imports safe."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline_testing.structure.sources import called, parsed

ROOT = Path(__file__).parents[2]
SHIPPED = (
    *("core", "metrics", "offline", "plugins", "processes", "registry", "server"),
    *("tools/bench", "tools/dashboards", "tools/faults", "tools/pd_proxy"),
)
BY_HAND = ("benchmarks", "models")
"""Scripts that import each other from their own folder."""

INTERPRETER = {
    "processes/src/hookline_processes/python.py": "the function",
    "server/src/hookline_server/cli/secrets.py": "the command starts itself anew",
}
STARTERS = {
    *("Popen", "create_subprocess_exec", "create_subprocess_shell", "execv", "execve"),
    *("posix_spawn", "spawnv", "run", "call", "check_call", "check_output"),
}
"""Functions of `subprocess`, `asyncio` and `os`."""

STARTED = {
    "plugins/scale/ray/src/hookline_ray/two_nodes.py": "a command of the caller's",
    "processes/src/hookline_processes/python.py": "the function",
    "server/src/hookline_server/cli/secrets.py": "the command starts itself anew",
    "tools/bench/src/hookline_bench/server_start.py": "python_command",
    "tools/faults/src/hookline_faults/fuzzing/file_campaign.py": "python_command",
    "tools/faults/src/hookline_faults/fuzzing/watching.py": "python_command",
    "tools/pd_proxy/src/hookline_pd_proxy/demo.py": "python_command",
}


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")


def names_interpreter(path: Path) -> bool:
    return "executable" in path.read_text("utf-8") and any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
        for node in ast.walk(parsed(path))
    )


def starts_processes(path: Path) -> bool:
    """Whether a file calls something that starts a process of any program."""
    names = {
        ast.unparse(node.func).rpartition(".")[::2]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and called(node) in STARTERS
    }
    return any(
        module.rpartition(".")[2] in {"subprocess", "asyncio", "os"}
        for module, _ in names - {("asyncio", "run")}
    )


def where(holds: Callable[[Path], bool]) -> set[str]:
    """The shipped files of which it holds."""
    return {str(path.relative_to(ROOT)) for path in sources(*SHIPPED) if holds(path)}


def test_one_function_names_the_interpreter() -> None:
    """Whoever starts Python otherwise would let it import from where it runs."""
    assert where(names_interpreter) == INTERPRETER.keys()


@pytest.mark.slow
def test_no_process_is_started_otherwise() -> None:
    """Processes that are forked import nothing; others are known."""
    assert where(starts_processes) == STARTED.keys()


def test_scripts_run_modules_safely_as_well() -> None:
    """A script that is given as a file has its own folder in front, and no other."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources(*BY_HAND)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.List | ast.Tuple)
        and len(node.elts) > 1
        and ast.unparse(node.elts[0]) == "sys.executable"
        and ast.unparse(node.elts[1]) in {"'-m'", "'-c'"}
    ]

    assert wrong == []
