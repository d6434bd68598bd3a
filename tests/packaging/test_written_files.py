"""Whatever may hold prompts is written by one function; other files are known."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hookline_testing.structure.sources import called, parsed

ROOT = Path(__file__).parents[2]
SHIPPED = (
    *("core", "metrics", "offline", "plugins", "processes", "registry", "server"),
    *("tools/bench", "tools/dashboards", "tools/pd_proxy"),
)
WRITERS = {
    *("mkstemp", "NamedTemporaryFile", "FileHandler", "RotatingFileHandler"),
    *("save_file", "save_pretrained", "copyfile", "copytree"),
}
METHODS = {"write_text", "write_bytes"}
WITHOUT_PROMPTS = {
    "core/host/src/hookline_host/cache_folders.py": "a byte, to see whether it can",
    "core/host/src/hookline_host/folders.py": "memory without a name",
    "core/models/src/hookline_models/checkpoints/support.py": "a copy of config.json",
    "metrics/src/hookline_metrics/keeper.py": "sums, in the private folder of sockets",
    "plugins/loggers/observer/src/hookline_observer/kept_merging.py": "likewise",
    "plugins/connectors/shared_storage/src/hookline_shared_storage/store.py": (
        "`mkstemp` in a folder of the user's own"
    ),
    "processes/src/hookline_processes/usage.py": "the name of this process, in /proc",
    "plugins/models/gguf/src/hookline_gguf/view.py": "what a model's file says of it",
    "plugins/models/hub/src/hookline_hub/pulling.py": "the commit of a model's branch",
    "plugins/models/hub/src/hookline_hub/receiving.py": "a public model's files",
    "plugins/speculative/eagle/src/hookline_eagle/checkpoint.py": "weights",
    "plugins/speculative/medusa/src/hookline_medusa/checkpoint.py": "weights",
    "tools/bench/src/hookline_bench/sweep.py": "a plot",
    "tools/dashboards/src/hookline_dashboards/__main__.py": "dashboards and rules",
}
THE_FUNCTION = "processes/src/hookline_processes/private_files.py"


def writes(call: ast.Call) -> bool:
    """Whether a call can open a file for writing."""
    name = called(call)
    if name in WRITERS or (name in METHODS and isinstance(call.func, ast.Attribute)):
        return True
    if name not in {"open", "fdopen"}:
        return False
    given = [*call.args, *(each.value for each in call.keywords)]
    texts = [each.value for each in given if isinstance(each, ast.Constant)]
    modes = [each for each in texts if isinstance(each, str) and len(each) <= 3]
    flags = " ".join(ast.unparse(each) for each in given)
    return any(set(each) & set("wax+") for each in modes) or "O_CREAT" in flags


def writing(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            nodes = ast.walk(parsed(path))
            if any(isinstance(node, ast.Call) and writes(node) for node in nodes):
                yield str(path.relative_to(ROOT))


def test_files_are_written_by_one_function() -> None:
    """It makes them for their user only, and follows no link."""
    assert {*writing(SHIPPED)} == {THE_FUNCTION, *WITHOUT_PROMPTS}


def test_what_writes_is_found() -> None:
    """The search finds what it searches for, and not what only reads."""
    written = "open(a, 'w'); b.open('ab'); os.open(c, os.O_CREAT); d.write_text(e)"
    read = "open(a); b.open('rb'); os.open(c, os.O_RDONLY); d.read_text('utf-8')"

    for text, expected in ((written, True), (read, False)):
        nodes = ast.walk(ast.parse(text))
        calls = [writes(each) for each in nodes if isinstance(each, ast.Call)]
        assert calls == [expected] * 4
