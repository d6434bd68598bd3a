"""The file of the request log: whole lines, within bounds, whatever happens to it."""

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.clock import VirtualClock
from hookline_request_log import log_file
from hookline_request_log.log_file import HOUR, LogFile, Rotation
from hookline_request_log.output import StandardOutput

WRITER = """
import json, sys
from collections import deque
from pathlib import Path
from hookline.clock import SystemClock
from hookline_request_log.log_file import LogFile, Rotation

log = LogFile(Path(sys.argv[1]), Rotation(max_bytes=4000, backups=100), SystemClock())
sys.stdin.readline()
for step in range(200):
    lines = [json.dumps([sys.argv[2], step, part]) for part in range(5)]
    log.write(deque(line.encode() + b"\\n" for line in lines))
log.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "requests.jsonl"


def make_lines(*names: object) -> deque[bytes]:
    """Short lines of 10 bytes each."""
    return deque(f"{json.dumps(f'{name}'):>9}\n".encode() for name in names)


def names(path: Path) -> list[str]:
    """What the lines of a file were made of; each has to be whole."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def refuse(*_: object) -> None:
    """What a disk does that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def opened(
    path: Path, *, max_bytes: int = 10**6, backups: int = 2, is_hourly: bool = False
) -> Iterator[LogFile]:
    """A log file on a clock that shows ten in the morning of the first day."""
    rotation = Rotation(max_bytes=max_bytes, backups=backups, is_hourly=is_hourly)
    log = LogFile(path, rotation, VirtualClock(10 * HOUR))
    try:
        yield log
    finally:
        log.close()


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Lets the system write no file beyond this size: it takes a part, then none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_file_is_its_owner_s_only(path: Path) -> None:
    """Other users cannot read the file."""
    with opened(path) as log:
        log.write(make_lines("a"))

    assert path.stat().st_mode & 0o777 == 0o600


def test_written_lines_are_taken_off(path: Path) -> None:
    """What is left in the queue is what is not in the file."""
    lines = make_lines("a", "b")

    with opened(path) as log:
        log.write(lines)

    assert not lines
    assert names(path) == ["a", "b"]


def test_rotation_keeps_whole_lines_within_the_bound(path: Path) -> None:
    """No file outgrows its bound, and the newest lines are there, in order."""
    with opened(path, max_bytes=35) as log:
        for first in range(0, 100, 5):
            log.write(make_lines(*range(first, first + 5)))

    files = sorted(path.parent.iterdir(), reverse=True)
    assert [file.name for file in files] == [
        "requests.jsonl.2",
        "requests.jsonl.1",
        "requests.jsonl",
    ]
    assert all(file.stat().st_size <= 35 for file in files)
    found = [int(name) for file in files for name in names(file)]
    assert found == list(range(100))[-len(found) :]
    assert len(found) >= 7


def test_line_longer_than_the_bound_has_a_file_to_itself(path: Path) -> None:
    """It is not lost, and the next line begins a new file."""
    with opened(path, max_bytes=35) as log:
        log.write(make_lines("a", "b" * 100, "c"))

    assert names(path) == ["c"]
    assert names(path.with_name("requests.jsonl.1")) == ["b" * 100]
    assert names(path.with_name("requests.jsonl.2")) == ["a"]


def test_without_backups_old_lines_go(path: Path) -> None:
    """With `backups=0` there is one file."""
    with opened(path, max_bytes=35, backups=0) as log:
        log.write(make_lines("a", "b", "c", "d"))

    assert list(path.parent.iterdir()) == [path]
    assert names(path) == ["d"]


def test_hourly_rotation(path: Path) -> None:
    """The first line of an hour begins a file, also after a restart."""
    with opened(path, is_hourly=True) as log:
        log.write(make_lines("nine"))
        os.utime(path, ns=(10 * HOUR - 1, 10 * HOUR - 1))

    with opened(path, is_hourly=True) as log:
        log.write(make_lines("ten"))
        log.write(make_lines("ten"))

    assert names(path) == ["ten", "ten"]
    assert names(path.with_name("requests.jsonl.1")) == ["nine"]


@pytest.mark.parametrize("when", ["before", "after a rotation"])
def test_nothing_is_written_through_a_link(
    path: Path, tmp_path: Path, when: str
) -> None:
    """Somebody may have put it there; lines wait, and are for the file once it is."""
    target = tmp_path / "elsewhere"
    with opened(path, max_bytes=15) as log:
        if when == "after a rotation":
            log.write(make_lines("a", "b"))
            path.unlink()
        path.symlink_to(target)
        with pytest.raises(OSError, match="it is a link"):
            log.write(make_lines("c"))
        path.unlink()
        log.write(make_lines("d"))

    assert not target.exists()
    assert names(path) == ["d"]


def test_full_disk_is_an_error_and_later_lines_come(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full takes nothing; once it has room, it does."""
    with opened(path) as log, monkeypatch.context() as disk:
        disk.setattr(log_file, "write_whole", refuse)
        with pytest.raises(OSError, match="No space left") as caught:
            log.write(lost := make_lines("a", "b"))
        disk.undo()
        log.write(make_lines("c"))

    assert caught.value.errno == errno.ENOSPC
    assert len(lost) == 2
    assert names(path) == ["c"]


