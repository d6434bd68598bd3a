"""Trains heads: the target stays as it is, and its hidden states are what they read."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from hookline.payloads import TrainingContext, TrainingReport
from hookline.spec_decode import TargetModel
from hookline.spec_decode.training.teacher import Teacher
from hookline.worker.allocator import keep_freed_memory
from hookline_medusa.checkpoint import save_heads
from hookline_medusa.heads import Head, SharedOutput, likeliest
from hookline_medusa.loss import cross_entropy
from hookline_medusa.options import TrainingOptions

_WARM_UP_STEPS = 20
_LINES = 20
"""Of progress, while it trains."""
_LEAST_FACTOR = 0.02
_MOST_KEPT_BYTES = 2**30
"""Of hidden states."""


def train(context: TrainingContext) -> TrainingReport:
    """Trains heads and writes them; tells how good they are where it has not learnt.

    Raises:
        ConfigError: An option is wrong.
        ModelLoadError: The target cannot be loaded.
    """
    options = TrainingOptions.from_mapping(context.options)
    rows, held_out = map(torch.tensor, context.make_rows())
    teacher = Teacher(context.config)
    learner = Learner(teacher.target, context.num_speculative_tokens, options)
    # The last token that is given is the first whose state decides what is said.
    start = max(0, context.num_given_tokens - 1)
    batch_rows = max(1, options.batch_tokens // rows.shape[1])
    steps = options.epochs * -(-len(rows) // batch_rows)
    context.say(f"{rows.numel()} tokens to learn from, {steps} steps")
    keep_freed_memory()
    states_of = _states(teacher, rows, batch_rows)
    optimizers = learner.optimizers(options)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: _rate_factor(step, steps))
        for each in optimizers
    ]
    batches = _batches(len(rows), batch_rows, seed=context.config.model.seed)
    for step in range(1, steps + 1):
        chosen = next(batches)
        tokens = rows[chosen, start:].to(teacher.device)
        losses = learner.losses(states_of(chosen)[:, start:], tokens)
        # No weights: heads share nothing that is learnt, and steps of neither optimizer
        # grow with a loss.
        losses.sum().backward()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        if step % max(1, steps // _LINES) == 0 or step == steps:
            told = ", ".join(f"{loss:.2f}" for loss in losses.tolist())
            context.say(f"step {step} of {steps}, losses of the heads {told}")
    heads = learner.heads()
    save_heads(context.folder, heads, context.config.model.model)
    return judge(teacher, heads, held_out.split(batch_rows), start)


class Learner(nn.Module):
    """Heads whose weights are float32 parameters.

    Residual blocks begin as the identity and output layers as the target's, so that
    each head begins by guessing what the target says next.
    """

    def __init__(
        self, target: TargetModel, count: int, options: TrainingOptions
    ) -> None:
        super().__init__()
        width, device = target.hidden_size, target.output.device

        def zeros(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(shape, device=device))

        self._layers = options.num_layers
        places = range(count * options.num_layers)
        self.weights = nn.ParameterList([zeros(width, width) for _ in places])
        self.biases = nn.ParameterList([zeros(width) for _ in places])
        copies = range(count) if options.own_output else ()
        self.outputs = nn.ParameterList(
            [nn.Parameter(target.output.float().clone()) for _ in copies]
        )
        self._count, self._target = count, target

    def heads(self) -> tuple[Head, ...]:
        """Over the parameters themselves."""
        blocks = list(zip(self.weights, self.biases, strict=True))
        return tuple(
            Head(
                tuple(blocks[index * self._layers : (index + 1) * self._layers]),
                self.outputs[index] if len(self.outputs) else None,
            )
            for index in range(self._count)
        )

    def optimizers(self, options: TrainingOptions) -> list[torch.optim.Optimizer]:
        """Muon (Jordan et al. 2024) for the residual blocks, AdamW for the rest."""
        rest = [*self.biases, *self.outputs]
        return [
            torch.optim.Muon(
                self.weights, lr=options.block_learning_rate, weight_decay=0
            ),
            torch.optim.AdamW(
                rest, lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0
            ),
        ]

    def losses(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of each head.

        Args:
            hidden: [n, length, hidden size] of the target.
            tokens: [n, length].

        Returns:
            [heads] nats.
        """
        found = []
        target = self._target
        for behind, head in enumerate(self.heads(), 2):
            with torch.autocast(hidden.device.type, torch.bfloat16):
                states = head.states(hidden[:, :-behind]).flatten(0, 1)
            wanted = tokens[:, behind:].flatten()
            if head.output is None:
                output, bias = target.output, target.output_bias
            else:
                output, bias = head.output, None
            found.append(cross_entropy(states, output, bias, wanted))
        return torch.stack(found)


def judge(
    teacher: Teacher,
    heads: tuple[Head, ...],
    batches: tuple[torch.Tensor, ...],
    start: int,
) -> TrainingReport:
    """Goes through sequences as verification would, from step to step.

    Args:
        teacher: The target.
        heads: As they will draft.
        batches: Of sequences that were not learnt from, [n, length] each.
        start: Place in them of the first state that something is drafted from.
    """
    target = teacher.target
    like = target.output
    ready = [head.to(like) for head in heads]
    shared = SharedOutput(like, target.output_bias)
    drafts, accepted = 0, [0] * len(heads)
    for batch in batches:
        tokens = batch.to(teacher.device)
        with torch.inference_mode():
            states = teacher.states(tokens)
            guessed = likeliest(ready, shared, states.flatten(0, 1))
        guessed = guessed.view(len(heads), *tokens.shape)
        for row, guesses in zip(tokens.tolist(), guessed.transpose(0, 1), strict=True):
            for count in _accepted(row, guesses.tolist(), start):
                drafts += 1
                for place in range(count):
                    accepted[place] += 1
    return TrainingReport(drafts=drafts, accepted_by_position=tuple(accepted))


def _accepted(row: list[int], guesses: list[list[int]], start: int) -> Iterator[int]:
    """Of each step over a sequence, how many drafts are accepted.

    Args:
        row: The sequence.
        guesses: Of each head, at each place.
        start: Place of the first step's newest state.
    """
    at = start  # where the newest state is; the token behind it is known
    while at + 1 + len(guesses) < len(row):
        count = 0
        while count < len(guesses) and guesses[count][at] == row[at + 2 + count]:
            count += 1
        yield count
        at += 1 + count


def _rate_factor(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine."""
    if step < _WARM_UP_STEPS:
        return (step + 1) / _WARM_UP_STEPS
    progress = (step - _WARM_UP_STEPS) / max(1, steps - _WARM_UP_STEPS)
    return _LEAST_FACTOR + (1 - _LEAST_FACTOR) * (1 + math.cos(math.pi * progress)) / 2


def _batches(rows: int, count: int, *, seed: int) -> Iterator[torch.Tensor]:
    """Endless epochs of shuffled rows: their indices."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(rows, generator=generator).split(count)


def _states(
    teacher: Teacher, rows: torch.Tensor, count: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives the target's states of chosen rows: [n, length, hidden size].

    They are computed once, if they can be kept, and else whenever they are wanted.
    """
    target, device = teacher.target, teacher.device
    size = rows.numel() * target.hidden_size * target.output.element_size()
    if size > _MOST_KEPT_BYTES:
        return lambda chosen: teacher.states(rows[chosen].to(device))
    kept = torch.cat([teacher.states(part.to(device)) for part in rows.split(count)])
    return lambda chosen: kept[chosen]
