"""One side of an offline comparison; runs in that side's own virtual environment.

usage: python compare_offline.py ENGINE WORK_JSON RESULT_FILE

Imports none of Hookline's tools, which a peer's environment lacks. Prompts are random
token ids, the same for every engine; generation is greedy and ignores end-of-text.
Every iteration has new prompts, so that prefix caches do not help. Before the clock
starts, the model is loaded and as many requests as in an iteration generate a few
tokens each, so that all memory is in use.

With neighbours, one engine does the work beside each of them in turn (contention.py):
first a few tokens for a second or two, so that it can adapt, then the measurement. The
time of each step is taken where the engine's loop returns its output to the caller, in
`LLM` of both Hookline and vLLM.
"""

import atexit
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from contention import Contention, Neighbours
from cpu_quota import cpu_group
from llama_cpp import Driver
from offline_result import Generation, beside_result, result_of

KV_CACHE_BYTES = 2 * 1024**3
"""Size of the KV cache of every engine with such an option."""
TRANSFORMERS_BATCH = 128

LOOKUP = {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}

SETTLE_SECONDS = 1.5
"""Time for an engine to adapt to new neighbours before it is measured."""
BESIDE_SECONDS = 3.0
"""Shortest measurement beside one kind of neighbours: three rounds of bursts."""

Params = TypeVar("Params")

Generate = Callable[[list[list[int]], int, list[str]], Generation]
"""Maps prompts, the number of output tokens of each, and the schemas of some rows to
what was generated."""


def prompt_lookup(work: dict[str, Any]) -> dict[str, Any] | None:
    """Configuration of speculation for Hookline and vLLM."""
    count = work["num_drafts"]
    return LOOKUP | {"num_speculative_tokens": count} if count else None


def greedy_params(
    sampling: Callable[..., Params],
    structured: Callable[..., object],
    num_tokens: int,
    schemas: list[str],
) -> list[Params]:
    """Returns the parameters for each schema, or those without any.

    Args:
        sampling: Hookline's or vLLM's `SamplingParams`.
        structured: The same engine's `StructuredOutputsParams`.
        num_tokens: The number of output tokens.
        schemas: The schemas.
    """
    each_schema: list[str | None] = [*schemas] or [None]
    return [
        sampling(
            temperature=0.0,
            max_tokens=num_tokens,
            ignore_eos=schema is None,  # no output completes a schema
            structured_outputs=structured(json=schema) if schema else None,
        )
        for schema in each_schema
    ]


def _wait_until_warm() -> None:
    """Waits for the threads that fault in the KV cache; older checkouts have them, too.

    They slow steps down.
    """
    for thread in threading.enumerate():
        if thread.name in {"hookline-kv-prefault", "hookline-page-warmer"}:
            thread.join()


def hookline(work: dict[str, Any]) -> Generate:
    from hookline import (  # noqa: PLC0415
        LLM,
        EngineConfig,
        SamplingParams,
        StructuredOutputsParams,
    )

    class Timed(LLM):
        """Notes when a step's output has been processed."""

        step_times: list[float]

        def _take(self, timeout_seconds: float) -> None:
            super()._take(timeout_seconds)
            self.step_times.append(time.perf_counter())

    config = EngineConfig.from_options(
        model=work["model"],
        dtype=work["dtype"],
        kv_cache_memory=KV_CACHE_BYTES,
        kv_cache_prefault=KV_CACHE_BYTES,  # vLLM writes its whole cache at startup
        enable_prefix_caching=work["has_prefix_cache"],
        speculative_config=prompt_lookup(work),
        **work["options"],
    )
    llm = Timed.from_config(config)
    _wait_until_warm()

    def generate(
        prompts: list[list[int]], num_tokens: int, schemas: list[str]
    ) -> Generation:
        params = greedy_params(
            SamplingParams, StructuredOutputsParams, num_tokens, schemas
        )
        params *= len(prompts) // len(params)
        llm.step_times = []
        outputs = llm.generate(prompts, params, use_tqdm=False)
        generated = sum(len(output.outputs[0].token_ids) for output in outputs)
        return Generation(generated, llm.step_times)

    return generate


def vllm(work: dict[str, Any]) -> Generate:
    from vllm import LLM, SamplingParams  # noqa: PLC0415
    from vllm.sampling_params import (  # noqa: PLC0415
        StructuredOutputsParams,
    )

    llm = LLM(
        model=work["model"],
        dtype=work["dtype"],
        speculative_config=prompt_lookup(work),
        structured_outputs_config={"backend": "xgrammar"},
    )

    step_times: list[float] = []
    step = llm.llm_engine.step

    def timed_step() -> object:
        outputs = step()
        step_times.append(time.perf_counter())
        return outputs

    llm.llm_engine.step = timed_step

    def generate(
        prompts: list[list[int]], num_tokens: int, schemas: list[str]
    ) -> Generation:
        params = greedy_params(
            SamplingParams, StructuredOutputsParams, num_tokens, schemas
        )
        params *= len(prompts) // len(params)
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        step_times.clear()
        outputs = llm.generate(asked, params, use_tqdm=False)
        generated = sum(len(output.outputs[0].token_ids) for output in outputs)
        return Generation(generated, list(step_times), elsewhere_seconds=None)

    return generate


