"""The sides of a row: what each is given."""

from pathlib import Path

import pytest
from compare_llama_cpp import LLAMA_CPP_ROWS
from compare_rows import ROWS
from compare_sides import SIDES, sides_of
from llama_cpp import FORMATS

from hookline.config import EngineConfig

PEER = Path("/opt/peer")
CHECKOUT = Path("/opt/before")


@pytest.mark.parametrize("name", ROWS)
def test_hookline_is_first(name: str) -> None:
    """Every row compares Hookline with others, all of which can be named."""
    names = [side.name for side in sides_of(ROWS[name], PEER, CHECKOUT, PEER)]

    assert names[0] == "hookline"
    assert len(names) > 1
    assert set(names) <= set(SIDES)


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].options])
def test_only_hookline_has_the_options(name: str) -> None:
    """What a row's options change is compared with the same engine without them."""
    sides = sides_of(ROWS[name], PEER, CHECKOUT)

    assert [side.name for side in sides if side.has_options] == ["hookline"]
    assert len(sides) > 1


def test_absent_peers_are_left_out() -> None:
    """Without vLLM and a baseline, a row has Hookline and what is installed with it."""
    names = [side.name for side in sides_of(ROWS["offline-90m"], None, None)]

    assert names == ["hookline", "transformers"]


def test_llama_cpp_has_weights_of_as_many_bits() -> None:
    """Its file has the format of a row's weights, and its driver computes."""
    for name, row in LLAMA_CPP_ROWS.items():
        _, peer = sides_of(row, None, None, PEER)
        bits = FORMATS[row.options.get("quantization")]

        assert peer.name == "llama.cpp"
        assert peer.driver == PEER / "driver"
        assert (
            bits
            == {"bf16": "bf16", "w8": "q8_0", "w4": "q4_0"}[
                name.removeprefix("llama.cpp-").split("-")[0].partition("a")[0]
            ]
        )


def test_only_starts_are_measured_while_compiling() -> None:
    """Online work is measured with compiled kernels; older checkouts know no other."""
    option = "--no-serve-while-compiling"

    online, before, *_ = sides_of(ROWS["online-tiny"], PEER, CHECKOUT)
    ready, *_ = sides_of(ROWS["ready-cold-tiny"], PEER, None)

    model = Path("/models/any")
    assert option in online.serve_command(ROWS["online-tiny"], model, 1)
    assert option not in before.serve_command(ROWS["online-tiny"], model, 1)
    assert option not in ready.serve_command(ROWS["ready-cold-tiny"], model, 1)


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].options])
def test_options_exist(name: str) -> None:
    """What a row asks of Hookline is an option with such a value."""
    config = EngineConfig.from_options(model="demo", **ROWS[name].options)

    assert config != EngineConfig.from_options(model="demo")


def test_a_row_is_watched_on_one_side() -> None:
    """The other has neither loggers nor a recorder, which the viewers need."""
    row = ROWS["viewers-90m"]
    watched, bare = sides_of(row, PEER, None)

    without = bare.serve_command(row, Path("/models/any"), 1)
    assert (watched.is_watched, bare.is_watched) == (True, False)
    assert without[without.index("--stat-logger") + 1] == "none"
    assert without[without.index("--flight-recorder-bytes") + 1] == "0"
    assert "none" not in watched.serve_command(row, Path("/models/any"), 1)
