"""`POST /debug/recording`: who may ask for it, and what it answers."""

import errno
import os
from email.message import Message
from io import BytesIO
from pathlib import Path
from urllib.error import HTTPError

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import EngineConfig, ExecutorConfig
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline_recording import read_recording, record_command
from hookline_recording.config import RecordingConfig
from hookline_recording.saving import Saving
from hookline_recording.watch import PATH, Watch
from hookline_server.auth.key import ApiKey, KeySet, Scope
from hookline_server.auth.key_file import KeyFile
from hookline_server.auth.key_table import digest_of
from hookline_server.cli import asking
from hookline_server.cli.errors import CommandFailedError
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

KEYS = KeyFile(
    "keys",
    KeySet(
        {
            digest_of("admin"): ApiKey(name="a", scopes=frozenset({Scope.ADMIN})),
            digest_of("other"): ApiKey(
                name="b", scopes=frozenset({Scope.SERVE, Scope.METRICS})
            ),
        }
    ),
)


async def asked(settings: ServerSettings, key: str) -> tuple[int, list[str]]:
    """Status and saved files of a request with this key."""
    engine = FakeEngine()
    watch = Watch(Saving(os.getpid(), keep=5, stall_seconds=1e6))
    engine.loggers.append(watch)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with client_of(engine, settings) as client:
        answer = await client.post(PATH, headers=headers)
        body = await answer.json()
        seen = await client.get(PATH, headers=headers)
    watch.close()
    assert seen.status in (401, 403, 404, 405)
    return answer.status, body.get("recordings", [])


def recorded_loop() -> EngineLoop:
    """An engine with a ring."""
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        sections={"recording": RecordingConfig(flight_recorder_bytes=256 * 1024)},
    )
    return build_loop(build_core(config, VirtualClock()))


def files_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.rec"))


@pytest.mark.parametrize(
    ("settings", "key", "status"),
    [
        (ServerSettings(), "", 200),
        (ServerSettings(api_keys=KEYS), "admin", 200),
        (ServerSettings(api_keys=KEYS), "other", 403),
        (ServerSettings(api_keys=KEYS), "stolen", 401),
        (ServerSettings(api_keys=KEYS), "", 401),
    ],
)
async def test_only_administrators_save(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: ServerSettings,
    key: str,
    status: int,
) -> None:
    """Where there are keys; the answer names the files, and nothing of them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    loop = recorded_loop()

    found, saved = await asked(settings, key)

    assert found == status
    assert [path.name for path in files_in(tmp_path)] == [
        Path(each).name for each in saved
    ]
    assert bool(saved) is (status == 200)
    assert all(read_recording(Path(each)).header.model for each in saved)
    loop.close()


async def test_nothing_to_save_is_a_404(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a flight recorder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    assert await asked(ServerSettings(), "") == (404, [])


async def test_what_cannot_be_saved_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer and one line of the log name the ring and the reason."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    loop = recorded_loop()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("hookline_recording.folder.save", refuse)
    assert await asked(ServerSettings(), "") == (507, [])

    [line] = [each.message for each in caplog.records if each.levelname == "ERROR"]
    assert line.startswith("cannot save ")
    assert line.endswith(".ring: No space left on device")
    loop.close()


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        ({"recordings": ["/a.rec"], "refused": []}, 200, ""),
        (
            {"error": {"code": "not_saved", "message": "cannot save b"}},
            507,
            "cannot save b",
        ),
        (
            {"error": {"code": "no_recording", "message": "no engine has a ring"}},
            404,
            "no engine has a ring",
        ),
        ({"error": "who are you"}, 401, "asks for a key"),
    ],
)
def test_the_command_says_what_the_server_did(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: dict[str, object],
    status: int,
    told: str,
) -> None:
    """Which recordings there are now, and why there are no others."""

    def answered(*_: object, **__: object) -> BytesIO:
        body = BytesIO(msgspec.json.encode(answer))
        if status != 200:
            raise HTTPError("http://server", status, "", Message(), body)
        return body

    monkeypatch.setattr(asking, "open_url", answered)
    refusal = ""
    try:
        record_command.run(["save", "http://server"])
    except CommandFailedError as error:
        refusal = str(error)

    assert told in refusal
    assert bool(told) is bool(refusal)
    has_saved = "recordings" in answer
    assert ("the server saved /a.rec" in capsys.readouterr().out) is has_saved
