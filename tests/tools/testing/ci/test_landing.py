"""A test that fails twice fails a run; one that passes alone is listed as unstable."""

import re
import sys
from pathlib import Path

import msgspec
import pytest

from hookline_testing.ci.failures import End, Failure, read_failures
from hookline_testing.ci.landing import Part, land
from hookline_testing.ci.report import closing_line
from hookline_testing.ci.second_runs import MOST_SECOND_RUNS

pytestmark = pytest.mark.slow

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
AMONG_OTHERS = """
import os, subprocess, sys
path, arguments = sys.argv[1], sys.argv[2].removeprefix("ARGS=").split()
pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *arguments]
environment = {**os.environ, "AMONG_OTHERS": "1"}
sys.exit(2 * bool(subprocess.run([*pytest, path], env=environment).returncode))
"""
"""Like `make`, whose status says only whether something failed."""
FINE = "def test_fine(): pass\n"
SKIPPED = "import pytest\n@pytest.mark.skip(reason='no')\ndef test_skipped(): pass\n"
BROKEN = "def test_broken(): print('so it is'); assert False\n"
UNSTABLE = "import os\ndef test_shy(): assert 'AMONG_OTHERS' not in os.environ\n"
CRASHING = "import os\ndef test_crashes(): os._exit(3)\n"
NOT_IMPORTED = "import nothing_of_this_name\n"
READS_INPUT = "import os\ndef test_reads(): assert os.read(0, 1) == b''\n"


def run(folder: Path, source: str, *, beside: tuple[str, ...] | None = None) -> int:
    """Exit status of a run of one module of tests."""
    path = folder / "test_module.py"
    path.write_text(source)
    part = Part((sys.executable, "-c", AMONG_OTHERS, str(path)), beside)
    return land([part], folder, (*PYTEST, "--rootdir", str(folder)))


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tests begin at the folder; plugins would only take time to import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_a_run_without_failures_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, lists what was skipped, and ends with the line of pytest."""
    status = run(tmp_path, FINE + SKIPPED)

    said = capsys.readouterr().out
    assert status == 0
    assert "SKIPPED [1] test_module.py:3: no" in said.partition("Skipped tests:")[2]
    assert re.search(r"\nProcessors:\n\d+ s of \d+ processors in \d+ s\n", said)
    assert "1 passed, 1 skipped" in said.splitlines()[-1]


@pytest.mark.parametrize("source", [BROKEN, CRASHING, NOT_IMPORTED, "X = 1\n"])
def test_what_fails_twice_fails_the_run(tmp_path: Path, source: str) -> None:
    """Also a crash, a module that cannot be imported, and a run of no tests."""
    assert run(tmp_path, source) == 1


def test_what_passes_alone_is_listed_with_both_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the run passes."""
    status = run(tmp_path, FINE + UNSTABLE)

    said = capsys.readouterr().out
    listed = said.partition("Unstable tests")[2]
    assert status == 0
    assert "test_module.py::test_shy\n--- among the others:" in listed
    assert "AssertionError" in listed
    assert "1 passed in" in listed.partition("--- alone:")[2]
    assert "1 failed, 1 passed" in said.splitlines()[-1]


def test_a_broken_test_beside_an_unstable_one_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is judged alone; what the broken one wrote is shown."""
    status = run(tmp_path, BROKEN + UNSTABLE)

    failed, _, unstable = capsys.readouterr().out.partition("Unstable tests")
    assert status == 1
    assert "test_broken" in failed.partition("Failed tests:")[2]
    assert "so it is" in failed.partition("Failed tests:")[2]
    assert "test_shy" in unstable


def test_many_failures_are_no_accident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of them is run again."""
    many = "\n".join(
        UNSTABLE.replace("shy", f"shy_{at}") for at in range(MOST_SECOND_RUNS + 1)
    )

    assert run(tmp_path, many) == 1
    assert "it was not run again" in capsys.readouterr().out


def test_a_check_beside_the_tests_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its output is shown, and its failure is the run's."""
    script = "import sys; print('two faults'); sys.exit(1)"

    assert run(tmp_path, FINE, beside=(sys.executable, "-c", script)) == 1
    assert "two faults" in capsys.readouterr().out
    assert run(tmp_path, FINE, beside=(sys.executable, "-c", "")) == 0


def test_nothing_waits_for_input(tmp_path: Path) -> None:
    """There is none."""
    assert run(tmp_path, READS_INPUT, beside=("cat",)) == 0


def test_failures_of_a_test_are_one(tmp_path: Path) -> None:
    """A test may fail, and then its fixture."""
    path = tmp_path / "failures"
    lines = [Failure("a", "first"), Failure("b", "other"), Failure("a", "then"), End(1)]
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))

    found = read_failures(path)

    assert found.tests == [Failure("a", "first\nthen"), Failure("b", "other")]
    assert found.status == 1
    assert read_failures(tmp_path / "none").status is None


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("=== 1 passed in 2s ===\n", "=== 1 passed in 2s ==="),
        ("== short test summary info ==\n== 1 failed in 2s ==", "== 1 failed in 2s =="),
        ("= FAILURES =\nmake: Error 1\n", None),
    ],
)
def test_closing_lines(output: str, line: str | None) -> None:
    """They count the tests."""
    assert closing_line(output) == line
