"""Trains Medusa heads on the hidden states of a frozen target."""

import torch
from torch import nn

from hookline_drafting import TargetModel, TrainingContext, TrainingReport
from hookline_drafting.training.fitting import (
    AcceptanceCounter,
    batches,
    hidden_states_of,
    rate_factor,
)
from hookline_drafting.training.teacher import Teacher
from hookline_kernels.runtime.allocator import keep_freed_memory
from hookline_medusa.checkpoint import save_heads
from hookline_medusa.heads import Head, SharedOutput, likeliest
from hookline_medusa.loss import cross_entropy
from hookline_medusa.options import TrainingOptions

_LINES = 20
"""Number of progress lines."""


def train(context: TrainingContext) -> TrainingReport:
    """Trains and saves heads; evaluates them on held-out texts.

    Raises:
        ConfigError: An option is unknown or invalid.
        ModelLoadError: The target cannot be loaded.
    """
    options = TrainingOptions.from_mapping(context.options)
    rows, held_out = map(torch.tensor, context.make_rows())
    teacher = Teacher(context.config)
    learner = Learner(teacher.target, context.num_speculative_tokens, options)
    # Drafting begins at the last prompt token.
    start = max(0, context.num_prompt_tokens - 1)
    batch_rows = max(1, options.batch_tokens // rows.shape[1])
    steps = options.epochs * -(-len(rows) // batch_rows)
    context.log(f"training on {rows.numel()} tokens in {steps} steps")
    keep_freed_memory()
    states_of = hidden_states_of(teacher, rows, batch_rows)
    optimizers = learner.optimizers(options)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: rate_factor(step, steps))
        for each in optimizers
    ]
    chosen_rows = batches(len(rows), batch_rows, seed=context.config.model.seed)
    for step in range(1, steps + 1):
        chosen = next(chosen_rows)
        tokens = rows[chosen, start:].to(teacher.device)
        losses = learner.losses(states_of(chosen)[:, start:], tokens)
        # Unweighted: heads share no trained weights, and neither optimizer's steps grow
        # with the loss.
        losses.sum().backward()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        if step % max(1, steps // _LINES) == 0 or step == steps:
            values = ", ".join(f"{loss:.2f}" for loss in losses.tolist())
            context.log(f"step {step} of {steps}, losses of the heads {values}")
    heads = learner.heads()
    save_heads(context.folder, heads, context.config.model.model)
    return judge(teacher, heads, held_out.split(batch_rows), start)


class Learner(nn.Module):
    """Heads whose weights are float32 parameters.

    Residual blocks start as the identity and output layers as copies of the target's,
    so each head initially predicts the target's next token.
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
        """Returns heads that share the parameters."""
        blocks = list(zip(self.weights, self.biases, strict=True))
        return tuple(
            Head(
                tuple(blocks[index * self._layers : (index + 1) * self._layers]),
                self.outputs[index] if len(self.outputs) else None,
            )
            for index in range(self._count)
        )

    def optimizers(self, options: TrainingOptions) -> list[torch.optim.Optimizer]:
        """Returns Muon (Jordan et al. 2024) for residual blocks, AdamW for the rest."""
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
        """Returns the mean cross-entropy of each head, [heads] nats.

        Args:
            hidden: [n, length, hidden size] the target's hidden states.
            tokens: [n, length] int64.
        """
        found = []
        target = self._target
        for behind, head in enumerate(self.heads(), 2):
            with torch.autocast(hidden.device.type, torch.bfloat16):
                states = head.states(hidden[:, :-behind]).flatten(0, 1)
            targets = tokens[:, behind:].flatten()
            if head.output is None:
                output, bias = target.output, target.output_bias
            else:
                output, bias = head.output, None
            found.append(cross_entropy(states, output, bias, targets))
        return torch.stack(found)


def judge(
    teacher: Teacher,
    heads: tuple[Head, ...],
    held_out: tuple[torch.Tensor, ...],
    start: int,
) -> TrainingReport:
    """Evaluates drafts on held-out sequences, step by step as verification would.

    Args:
        teacher: The target.
        heads: The trained heads.
        held_out: Batches of sequences, [n, length] int64 each.
        start: First position to draft from.
    """
    target = teacher.target
    like = target.output
    ready = [head.to(like) for head in heads]
    shared = SharedOutput(like, target.output_bias)
    found = AcceptanceCounter(len(heads))
    for batch in held_out:
        tokens = batch.to(teacher.device)
        with torch.inference_mode():
            states = teacher.states(tokens)
            guessed = likeliest(ready, shared, states.flatten(0, 1))
        guessed = guessed.view(len(heads), *tokens.shape)
        for row, guesses in zip(tokens.tolist(), guessed.transpose(0, 1), strict=True):
            found.walk(row, guesses.tolist(), start)
    return found.report
