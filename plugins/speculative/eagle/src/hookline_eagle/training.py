"""Trains an EAGLE head to predict the features of a frozen target."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig

from hookline.exceptions import ConfigError
from hookline.model_description import find_folder
from hookline_drafting import TargetModel, TrainingContext, TrainingReport
from hookline_drafting.training.fitting import (
    AcceptanceCounter,
    batches,
    hidden_states_of,
    rate_factor,
)
from hookline_drafting.training.teacher import Teacher
from hookline_eagle.chains import Chains, guesses
from hookline_eagle.checkpoint import load_head, save_head
from hookline_eagle.head import Head, HeadShape, Sides
from hookline_eagle.options import TRAINING_OPTION, TrainingOptions
from hookline_eagle.rotary import angle_table
from hookline_kernels.runtime.allocator import keep_freed_memory

_DISCOUNT = 0.8
"""Weight of a step's loss relative to the step before: later drafts are used less."""
_SHARE_OF_CHAINS = 0.25
"""Share of the training steps, the last ones, in which the head continues from its own
features. They take four times as long."""
_LINES = 20
"""Number of progress lines."""
_MOST_GRADIENT = 1.0
_THETA = 10000.0


def train(context: TrainingContext) -> TrainingReport:
    """Trains and saves an EAGLE head; evaluates it on held-out texts.

    Raises:
        ConfigError: An option is unknown or invalid.
        ModelLoadError: The target cannot be loaded.
    """
    options = TrainingOptions.from_mapping(context.options)
    begun = None if options.start is None else load_head(Path(options.start)).head
    rows, held_out = map(torch.tensor, context.make_rows())
    teacher = Teacher(context.config)
    model = context.config.model
    config = _described(find_folder(model.model))
    rotary = _rotary(config)
    torch.manual_seed(model.seed)
    head = Head(_shape(teacher.target, config, options)).to(teacher.device)
    if begun is not None:
        _go_on_from(begun, head)
    keep_freed_memory()
    _fit(head, rows, context=context, teacher=teacher, options=options, rotary=rotary)
    save_head(context.folder, head, rotary, model.model)
    batch_rows = max(1, options.batch_tokens // rows.shape[1])
    return judge(
        teacher,
        load_head(context.folder).head.to(teacher.target.output),
        held_out.split(batch_rows),
        start=_start(context),
        count=context.num_speculative_tokens,
        rotary=rotary,
    )


def _go_on_from(begun: Head, head: Head) -> None:
    """Copies the weights of an earlier head."""
    if begun.shape != head.shape:
        raise ConfigError(
            TRAINING_OPTION, "start: the head's shape does not match the model's"
        )
    head.load_state_dict(begun.state_dict())


def _fit(
    head: Head,
    rows: torch.Tensor,
    *,
    context: TrainingContext,
    teacher: Teacher,
    options: TrainingOptions,
    rotary: Mapping[str, object],
) -> None:
    """Trains the head, in float32."""
    like = torch.empty(0, device=teacher.device)
    table = angle_table(rotary, head.shape.head_dim, rows.shape[1], like)
    batch_rows = max(1, options.batch_tokens // rows.shape[1])
    steps = options.epochs * -(-len(rows) // batch_rows)
    alone = round(steps * (1 - _SHARE_OF_CHAINS))
    context.log(f"training on {rows.numel()} tokens in {steps} steps")
    states_of = hidden_states_of(teacher, rows, batch_rows)
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_factor(step, steps)
    )
    chosen_rows = batches(len(rows), batch_rows, seed=context.config.model.seed)
    for step in range(1, steps + 1):
        chosen = next(chosen_rows)
        losses = chain_losses(
            head,
            teacher.target,
            tokens=rows[chosen].to(teacher.device),
            states=states_of(chosen),
            table=table,
            start=_start(context),
            count=1 if step <= alone else context.num_speculative_tokens,
            options=options,
        )
        shares = torch.tensor([_DISCOUNT**at for at in range(len(losses))])
        (losses * shares.to(losses.device)).sum().backward()
        nn.utils.clip_grad_norm_(head.parameters(), _MOST_GRADIENT)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % max(1, steps // _LINES) == 0 or step == steps:
            values = ", ".join(f"{loss:.2f}" for loss in losses.tolist())
            context.log(f"step {step} of {steps}, losses of the drafts {values}")


def _start(context: TrainingContext) -> int:
    """Returns the first position to draft from: that of the last prompt token."""
    return max(0, context.num_prompt_tokens - 1)


def chain_losses(
    head: Head,
    target: TargetModel,
    *,
    tokens: torch.Tensor,
    states: torch.Tensor,
    table: Sides,
    start: int,
    count: int,
    options: TrainingOptions,
) -> torch.Tensor:
    """Returns the mean loss [count] of each step of the chains at all positions.

    The loss is smooth L1 of features, weighted, plus cross-entropy against the target's
    distribution.

    Args:
        head: The head to train.
        target: The target, whose output layer maps features to logits.
        tokens: [n, length] int64.
        states: [n, length, hidden size] the target's hidden states.
        table: Rotary table.
        start: First position to draft from.
        count: Number of steps.
        options: Weights and noise.
    """
    exact = states.float()
    output, bias = target.output, target.output_bias
    mean, mean_bias = _mean_output(target, exact[:, start + 1 :])
    losses = []
    with torch.autocast(states.device.type, torch.bfloat16):
        chains = Chains(head, target, tokens, _noisy(exact, options.noise), table)
        for place in range(count):
            first = start + place  # chains before `start` are not trained
            features = chains.step()[:, first:]
            logits = functional.linear(features, output, bias).float()
            likely = (features.float() * mean[:, place:]).sum(-1) + mean_bias[:, place:]
            token_loss = (logits.logsumexp(-1) - likely).mean()
            feature_loss = functional.smooth_l1_loss(
                features.float(), exact[:, first + 1 :]
            )
            losses.append(token_loss + options.feature_weight * feature_loss)
    return torch.stack(losses)


def _noisy(states: torch.Tensor, noise: float) -> torch.Tensor:
    """Adds uniform noise, relative to the mean absolute value."""
    size = states.abs().mean() * noise
    return states + (torch.rand_like(states) - 0.5) * 2 * size


@torch.no_grad()
def _mean_output(
    target: TargetModel, states: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the output layer's mean row and bias under the target's distribution.

    A logit is linear in a feature, so its mean over tokens is a product with these.

    Args:
        target: The target.
        states: [n, length, hidden size] float32.

    Returns:
        Row [n, length, hidden size] and bias [n, length], float32.
    """
    output, bias = target.output, target.output_bias
    with torch.autocast(states.device.type, torch.bfloat16):
        shares = functional.linear(states, output, bias)
        shares = shares.softmax(-1, dtype=torch.float32)
        mean_bias = shares.new_zeros(shares.shape[:2])
        if bias is not None:
            mean_bias = (shares @ bias).float()
        return (shares @ output).float(), mean_bias


@torch.no_grad()
def judge(
    teacher: Teacher,
    head: Head,
    held_out: tuple[torch.Tensor, ...],
    *,
    start: int,
    count: int,
    rotary: Mapping[str, object],
) -> TrainingReport:
    """Drafts on held-out texts in the target's dtype and counts correct drafts."""
    target, found = teacher.target, AcceptanceCounter(count)
    for batch in held_out:
        tokens = batch.to(teacher.device)
        table = angle_table(
            rotary, head.shape.head_dim, tokens.shape[1], target.output[:0]
        )
        chains = Chains(head, target, tokens, teacher.states(tokens), table)
        guessed = guesses(chains, head, target, count).transpose(0, 1)
        for row, own in zip(tokens.tolist(), guessed.tolist(), strict=True):
            found.walk(row, own, start)
    return found.report


def _described(folder: Path) -> dict[str, object]:
    """Returns the target's configuration under Llama's names."""
    config = AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    ).get_text_config()
    names = (
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "rms_norm_eps",
        "max_position_embeddings",
        "rope_parameters",
    )
    return {name: getattr(config, name, None) for name in names}


def _rotary(config: Mapping[str, object]) -> dict[str, object]:
    """Returns plain rotary embedding, with the target's theta if there is just one."""
    given = config["rope_parameters"]
    theta = given.get("rope_theta") if isinstance(given, dict) else None
    return {
        "rope_theta": theta if isinstance(theta, float) else _THETA,
        "max_position_embeddings": config["max_position_embeddings"],
    }


def _shape(
    target: TargetModel, config: Mapping[str, object], options: TrainingOptions
) -> HeadShape:
    """Returns a shape with the target's sizes, or Llama-like defaults."""
    width = target.hidden_size

    def number(name: str, default: int) -> int:
        value = config.get(name)
        return value if isinstance(value, int) else default

    heads = number("num_attention_heads", max(1, width // 64))
    epsilon = config.get("rms_norm_eps")
    return HeadShape(
        is_third=False,
        hidden_size=width,
        target_size=width,
        num_heads=heads,
        num_kv_heads=number("num_key_value_heads", heads),
        head_dim=width // heads,
        intermediate_size=(
            options.intermediate_size or number("intermediate_size", 2 * width)
        ),
        vocab_size=target.vocab_size,
        draft_vocab_size=target.vocab_size,
        epsilon=epsilon if isinstance(epsilon, float) else 1e-6,
    )
