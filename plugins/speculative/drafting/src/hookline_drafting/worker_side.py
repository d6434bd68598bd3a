"""The worker's side: has a proposer draft, and verifies its trees."""

import time
from collections.abc import Sequence

import torch

from hookline.config.extensions import DRAFTING
from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.engine.worker.extension import (
    CacheShape,
    LoadedParts,
    RunnerParts,
    WorkerSide,
    WorkerStep,
)
from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.sampler import DrawnDrafts
from hookline.finish_cause import Corrupted
from hookline.payloads import ExtensionContext
from hookline.request import Origin
from hookline.step import AdmittedSequence, StepPlan
from hookline_drafting.computed_step import ComputedStep
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.control import DraftControl
from hookline_drafting.drafter import Drafter
from hookline_drafting.guard import ProposerGuard
from hookline_drafting.loading import (
    bind_proposer,
    load_proposer,
    prepare_proposer,
    settle_drafts,
)
from hookline_drafting.paged_draft_cache import DraftMemory, PagedDraftCache
from hookline_drafting.proposer import (
    Proposer,
    feature_layers_of,
    has_layers,
    needs_hidden_states,
)
from hookline_drafting.sections import PLAN, DraftedStep, SlotMoves
from hookline_drafting.shared_weights import target_of
from hookline_drafting.target import HiddenStates
from hookline_drafting.tree import tree_of
from hookline_drafting.tree_arrays import arrays_for, moves_of
from hookline_kernels.draft_verification import first_of_each


class DraftingWorker(WorkerSide):
    """Drafts after each step, in the rank that samples.

    The other ranks know the shape of the drafts, to compute and to verify them.
    """

    own_layers: DraftMemory | None = None
    keeps_forward = True

    def __init__(
        self,
        context: ExtensionContext,
        speculative: SpeculativeConfig,
        *,
        drafts: bool,
    ) -> None:
        """Loads the proposer, before any model.

        Raises:
            ConfigError: It cannot be loaded, or does not fit the options.
        """
        self._context, self._drafts = context, drafts
        proposer = load_proposer(context, speculative)
        self._speculative = settle_drafts(speculative, proposer)
        self.most_drafts = self._speculative.most_speculative_tokens
        self.looks_inside = needs_hidden_states(proposer)
        if drafts and self.looks_inside:
            self.states_option = OPTION
        self._tree = tree_of(proposer)
        self._proposer: Proposer | None = proposer if drafts else None
        self._own_cache: PagedDraftCache | None = None
        self._drafter: Drafter | None = None
        self._started = 0

    # -- start and sleep ---------------------------------------------------------

    def prepare(self, parts: LoadedParts) -> None:
        """Shows the proposer the model, and lays out the tree of its drafts."""
        config, speculative = self._context.config, self._speculative
        if self._drafts:
            proposer = self._proposer or load_proposer(self._context, speculative)
            if needs_hidden_states(proposer):
                target = target_of(config.model, parts)
                prepare_proposer(proposer, speculative.method, target)
            self._proposer = proposer
            self.feature_layers = feature_layers_of(proposer)
            self.own_layers = DraftMemory.of(proposer, speculative, config)
        windows = [layer.window for layer in parts.attention]
        self.draft_tree = arrays_for(self._tree, parts.platform, windows)

    def allocate(self, shape: CacheShape) -> Sequence[torch.Tensor]:
        """Allocates keys and values of the proposer's layers."""
        assert self.own_layers is not None
        self._own_cache = self.own_layers.cache(shape)
        return self._own_cache.tensors

    def bind(self, parts: RunnerParts) -> None:
        """Starts the proposer's thread; it goes on through light sleep."""
        self._cache, self._batch = parts.cache, parts.batch
        if (proposer := self._proposer) is None or self._drafter is not None:
            return
        if self._own_cache is not None:
            bind_proposer(proposer, self._speculative.method, self._own_cache)
        vocab_size = parts.vocab_size
        self._drafter = Drafter(
            ProposerGuard(proposer, self._speculative, vocab_size=vocab_size),
            parts.batch,
            DraftControl.of(self._speculative),
            has_layers=has_layers(proposer),
            tree=self._tree,
        )

    def unload(self) -> None:
        """Drops the proposer, which is made again with the next model."""
        self.close()
        self._proposer = None

    def close(self) -> None:
        if self._drafter is not None:
            self._drafter.close()
            self._drafter = None

    # -- steps -------------------------------------------------------------------

    def started(self, plan: StepPlan) -> None:
        """Moves what the last stage has moved."""
        self._started = time.perf_counter_ns()
        if plan.sections and (planned := PLAN.read(plan.sections)) is not None:
            for each in planned.moves:
                old, new = torch.tensor(each.sources), torch.tensor(each.targets)
                self._cache.move(old, new)

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:  # noqa: ARG002
        """Follows all requests: what they cost tells whether drafts pay."""
        return self._drafter is not None or self.draft_tree is not None

    def left(self, row: int) -> None:
        if self._drafter is not None:
            self._drafter.remove_request(self._batch.request_ids[row])

    def drawn(self, rows: Int64) -> DrawnDrafts | None:
        """Returns the drafts with probabilities that a step verifies."""
        return None if self._drafter is None else self._drafter.drawn(rows)

    def sampled(self, step: WorkerStep) -> None:
        """Requests drafts, once accepted paths of trees are where chains have them."""
        moves = None
        if step.verified is not None and self.draft_tree is not None:
            moves = self._straighten(step)
        drafter, use = self._drafter, None
        if drafter is not None and not drafter.skips(step.plan):
            assert step.rows is not None, "tokens were sampled"
            taken = time.perf_counter_ns() - self._started
            found = drafter.propose(
                step.rows[first_of_each(step.rows)],
                ComputedStep.of(step.plan, step.tokens, taken),
                self._states(step) if self.states_option else None,
            )
            step.drafts = found.token_ids
            use = found.use
            for request_id, flaw in found.flaws.items():
                cause = Corrupted(flaw, Origin.PROPOSER, is_served=True)
                step.failed.setdefault(request_id, cause)
        if drafter is not None and not (use is None and moves is None):
            step.sections[DRAFTING] = DraftedStep(use, moves)

    def _straighten(self, step: WorkerStep) -> SlotMoves | None:
        """Moves keys, values and states of accepted paths to where chains have them.

        Returns:
            What other pipeline stages have to move as well.
        """
        inputs = step.inputs
        assert step.verified is not None
        sources, targets = moves_of(step.verified, inputs.samples.indices)
        if not len(sources):
            return None
        old, new = (torch.from_numpy(inputs.slots[at]) for at in (sources, targets))
        self._cache.move(old, new)
        for states in (step.hidden_states, step.features):
            if states is not None:
                states[targets] = states[sources]
        return SlotMoves(old.tolist(), new.tolist())

    def _states(self, step: WorkerStep) -> dict[int, HiddenStates]:
        """Returns hidden states of the positions that are kept, by row."""
        inputs, final, features = step.inputs, step.hidden_states, step.features
        assert final is not None, "they are computed for this extension"
        before = inputs.seq_lens - inputs.query_lens
        kept = self._batch.num_computed[inputs.rows] - before
        return {
            row: HiddenStates(
                start=start,
                final=final[first : first + count],
                features=None if features is None else features[first : first + count],
            )
            for row, start, first, count in zip(
                inputs.rows.tolist(),
                before.tolist(),
                inputs.query_starts.tolist()[:-1],
                kept.tolist(),
                strict=True,
            )
        }
