"""Faults of plugins, each told in one sentence with the author's line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.plugins.kinds import KINDS
from hookline_registry import RegistryError
from hookline_server.cli import main
from hookline_testing.conformance import ConformanceError, assert_conforms, faults_of
from hookline_testing.kit.project import kind_of, write_package
from hookline_testing.plugin_site import PluginSite
from hookline_testing.table_walk import for_each_row

NAME = "hookline-mine"
SOURCE = "src/hookline_mine/__init__.py"
PROJECT = "pyproject.toml"


@dataclass(frozen=True)
class Mistake:
    """A change of a new package, and what is said of it.

    Attributes:
        old: Text that is replaced.
        new: Its replacement.
        line: Text of the line that is named.
        says: What is said of it.
        file: The changed file.
    """

    old: str
    new: str
    line: str
    says: str
    file: str = SOURCE


LOGGER = {
    "misspelt group": Mistake(
        "hookline.loggers", "hookline.logger", "hookline.logger", "misspelt", PROJECT
    ),
    "no marker": Mistake(
        "    @hookimpl\n    def requests_finished",
        "    def requests_finished",
        "def requests_finished",
        "'requests_finished' has a hook's name and lacks the marker @hookimpl: write",
    ),
    "class": Mistake(
        "return MineLogger(context)",
        "return MineLogger",
        "return MineLogger",
        "returned the class MineLogger, not an instance of it: write `return Mine",
    ),
    "requirement": Mistake(
        '"hookline-core>=0.1,<0.2"',
        '"hookline-core>=9"',
        "hookline-core>=9",
        "it requires hookline-core>=9, and hookline-core 0.1",
        PROJECT,
    ),
    "text": Mistake(
        "return PageResponse(body=text.encode(), content_type=kind)",
        'return f"{text}{kind}"',
        "return f",
        "page returns str, and add_routes hands it over: write `return PageResponse(",
    ),
    "misspelt hook": Mistake(
        "def requests_finished",
        "def request_finished",
        "@hookimpl",
        "no hook 'request_finished'; did you mean 'requests_finished'?",
    ),
    "argument": Mistake(
        "requests_finished(self, finished: RequestsFinished)",
        "requests_finished(self, done: RequestsFinished)",
        "@hookimpl",
        "has the argument 'done', which it does not get: it gets finished",
    ),
    "coroutine": Mistake(
        "def requests_finished",
        "async def requests_finished",
        "@hookimpl",
        "hook 'requests_finished' is a coroutine; hooks are plain functions",
    ),
}
"""Mistakes of a logger that a server finds when it starts, and the doctor too."""

SUITE = [
    (
        "logger",
        Mistake(
            "@hookimpl\ndef add_cli_options",
            "def declared",
            "@hookimpl",
            "takes the unknown option 'no_such_option' in silence: declare",
        ),
    ),
    (
        "logger",
        Mistake(
            "finished: RequestsFinished)",
            "finished: LoggerContext)",
            "@hookimpl",
            "requests_finished gets RequestsFinished as 'finished', not LoggerContext",
        ),
    ),
    (
        "logger",
        Mistake(
            "done.output_tokens >=",
            "done.tokens >=",
            "done.tokens >=",
            "requests_finished raised AttributeError: 'FinishedRequest' object has no",
        ),
    ),
    (
        "logger",
        Mistake(
            "body=text.encode()",
            "body=text",
            "def page",
            "the page /mine: Expected 'bytes', got 'str' - at '$.body'",
        ),
    ),
    (
        "logger",
        Mistake(
            "return PageResponse(body=text.encode(), content_type=kind)",
            "return kind + text",
            "def page",
            "the page /mine returns str: write `return PageResponse(",
        ),
    ),
    (
        "proposer",
        Mistake(
            'refuse_unknown("mine", OPTION, context.options, ())',
            "pass",
            "@hookimpl",
            "create_proposer takes the unknown option 'no_such_option' in silence",
        ),
    ),
    (
        "proposer",
        Mistake(
            "Drafts(token_ids=drafts)",
            "Drafts(token_ids=[1.0])",
            "def propose",
            "Drafts.token_ids are [drafts] of int, not [1] of float64",
        ),
    ),
    (
        "proposer",
        Mistake(
            "Drafts(token_ids=drafts)",
            "Drafts(token_ids=[1] * 9)",
            "def propose",
            "propose drafts 9 tokens where max_drafts is",
        ),
    ),
    (
        "proposer",
        Mistake(
            "Drafts(token_ids=drafts)",
            "Drafts(token_ids=[1], probabilities=[[0.25, 0.25]])",
            "def propose",
            "each row of Drafts.probabilities adds up to 1",
        ),
    ),
    (
        "proposer",
        Mistake(
            "    def release", "    def forget", "class MineProposer", "has no release"
        ),
    ),
    (
        "connector",
        Mistake(
            "return count * size, False",
            "return [count * size]",
            "def get_num_new_matched_tokens",
            "what get_num_new_matched_tokens returns: Expected",
        ),
    ),
    (
        "connector",
        Mistake(
            "TransferResults(loaded=loaded)",
            'TransferResults(loaded=["1"])',
            "def get_finished",
            "what get_finished returns: Expected 'int', got 'str' - at '$.loaded[0]'",
        ),
    ),
    (
        "config_section",
        Mistake('key: ClassVar = "mine"', 'key: ClassVar = "its"', "@", "its key is"),
    ),
    (
        "command",
        Mistake("def run(", "def go(", "@hookimpl", "has no function run(argv)"),
    ),
    (
        "tool_parser",
        Mistake(
            "    needs_special_tokens = False\n",
            "    needs_special_tokens = False\n\n"
            "    def push(self, text):\n        return super().push(text.strip())\n",
            "def push",
            "its parts depend on how",
        ),
    ),
    (
        "tap",
        Mistake(
            "self._num_outputs += 1",
            "raise KeyError(2)",
            "raise KeyError",
            "output raised KeyError: 2",
        ),
    ),
    (
        "structured_output_backend",
        Mistake(
            "del self._taken[len(self._taken) - count :]",
            "del count",
            "class MineMatcher",
            "rollback does not return to where it was",
        ),
    ),
    (
        "executor",
        Mistake(
            "return ExecutorFactory(create, ExecutorCapabilities())",
            "return create",
            "@hookimpl",
            "it gives function, not an ExecutorFactory",
        ),
    ),
    (
        "model",
        Mistake(
            "return folder()", "return str(folder())", "@", "gives str, not a Path"
        ),
    ),
]
"""Mistakes that the suite of a kind finds."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    (tmp_path / "site").mkdir()
    with PluginSite(tmp_path / "site") as made:
        yield made


