"""An engine of a server processes texts off the event loop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.exceptions import EngineDeadError
from hookline_server.texts.engine import TextEngine
from hookline_testing.oracle import make_oracle


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[TextEngine]:
    config = EngineConfig(
        model=ModelConfig(model=str(make_oracle("llama", tmp_path).folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
    )
    engine = await TextEngine.start(config)
    yield engine
    await engine.close()


async def test_text_services_match_the_tokenizer(engine: TextEngine) -> None:
    """Encoding, decoding and chat rendering run off the loop, and agree."""
    ids = await engine.texts.encode("héllo")

    assert await engine.texts.decode(ids) == "héllo"
    assert b"".join(map(engine.texts.token_bytes, ids)).decode() == "héllo"
    rendered = await engine.texts.render_chat([{"role": "user", "content": "x"}])
    assert await engine.texts.decode(rendered) == "<user>x<assistant>"
    assert engine.texts.has_chat_template


async def test_a_closed_engine_encodes_nothing(engine: TextEngine) -> None:
    """After its end, texts are refused like requests."""
    await engine.close()

    with pytest.raises(EngineDeadError, match="closed"):
        await engine.texts.encode("text")