def test_half_a_write_leaves_no_half_line(path: Path) -> None:
    """Where the system takes only a part, that part is taken back."""
    with opened(path) as log:
        log.write(make_lines("a"))
        with largest_file(25), pytest.raises(OSError, match="File too large"):
            log.write(lost := make_lines("b", "c"))
        log.write(make_lines("d"))

    assert len(lost) == 2
    assert names(path) == ["a", "d"]


def test_failure_after_a_rotation_keeps_count(path: Path) -> None:
    """Lines that were written before the failure do not count as lost."""
    with opened(path, max_bytes=20) as log:
        log.write(make_lines("a"))
        path.with_name("requests.jsonl.1").mkdir()
        (path.with_name("requests.jsonl.1") / "in the way").touch()
        path.with_name("requests.jsonl.2").mkdir()
        (path.with_name("requests.jsonl.2") / "in the way").touch()

        with pytest.raises(OSError, match="not empty"):
            log.write(lost := make_lines("b", "c"))

    assert names(path) == ["a", "b"]
    assert lost == make_lines("c")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_removed_file_is_recreated(tmp_path: Path, what: str) -> None:
    """A removed file is recreated at once, in a removed folder once it exists."""
    folder = tmp_path / "log"
    folder.mkdir()
    path = folder / "requests.jsonl"
    with opened(path) as log:
        log.write(make_lines("a"))
        if what == "file":
            path.unlink()
        else:
            shutil.rmtree(folder)
            with pytest.raises(FileNotFoundError):
                log.write(make_lines("b"))
            folder.mkdir()

        log.write(make_lines("c"))

    assert names(path) == ["c"]


def test_lost_permission_is_an_error_until_it_is_back(path: Path) -> None:
    """If a file cannot be recreated, each write tries again."""
    with opened(path) as log:
        log.write(make_lines("a"))
        path.unlink()
        path.parent.chmod(0o500)
        if os.access(path.parent, os.W_OK):
            pytest.skip("the superuser may write anywhere")

        with pytest.raises(PermissionError):
            log.write(make_lines("b"))
        path.parent.chmod(0o700)
        log.write(make_lines("c"))

    assert names(path) == ["c"]


def test_externally_renamed_file_is_left_alone(path: Path) -> None:
    """After a rename the next line begins a new file under the path."""
    with opened(path) as log:
        log.write(make_lines("a"))
        path.rename(path.with_name("theirs"))
        log.write(make_lines("b"))

    assert names(path) == ["b"]
    assert names(path.with_name("theirs")) == ["a"]


def test_torn_line_of_a_killed_process_spoils_no_other(path: Path) -> None:
    """What it left half-written is ended before more is written."""
    path.write_bytes(b'{"v":1,"requ')

    with opened(path) as log:
        log.write(make_lines("a"))

    torn, whole = path.read_text().splitlines()
    assert torn == '{"v":1,"requ'
    assert json.loads(whole) == "a"


def test_processes_share_a_file_and_its_rotation(path: Path) -> None:
    """Two writers lose no line, tear none, and keep each file within its bound."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name], stdin=subprocess.PIPE
        )
        for name in ("a", "b")
    ]

    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()

    files = list(path.parent.iterdir())
    lines = [line for file in files for line in file.read_text().splitlines()]
    found = sorted(tuple(json.loads(line)) for line in lines)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert found == [
        (name, step, part)
        for name in ("a", "b")
        for step in range(200)
        for part in range(5)
    ]
    assert len(files) > 5
    assert all(file.stat().st_size <= 4000 for file in files)


def test_standard_output_takes_whole_batches(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines go to the process's standard output, and it stays open."""
    output = StandardOutput()

    output.write(make_lines("a", "b"))
    output.close()
    output.write(make_lines("c"))

    lines = capfd.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == ["a", "b", "c"]


def test_standard_output_that_took_half_a_line_gets_a_new_one(path: Path) -> None:
    """After an error the next line does not join what went before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    output = StandardOutput(descriptor)

    with largest_file(15), pytest.raises(OSError, match="File too large"):
        output.write(make_lines("a", "b"))
    output.write(make_lines("c"))

    os.close(descriptor)
    first, _torn, last = path.read_text().splitlines()
    assert (json.loads(first), json.loads(last)) == ("a", "c")
