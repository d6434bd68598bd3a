"""Downloads from a hub that fails in every way: the cache is never left broken."""

import errno
import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline.exceptions import ModelLoadError
from hookline_hub.names import HubName
from hookline_hub.pulling import pull
from hookline_hub.receiving import _Part
from hookline_testing.fake_hub import COMMIT, FakeHub, Fault
from hookline_testing.hub_models import (
    FILES,
    NAME,
    WANTED,
    WEIGHTS,
    assert_whole,
    pull_tiny,
    serve_tiny,
    snapshot_in,
)
from hookline_testing.waiting import wait_until

LARGE = "model.safetensors"
TOKEN = "hf_secret"  # noqa: S105 - of nobody
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


def part_of(cache: Path) -> Path:
    return cache / "models--maker--tiny" / "blobs" / f"{DIGEST}.hookline.incomplete"


def kept(cache: Path) -> int:
    part = part_of(cache)
    return part.stat().st_size if part.is_file() else 0


@contextmanager
def refused(words: str) -> Iterator[None]:
    """The block ends with one sentence, in which these words are."""
    with pytest.raises(ModelLoadError) as error:
        yield
    text = str(error.value)
    assert words in text
    assert "\n" not in text


def test_only_what_is_needed_is_downloaded(hub: FakeHub, cache: Path) -> None:
    """No pickle and no code is asked for, and what is there is not asked for again."""
    serve_tiny(hub)

    assert pull_tiny(hub, cache) == snapshot_in(cache)
    first = [each.path for each in hub.asked]
    pull_tiny(hub, cache)

    assert_whole(cache)
    assert (cache / "models--maker--tiny" / "refs" / "main").read_text() == COMMIT
    asked = {each.rpartition("/")[2] for each in first if "/resolve/" in each}
    assert asked == WANTED
    assert [each.path for each in hub.asked[len(first) :]] == [
        "/api/models/maker/tiny/revision/main"
    ]


def test_the_library_reads_what_was_downloaded(hub: FakeHub, cache: Path) -> None:
    """`huggingface_hub` finds the snapshot without a network, as other programs do."""
    from huggingface_hub import scan_cache_dir, snapshot_download  # noqa: PLC0415

    serve_tiny(hub)
    pull_tiny(hub, cache)

    found = snapshot_download(NAME.repo, cache_dir=cache, local_files_only=True)
    scanned = scan_cache_dir(cache)

    assert found == str(snapshot_in(cache))
    assert not scanned.warnings
    assert [each.repo_id for each in scanned.repos] == [NAME.repo]


