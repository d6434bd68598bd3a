"""Secrets of the server's environment do not reach text processes."""

from pathlib import Path

import pytest

from hookline.frontend.text_bounds import TextBounds
from hookline.tokenizer import Tokenizer
from hookline_server.texts.pool import TextPool
from hookline_testing.byte_tokenizer import save_byte_tokenizer


async def test_a_text_process_has_nothing_else_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its variables nor its open files, such as sockets."""
    monkeypatch.setenv("HOOKLINE_API_KEY", "secret")
    save_byte_tokenizer(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    pool = TextPool(tokenizer, TextBounds.of(tokenizer, 64))
    with (tmp_path / "open").open("w"):
        await pool.encode(["a"], add_special_tokens=True, client="a")
    process = pool._queues["text"]._process
    assert process is not None
    folder = Path(f"/proc/{process.process.pid}")

    variables = (folder / "environ").read_bytes()
    files = {str(each.readlink()) for each in (folder / "fd").iterdir()}
    await pool.close()

    assert b"secret" not in variables
    assert str(tmp_path / "open") not in files
