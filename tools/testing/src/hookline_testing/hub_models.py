"""A model that a fake hub has, and where it goes."""

import hashlib
from pathlib import Path

from hookline_hub.names import HubName
from hookline_hub.pulling import pull
from hookline_testing.fake_hub import COMMIT, FakeHub, FakeRepo

NAME = HubName("maker/tiny")
WEIGHTS = hashlib.shake_128(b"tiny").digest(3 * 2**20 + 77)
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b'{"temperature": 0.6}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"x": 1}',
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"a pickle",
    "modeling_tiny.py": b"raise SystemExit",
    "README.md": b"# tiny",
    ".gitattributes": b"",
    "original/consolidated.00.pth": b"a pickle",
}
WANTED = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
}


def serve_tiny(hub: FakeHub, token: str | None = None) -> FakeRepo:
    """Has the hub offer the model."""
    repo = FakeRepo({**FILES}, token=token)
    hub.repos[NAME.repo] = repo
    return repo


def pull_tiny(hub: FakeHub, cache: Path, name: HubName = NAME) -> Path:
    """Downloads it, without pauses."""
    return pull(name, cache, endpoint=hub.url, pause=lambda _: None)


def snapshot_in(cache: Path) -> Path:
    """Returns the folder of its files, whether or not it is there."""
    return cache / "models--maker--tiny" / "snapshots" / COMMIT


def assert_whole(cache: Path) -> None:
    """All wanted files, and no other, are there as the hub has them."""
    folder = snapshot_in(cache)
    found = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert found == {name: FILES[name] for name in WANTED}