def test_the_token_stays_with_the_hub(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect to another origin is followed without it; a private model needs it."""
    serve_tiny(hub, token=TOKEN)
    with refused("is public (no HF_TOKEN)"):
        pull_tiny(hub, cache)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.asked.clear()

    pull_tiny(hub, cache)

    assert_whole(cache)
    sent = {each.token for each in hub.asked if each.port != hub.other_port}
    assert sent == {f"Bearer {TOKEN}"}
    assert {each.token for each in hub.asked if each.port == hub.other_port} == {None}


def test_a_cut_connection_is_resumed(hub: FakeHub, cache: Path) -> None:
    """The next request asks for the rest, and the file has its checksum."""
    serve_tiny(hub)
    cut = 1_500_000
    hub.fail(LARGE, Fault(sends=cut))

    pull_tiny(hub, cache)

    assert_whole(cache)
    first, second = hub.begins(LARGE)
    assert first == 0
    assert 0 < second <= cut


def test_a_hub_that_falls_silent_is_asked_for_the_rest(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow answer is waited for only so long; what has arrived is not lost."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    serve_tiny(hub)
    awake = threading.Event()
    hub.fail(LARGE, Fault(sends=1_000_000, waits=awake))

    pull_tiny(hub, cache)
    awake.set()

    assert_whole(cache)
    assert hub.begins(LARGE)[1] > 0


def test_a_connection_that_brings_nothing_ends_the_try(
    hub: FakeHub, cache: Path
) -> None:
    """After five in turn it gives up, keeps what it has, and goes on another time."""
    serve_tiny(hub)
    hub.fail(LARGE, Fault(sends=1_000_000), *[Fault(sends=0)] * 5)

    with refused("cannot be reached"):
        pull_tiny(hub, cache)
    there = kept(cache)
    assert there > 0
    assert not snapshot_in(cache).exists()
    pull_tiny(hub, cache)

    assert_whole(cache)
    assert hub.begins(LARGE)[-1] == there


@pytest.mark.slow
def test_a_killed_download_is_resumed(hub: FakeHub, cache: Path) -> None:
    """Killed in mid-file, it leaves no snapshot; another process goes on there."""
    serve_tiny(hub)
    never = threading.Event()
    hub.fail(LARGE, Fault(sends=2_000_000, waits=never))
    code = (
        "import sys; from pathlib import Path; from hookline_hub.names import HubName; "
        "from hookline_hub.pulling import pull; "
        "pull(HubName('maker/tiny'), Path(sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(cache)],
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_DOWNLOAD_TIMEOUT": "60"},
    )
    try:
        wait_until(lambda: kept(cache) > 1_000_000, "nothing arrives")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        never.set()
    there = kept(cache)
    assert not snapshot_in(cache).exists()

    pull_tiny(hub, cache)

    assert_whole(cache)
    assert hub.begins(LARGE) == [0, there]


WRONG = {
    "short": WEIGHTS[:-1000],
    "long": WEIGHTS + b"more",
    "changed": b"x" + WEIGHTS[1:],
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_content_is_not_kept(hub: FakeHub, cache: Path, kind: str) -> None:
    """A wrong length or checksum, twice, ends the try; a later one works."""
    serve_tiny(hub)
    hub.fail(LARGE, *[Fault(body=WRONG[kind])] * 4)

    with refused("model.safetensors is not what"):
        pull_tiny(hub, cache)
    assert not part_of(cache).exists()
    assert not snapshot_in(cache).exists()
    hub.faults.clear()
    pull_tiny(hub, cache)

    assert_whole(cache)


def test_content_that_is_wrong_once_is_asked_for_again(
    hub: FakeHub, cache: Path
) -> None:
    """A proxy's hiccup costs one more request."""
    serve_tiny(hub)
    hub.fail("tokenizer.json", Fault(body=b"[]"))

    pull_tiny(hub, cache)

    assert_whole(cache)


def test_a_hub_that_asks_for_patience_gets_it(hub: FakeHub, cache: Path) -> None:
    """429 is waited out as long as Retry-After says, for the API and for files."""
    serve_tiny(hub)
    hub.fail(NAME.repo, Fault(status=429, headers={"Retry-After": "7"}))
    hub.fail(LARGE, Fault(status=429, headers={"Retry-After": "3"}), Fault(status=503))
    pauses: list[float] = []

    pull(NAME, cache, endpoint=hub.url, pause=pauses.append)

    assert_whole(cache)
    assert pauses == [7, 3, 2]


def test_a_hub_that_asks_for_too_much_patience_is_left(
    hub: FakeHub, cache: Path
) -> None:
    """An hour is not waited; the sentence says how long it wanted."""
    serve_tiny(hub)
    hub.fail(NAME.repo, Fault(status=429, headers={"Retry-After": "3600"}))

    with refused("too many requests from here: try again in 3600 s"):
        pull_tiny(hub, cache)


REFUSALS = {
    "no model": (HubName("maker/none"), "has no model of that name"),
    "gated": (HubName("maker/gated"), "is gated at"),
    "no revision": (HubName("maker/tiny", "v2"), "has no revision 'v2' of maker/tiny"),
    "pickles": (HubName("maker/pickles"), "has no weights as safetensors at the hub"),
    "no config": (HubName("maker/data"), "has no config.json at the hub"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_is_one_sentence(hub: FakeHub, cache: Path, kind: str) -> None:
    """It says what is missing, and the cache has nothing of the model."""
    repo = serve_tiny(hub)
    hub.repos["maker/gated"] = type(repo)(FILES, is_gated=True)
    hub.repos["maker/pickles"] = type(repo)({"config.json": b"", "model.bin": b""})
    hub.repos["maker/data"] = type(repo)({"data.json": b""})
    name, words = REFUSALS[kind]

    with refused(words):
        pull_tiny(hub, cache, name)

    assert not list(cache.glob("*/snapshots"))


def test_a_hub_that_is_not_there_is_one_sentence(hub: FakeHub, cache: Path) -> None:
    """Nobody listens on the port."""
    del hub  # which only says that others may be asked
    with refused("cannot be reached"):
        pull(NAME, cache, endpoint="http://127.0.0.1:9")


def test_what_is_no_hub_is_one_sentence(hub: FakeHub, cache: Path) -> None:
    """A proxy's page, or a path that leads out of the folder, is not believed."""
    repo = serve_tiny(hub)
    repo.commits = {"main": "../../elsewhere"}

    with refused("does not answer as a hub does"):
        pull_tiny(hub, cache)

    assert not cache.exists()


def test_the_disk_is_looked_at_first(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is not begun; the sentence has both sizes."""
    serve_tiny(hub)
    usage = shutil.disk_usage(cache.parent)._replace(free=1_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)

    with refused("needs 3.1 MB more in"):
        pull_tiny(hub, cache)

    assert len(hub.asked) == 1


def test_a_disk_that_fills_up_is_one_sentence(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrived is kept, and the download goes on when there is room."""
    serve_tiny(hub)
    write = _Part.write

    def write_some(part: _Part, data: bytes) -> None:
        if part.size > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(part, data)

    with monkeypatch.context() as patch, refused("is full"):
        patch.setattr(_Part, "write", write_some)
        pull_tiny(hub, cache)
    there = kept(cache)
    pull_tiny(hub, cache)

    assert_whole(cache)
    assert hub.begins(LARGE) == [0, there]


class Heard(logging.Handler):
    """Notes that somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting for it" in record.getMessage():
            self.waits.set()


def test_two_servers_download_once(hub: FakeHub, cache: Path) -> None:
    """The second waits for the first, sees no half of a model, and asks for no file."""
    serve_tiny(hub)
    go_on = threading.Event()
    hub.fail(LARGE, Fault(sends=1_000_000, waits=go_on))
    heard, log = Heard(), logging.getLogger("hookline_hub.pulling")
    level = log.level
    log.addHandler(heard)
    log.setLevel(logging.INFO)
    try:
        with ThreadPoolExecutor(2) as pool:
            pulls = [pool.submit(pull_tiny, hub, cache) for _ in range(2)]
            assert heard.waits.wait(60)
            assert not snapshot_in(cache).exists()
            go_on.set()
            folders = {each.result() for each in pulls}
    finally:
        log.removeHandler(heard)
        log.setLevel(level)

    assert folders == {snapshot_in(cache)}
    assert_whole(cache)
    assert hub.begins(LARGE) == [0]


def test_a_newer_commit_does_not_disturb_the_old_one(hub: FakeHub, cache: Path) -> None:
    """Both are whole, and what they share is not downloaded again."""
    repo = serve_tiny(hub)
    pull_tiny(hub, cache)
    newer = 40 * "a"
    repo.commits = {"main": newer}
    repo.files = {**FILES, "chat_template.jinja": b"{{ new }}"}

    folder = pull_tiny(hub, cache)

    assert folder.name == newer
    assert (folder / "chat_template.jinja").read_bytes() == b"{{ new }}"
    assert_whole(cache)
    assert hub.begins(LARGE) == [0]
