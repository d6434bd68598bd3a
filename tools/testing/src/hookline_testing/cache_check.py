"""An executor that checks what each step reads from the KV cache."""

from collections.abc import Hashable, Iterable, Mapping

from hookline.engine.worker.executor import DeferredStep, Executor
from hookline.step import AdmittedSequence, SleepLevel, StepPlan, StepResult
from hookline_testing.wrapped_executor import WrappedExecutor


class CacheCheckingExecutor(WrappedExecutor):
    """Wraps an executor and tracks the content of every cache slot.

    A slot holds a fingerprint of everything that its K and V depend on: all tokens up
    to its position and their namespace (LoRA, cache salt). Each step writes first and
    then reads every position of every scheduled request, as a model does.

    A step raises `AssertionError` if it would read wrong K and V, write a slot twice,
    or let a request join or leave the batch twice.

    Attributes:
        namespaces: Namespace by request; filled by the test.
    """

    def __init__(self, inner: Executor, block_size: int) -> None:
        super().__init__(inner)
        self.namespaces: dict[int, Hashable] = {}
        self._block_size = block_size
        self._slots: dict[int, int] = {}
        self._sequences: dict[int, _Sequence] = {}

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._execute, plan)

    def _execute(self, plan: StepPlan) -> StepResult:
        for request_id in plan.released:
            assert request_id in self._sequences, "request is not in the batch"
            del self._sequences[request_id]
        for admitted in plan.admitted:
            assert admitted.request_id not in self._sequences, (
                "request is already in the batch"
            )
            self._sequences[admitted.request_id] = _Sequence(admitted, self.namespaces)
        for request_id, block_ids in plan.new_block_ids.items():
            self._sequences[request_id].block_ids += block_ids
        for request_id, drafts in plan.drafts.items():
            self._sequences[request_id].extend(drafts)
        self._write(plan)
        self._read(plan)
        result = self._inner.start(plan).result()
        for request_id, drafts in plan.drafts.items():
            accepted = len(result.tokens[request_id]) - 1
            self._sequences[request_id].refuse(len(drafts), accepted, self._block_size)
        for request_id, token_ids in result.tokens.items():
            accepted = len(token_ids) - 1
            self._sequences[request_id].extend(token_ids[accepted:])
        return result

    @property
    def batch(self) -> set[int]:
        """Requests that have joined the batch and were not released yet."""
        return set(self._sequences)

    def sleep(self, level: SleepLevel) -> None:
        """Clears every slot."""
        self._slots.clear()
        super().sleep(level)

    def _write(self, plan: StepPlan) -> None:
        written = set()
        for request_id, count in zip(plan.request_ids, plan.num_tokens, strict=True):
            sequence = self._sequences[request_id]
            start = sequence.num_computed
            sequence.num_computed += count
            for position in range(start, sequence.num_computed):
                slot = self._slot(sequence, position)
                assert slot not in written, f"slot {slot} is written twice in a step"
                written.add(slot)
                self._slots[slot] = sequence.fingerprints[position]

    def _read(self, plan: StepPlan) -> None:
        for request_id in plan.request_ids:
            sequence = self._sequences[request_id]
            for position in range(sequence.num_computed):
                found = self._slots.get(self._slot(sequence, position))
                assert found == sequence.fingerprints[position], (
                    f"request {request_id} reads another sequence's KV at {position}"
                )

    def _slot(self, sequence: "_Sequence", position: int) -> int:
        index, offset = divmod(position, self._block_size)
        return sequence.block_ids[index] * self._block_size + offset


class _Sequence:
    """A request in the batch: its blocks and a fingerprint per position."""

    def __init__(
        self, admitted: AdmittedSequence, namespaces: Mapping[int, Hashable]
    ) -> None:
        self.block_ids = list(admitted.block_ids)
        self.num_computed = admitted.num_computed_tokens
        self.fingerprints: list[int] = []
        self._first = hash((namespaces.get(admitted.request_id),))
        self.extend(admitted.token_ids)

    def extend(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            last = self.fingerprints[-1] if self.fingerprints else self._first
            self.fingerprints.append(hash((last, token_id)))

    def refuse(self, drafts: int, accepted: int, block_size: int) -> None:
        """Drops rejected drafts, and blocks that only hold those."""
        refused = drafts - accepted
        self.num_computed -= refused
        del self.fingerprints[len(self.fingerprints) - refused :]
        del self.block_ids[-(-self.num_computed // block_size) :]
