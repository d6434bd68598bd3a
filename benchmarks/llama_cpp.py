"""llama.cpp as a peer: its files of the bench models, and its process.

`install_llama_cpp.sh` makes the folder with its libraries and the driver. Files are
converted once, from the same weights, and kept beside the models; llama.cpp itself
makes those of 8 and 4 bits.
"""

import os
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

FORMATS = {
    None: "bf16",
    "w8a16": "q8_0",
    "w8a8": "q8_0",
    "w4a16": "q4_0",
    "w4a8": "q4_0",
}
"""Formats of files by the value of Hookline's option `quantization`."""
_CHECKED_TOKENS = 16
_PROMPTS = [[*range(start, start + 24)] for start in (3, 1000, 4000, 6000)]


class Driver:
    """A process that generates tokens by llama.cpp, until it is closed."""

    def __init__(self, driver: Path, file: Path, sequences: int, length: int) -> None:
        """Loads the model on all available cores.

        Args:
            driver: The program.
            file: The model in GGUF.
            sequences: Most prompts at a time.
            length: Most tokens of each, with those to generate.
        """
        threads = len(os.sched_getaffinity(0))
        numbers = [str(each) for each in (threads, sequences, length)]
        self._process = subprocess.Popen(  # noqa: S603 - what install_llama_cpp.sh made
            [str(driver), "generate", str(file), *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def generate(
        self, prompts: list[list[int]], count: int
    ) -> tuple[list[list[int]], float]:
        """Returns the tokens of prompts of one length, and processor seconds.

        Raises:
            RuntimeError: The process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        tokens = chain.from_iterable(prompts)
        numbers = [len(prompts), len(prompts[0]), count, *tokens]
        self._process.stdin.write(" ".join(map(str, numbers)) + "\n")
        self._process.stdin.flush()
        seconds, *answer = self._process.stdout.readline().split() or [""]
        if not seconds:
            raise RuntimeError(f"llama.cpp ended with {self._process.wait()}")
        found = [int(each) for each in answer]
        rows = [found[at : at + count] for at in range(0, len(found), count)]
        return rows, float(seconds)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def converted(model: Path, quantization: str | None, driver: Path) -> Path:
    """Returns a model's file; writes and checks it if there is none.

    Raises:
        RuntimeError: llama.cpp's first tokens are not those of `transformers`.
    """
    plain = _plain(model, driver)
    name = FORMATS[quantization]
    file = plain.with_name(f"{model.name}-{name}.gguf")
    if not file.is_file():
        part = file.with_suffix(".part")
        threads = str(len(os.sched_getaffinity(0)))
        subprocess.run(  # noqa: S603 - what install_llama_cpp.sh made
            [str(driver), "quantize", str(plain), str(part), name, threads], check=True
        )
        part.rename(file)
    return file


def _plain(model: Path, driver: Path) -> Path:
    """Returns the file of bfloat16 weights."""
    file = model.parent / f"{model.name}-bf16.gguf"
    if file.is_file():
        return file
    # Peers' environments have neither.
    import torch  # noqa: PLC0415
    from gguf import GGMLQuantizationType as Kind  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    exact = _written(loaded, model, Kind.F32)
    try:
        _check(loaded, exact, driver)
    finally:
        exact.unlink()
    return _written(loaded, model, Kind.BF16).rename(file)


def _written(loaded: Any, model: Path, kind: Any) -> Path:
    """Writes the model's weights, which float32 and bfloat16 have without loss."""
    from hookline_testing.gguf_files import GgufFile  # noqa: PLC0415

    name = f"{model.name}-part"
    file = GgufFile(model.parent, loaded.config, kind, name=name, model=loaded)
    # llama.cpp wants merges, although it sees no text.
    file.writer.kv_data[0].pop("tokenizer.ggml.merges", None)
    file.writer.add_token_merges(["a b"])
    return file.write()


def _check(loaded: Any, file: Path, driver: Path) -> None:
    """Compares greedy tokens in float32, in which no two logits are as good as equal.

    Raises:
        RuntimeError: They differ.
    """
    import torch  # noqa: PLC0415

    prompts = torch.tensor(_PROMPTS)
    with torch.inference_mode():
        expected = loaded.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=_CHECKED_TOKENS,
            max_new_tokens=_CHECKED_TOKENS,
        )[:, prompts.shape[1] :].tolist()
    length = prompts.shape[1] + _CHECKED_TOKENS
    peer = Driver(driver, file, len(prompts), length)
    try:
        found, _ = peer.generate(_PROMPTS, _CHECKED_TOKENS)
    finally:
        peer.close()
    if found != expected:
        raise RuntimeError(f"llama.cpp has the tokens {found}, not {expected}")