def changed(folder: Path, kind: str, mistake: Mistake, site: PluginSite) -> str:
    """Installs a new package with a mistake; returns the place that is to be named."""
    package = write_package(kind_of(kind), NAME, folder)
    file = package / mistake.file
    source = file.read_text()
    assert mistake.old in source
    text = source.replace(mistake.old, mistake.new)
    file.write_text(text)
    site.install_project(package)
    return str(file)


def lines_with(file: str, text: str) -> set[str]:
    lines = Path(file).read_text().splitlines()
    return {f"({file}:{at})" for at, line in enumerate(lines, 1) if text in line}


@pytest.mark.parametrize("mistake", LOGGER.values(), ids=LOGGER)
def test_a_mistake_is_told_alike_everywhere(
    mistake: Mistake,
    site: PluginSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A server that starts, the doctor and the suite name the line and the cure."""
    file = changed(tmp_path, "logger", mistake, site)
    places = lines_with(file, mistake.line)
    config = EngineConfig(observers=ObserverConfig(stat_loggers=("mine",)))

    with pytest.raises(RegistryError) as started:
        Observers(config)
    with pytest.raises(ConformanceError) as tested:
        assert_conforms("logger", "mine")
    assert main(["plugins", "doctor"]) == 1
    (row,) = [line for line in capsys.readouterr().out.splitlines() if " mine " in line]

    for told in (str(started.value), str(tested.value), row):
        assert mistake.says in " ".join(told.split()), told
        assert any(place in told for place in places), told


@pytest.mark.parametrize(
    ("kind", "mistake"),
    SUITE,
    ids=[f"{kind}: {mistake.says[:30]}" for kind, mistake in SUITE],
)
def test_the_suite_finds_what_is_wrong(
    kind: str, mistake: Mistake, site: PluginSite, tmp_path: Path
) -> None:
    """Types, shapes, options, exceptions and interfaces are checked."""
    file = changed(tmp_path, kind, mistake, site)

    with pytest.raises(ConformanceError) as told:
        assert_conforms(kind, "mine")

    found = [fault for fault in told.value.faults if mistake.says in fault]
    assert found, told.value
    assert any(place in found[0] for place in lines_with(file, mistake.line)), found


def test_a_thread_that_goes_on_is_a_fault(
    site: PluginSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process could not end while it runs."""
    monkeypatch.setattr("hookline_testing.conformance.threads.JOIN_SECONDS", 0.01)
    old = "self._count = 0\n"
    new = (
        "self._count = 0\n"
        "        import threading\n"
        "        self.ends = threading.Event()\n"
        "        wait = self.ends.wait\n"
        "        threading.Thread(target=wait, name='poll').start()\n"
        "        LEFT.append(self)\n"
    )
    changed(tmp_path, "logger", Mistake(old, new, "", ""), site)
    source = tmp_path / NAME / SOURCE
    source.write_text(f"LEFT = []\n{source.read_text()}")

    with pytest.raises(ConformanceError) as told:
        assert_conforms("logger", "mine")
    for each in site.module("hookline_mine").LEFT:
        each.ends.set()

    assert re.search("its thread 'poll' goes on after its last call", str(told.value))


def test_an_undeclared_option_ends_the_start(site: PluginSite, tmp_path: Path) -> None:
    """Whoever mistypes an option of a new logger is told the right one."""
    package = write_package(kind_of("logger"), NAME, tmp_path)
    site.install_project(package)
    observers = ObserverConfig(
        stat_loggers=("mine",), options={"mine": {"min-token": "1"}}
    )

    with pytest.raises(ConfigError, match="did you mean min-tokens"):
        Observers(EngineConfig(observers=observers))


def test_a_group_of_no_kind_is_listed(
    site: PluginSite, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry point that nobody asks for is told, with the groups there are."""
    site.install("stray", "x = 1", group="hookline.gadgets")

    assert main(["plugins", "doctor"]) == 1
    shown = capsys.readouterr().out
    assert "unknown group 'hookline.gadgets'; available: hookline.loggers" in shown


@for_each_row(
    "group, source, attribute, says",
    [
        ("tool_parsers", "def create_tool_parser(context): ...", None, "@hookimpl"),
        ("executors", "class Mine: ...", "Mine", "names the class Mine, not an inst"),
        (
            "tool_parsers",
            "class Mine: ...\ndef make(context):\n    return Mine",
            "make",
            "returned the class Mine, not an instance",
        ),
    ],
)
def test_entry_points_without_hooks_are_checked(
    group: str, source: str, attribute: str | None, says: str
) -> None:
    """What stands for the hook of its kind is told apart from what cannot."""
    kind = next(each for each in KINDS if each.group == f"hookline.{group}")
    with TemporaryDirectory() as folder, PluginSite(Path(folder)) as site:
        site.install("bare", source, group=kind.group, attribute=attribute)

        (told,) = faults_of(kind.name, "bare")

    assert says in told
    assert "bare.py:" in told
