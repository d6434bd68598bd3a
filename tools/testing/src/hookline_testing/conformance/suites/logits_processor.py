"""Logits processors: rows that are theirs, in place, finite."""

from typing import cast

import numpy as np
import torch

from hookline.config import EngineConfig
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.plugin_loading.logits_processors import usual_installed
from hookline.sampling_params import SamplingParams
from hookline.step import AdmittedSequence
from hookline_registry import Failure
from hookline_testing.conformance.model_run import run
from hookline_testing.conformance.subject import Subject

_VOCABULARY, _ROWS = 32, 4
_PROMPT = (3, 4, 5)


def check(subject: Subject) -> None:
    """Admits requests, changes logits, and runs a model with the processor."""
    context = LogitsProcessorContext(
        config=EngineConfig(),
        vocab_size=_VOCABULARY,
        max_num_seqs=_ROWS,
        device=torch.device("cpu"),
    )
    made = subject.create(context=context)
    if made is None or not subject.has(made, LogitsProcessor):
        return
    processor = cast("LogitsProcessor", made)
    subject.typed(processor.needs_prepare, bool, "needs_prepare", type(made))
    batch = InputBatch(_ROWS, 16, 4)
    rows: list[int] = []
    cases: list[dict[str, object]] = [{}, {subject.name: [1]}, {subject.name: 1}]
    for number, given in enumerate(cases, 1):
        sequence = _sequence(number, given)
        row = batch.admit(sequence)
        applies = subject.call("admit", processor.admit, row, sequence)
        if isinstance(applies, Failure):
            continue
        if not isinstance(applies, bool):
            kind = type(applies).__name__
            code = getattr(type(made), "admit", None)
            subject.fault(f"admit returns {kind}, not bool", code)
        elif applies:
            rows.append(row)
    if rows:
        _apply(subject, processor, batch, rows)
    for row in rows:
        subject.call("release", processor.release, row)
    if not subject.faults and subject.name not in usual_installed():
        run(subject, executor="uniproc", logits_processors=(subject.name,))


def _apply(
    subject: Subject, processor: LogitsProcessor, batch: InputBatch, rows: list[int]
) -> None:
    places = np.array(rows)
    positions = SampledPositions(
        indices=np.arange(len(rows)),
        rows=places,
        ends=np.full(len(rows), len(_PROMPT)),
        nodes=None,
        batch=batch,
    )
    logits = torch.randn(len(rows) + 1, _VOCABULARY)
    others = logits[-1].clone()
    if processor.needs_prepare:
        subject.call("prepare", processor.prepare, positions)
    done = subject.call("apply", processor.apply, logits, positions)
    code = getattr(type(processor), "apply", None)
    if isinstance(done, Failure):
        return
    if done is not None:
        subject.fault("apply returns something: it must change logits in place", code)
    if not torch.equal(logits[-1], others):
        subject.fault("apply changes rows that are not in positions.indices", code)
    if not logits.amax(-1).isfinite().all():
        subject.fault("apply leaves a row without a finite logit", code)


def _sequence(number: int, given: dict[str, object]) -> AdmittedSequence:
    return AdmittedSequence(
        request_id=number,
        token_ids=_PROMPT,
        num_prompt_tokens=len(_PROMPT),
        num_computed_tokens=0,
        block_ids=(number,),
        params=SamplingParams(max_tokens=4, extra_args=given),
        eos_token_ids=(),
        bad_words_token_ids=(),
    )