def transformers(work: dict[str, Any]) -> Generate:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    dtype = getattr(torch, work["dtype"])
    model = AutoModelForCausalLM.from_pretrained(work["model"], dtype=dtype)
    model.train(mode=False)

    def batch(prompts: torch.Tensor, num_tokens: int) -> int:
        output = model.generate(  # type: ignore[misc]
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=num_tokens,
            max_new_tokens=num_tokens,
            prompt_lookup_num_tokens=work["num_drafts"] or None,
        )
        return int(output[:, prompts.shape[1] :].numel())

    def generate(
        prompts: list[list[int]], num_tokens: int, schemas: list[str]
    ) -> Generation:
        if schemas:
            sys.exit("transformers follows no schemas")
        batches = torch.split(torch.tensor(prompts), TRANSFORMERS_BATCH)
        with torch.inference_mode():
            return Generation(sum(batch(each, num_tokens) for each in batches), [])

    return generate


def llama_cpp(work: dict[str, Any]) -> Generate:
    length = work["prefix_tokens"] + work["input_tokens"] + work["output_tokens"]
    driver, file = Path(work["driver"]), Path(work["model"])
    peer = Driver(driver, file, work["requests"], length)
    atexit.register(peer.close)

    def generate(
        prompts: list[list[int]], num_tokens: int, schemas: list[str]
    ) -> Generation:
        if schemas:
            sys.exit("llama.cpp is not asked for schemas")
        tokens, seconds = peer.generate(prompts, num_tokens)
        return Generation(sum(map(len, tokens)), [], elsewhere_seconds=seconds)

    return generate


ENGINES: dict[str, Callable[[dict[str, Any]], Generate]] = {
    "hookline": hookline,
    "vllm": vllm,
    "transformers": transformers,
    "llama.cpp": llama_cpp,
}


def prompts_of(work: dict[str, Any], seed: int) -> list[list[int]]:
    """Returns the prompts of one iteration."""
    source = random.Random(seed)  # noqa: S311 - the same for all

    def ids(count: int) -> list[int]:
        return [source.randrange(3, 8000) for _ in range(count)]

    prefix = ids(work["prefix_tokens"])
    count = work["input_tokens"]
    if work["repeats"]:
        return [prefix + 2 * ids(count // 2) for _ in range(work["requests"])]
    return [prefix + ids(count) for _ in range(work["requests"])]


def schemas_of(work: dict[str, Any], seed: int) -> list[str]:
    """Returns the schemas of one iteration, which no other one has.

    They require more properties than an output has room for, so that none is complete.
    """
    kinds = ({"type": "string"}, {"type": "integer"}, {"enum": ["small", "large"]})

    def schema(number: int) -> dict[str, Any]:
        names = [
            f"field_{seed}_{number}_{at}" for at in range(work["output_tokens"] // 4)
        ]
        return {
            "type": "object",
            "properties": {
                name: kinds[at % len(kinds)] for at, name in enumerate(names)
            },
            "required": names,
            "additionalProperties": False,
        }

    return [json.dumps(schema(number)) for number in range(work["schemas"])]


class Measuring:
    """Does a row's work with one engine, with new prompts each time."""

    def __init__(self, generate: Generate, work: dict[str, Any]) -> None:
        self._generate = generate
        self._work = work
        self._seed = 0

    def iterations(self) -> list[Generation]:
        """Does the work as often as it asks for."""
        self._generate_once(min(self._work["output_tokens"], 16))
        return [self.once() for _ in range(self._work["iterations"])]

    def for_seconds(self) -> list[Generation]:
        """Adapts to the present neighbours, then works for some seconds."""
        self._repeat(SETTLE_SECONDS, lambda: self._generate_once(16))
        return self._repeat(BESIDE_SECONDS, self.once)

    def once(self) -> Generation:
        return self._generate_once(self._work["output_tokens"])

    def _generate_once(self, num_tokens: int) -> Generation:
        prompts = prompts_of(self._work, self._seed)
        schemas = schemas_of(self._work, self._seed)
        self._seed += 1
        start, before = time.perf_counter(), time.process_time()
        found = self._generate(prompts, num_tokens, schemas)
        found.seconds = time.perf_counter() - start
        found.own_seconds = time.process_time() - before
        if found.num_tokens != len(prompts) * num_tokens:
            sys.exit(f"{found.num_tokens} tokens, not {len(prompts) * num_tokens}")
        return found

    @staticmethod
    def _repeat(seconds: float, work: Callable[[], Generation]) -> list[Generation]:
        end = time.perf_counter() + seconds
        done = [work()]
        while time.perf_counter() < end:
            done.append(work())
        return done


def measure(engine: str, work: dict[str, Any]) -> dict[str, float]:
    """Loads the engine, does the work and returns the metrics."""
    each_neighbours = [Neighbours(name) for name in work["neighbours"]]
    with ExitStack() as stack:
        needs_group = any(each.quota is not None for each in each_neighbours)
        contention = Contention(
            stack.enter_context(cpu_group()) if needs_group else None
        )
        measuring = Measuring(ENGINES[engine](work), work)
        prompt_tokens = work["input_tokens"] + work["prefix_tokens"]
        if not each_neighbours:
            return result_of(measuring.iterations(), work["requests"] * prompt_tokens)
        beside = {}
        for neighbours in each_neighbours:
            with contention.beside(neighbours):
                beside[neighbours] = measuring.for_seconds()
        return beside_result(beside, len(contention.cores))


if __name__ == "__main__":
    # Raises SystemExit, so that neighbours and control groups are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    name, text, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(name, json.loads(text))))
