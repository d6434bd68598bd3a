"""A hub that runs in threads, and an empty cache; no token and no setting of mine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_testing.fake_hub import FakeHub, fake_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub, which is the one that is asked."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no"))
    with fake_hub() as made:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", made.url)
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Folder of a cache that is not there yet."""
    return tmp_path / "cache"
