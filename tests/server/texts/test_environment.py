"""Secrets of the server's environment do not reach text processes."""

from pathlib import Path

import pytest

from hookline.frontend.text_bounds import TextBounds
from hookline.tokenizer import Tokenizer
from hookline_server.texts.messages import Encode
from hookline_server.texts.text_service import TextService
from hookline_testing.byte_tokenizer import save_byte_tokenizer


async def test_a_text_process_has_nothing_else_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its variables nor its open files, such as sockets."""
    monkeypatch.setenv("HOOKLINE_API_KEY", "secret")
    save_byte_tokenizer(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    service = TextService(tokenizer, TextBounds.of(tokenizer, 64))
    with (tmp_path / "open").open("w"):
        await service.do(Encode(["a"], add_special_tokens=True), client=("a", ""))
    process = service._queues["text"]._process
    assert process is not None
    folder = Path(f"/proc/{process.process.pid}")

    variables = (folder / "environ").read_bytes()
    files = {str(each.readlink()) for each in (folder / "fd").iterdir()}
    await service.close()

    assert b"secret" not in variables
    assert str(tmp_path / "open") not in files
