"""No source reads pickles, evaluates text or runs what a file contains."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hookline_testing.structure.sources import parsed

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "core",
    "offline",
    "processes",
    "registry",
    "server",
    "plugins",
    "models",
    "tools",
)
BARE = {"eval", "exec", "compile", "__import__"}
MODULES = {"cPickle", "cloudpickle", "dill", "marshal", "pickle", "shelve"}
READERS = {"load", "loads", "Unpickler", "open"}
SHELLS = {("os", "system"), ("os", "popen")}


def found_in(path: Path) -> Iterator[str]:
    """Calls in a file that could run what somebody else wrote."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and (what := unsafe(node)):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {what}"


def unsafe(call: ast.Call) -> str | None:
    """What is wrong with a call."""
    keywords = {each.arg: each.value for each in call.keywords}
    if is_true(keywords.get("shell")) or is_true(keywords.get("trust_remote_code")):
        return "a shell, or remote code"
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id in BARE else None
    if not (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    ):
        return None
    module, name = function.value.id, function.attr
    if (module, name) in SHELLS or (module in MODULES and name in READERS):
        return f"{module}.{name}"
    if (module, name) == ("torch", "load") and not is_true(
        keywords.get("weights_only")
    ):
        return "torch.load without weights_only"
    return None


def is_true(value: ast.expr | None) -> bool:
    """Whether an argument is the constant True."""
    return isinstance(value, ast.Constant) and value.value is True


def test_no_source_reads_code_or_pickles() -> None:
    """
    Files and messages are data: msgpack, JSON, YAML without tags, safetensors.
    """
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

    found = [each for path in paths for each in found_in(path)]

    assert len(paths) > 300
    assert found == []


def test_unsafe_calls_are_found() -> None:
    """
    The search finds what it searches for.
    """
    source = "eval(a); pickle.loads(b); torch.load(c); run(d, shell=True); os.system(e)"
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]

    assert all(unsafe(call) for call in calls)
    assert not unsafe(
        ast.parse("torch.load(a, weights_only=True)", mode="eval").body  # type: ignore[arg-type]
    )
