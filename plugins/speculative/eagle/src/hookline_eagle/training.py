"""Trains a head: the target stays as it is, and its features are what it learns."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig

from hookline.draft_training.fitting import (
    AcceptanceCounter,
    batches,
    hidden_states_of,
    rate_factor,
)
from hookline.draft_training.teacher import Teacher
from hookline.exceptions import ConfigError
from hookline.models.description import find_folder
from hookline.payloads import TrainingContext, TrainingReport
from hookline.spec_decode import TargetModel
from hookline.worker.allocator import keep_freed_memory
from hookline_eagle.chains import Chains, guesses
from hookline_eagle.checkpoint import load_head, save_head
from hookline_eagle.head import Head, HeadShape, Sides
from hookline_eagle.options import TRAINING_OPTION, TrainingOptions
from hookline_eagle.rotary import angle_table

_DISCOUNT = 0.8
"""Of each step's loss against the one before: what comes late is needed less often."""
_SHARE_OF_CHAINS = 0.25
"""Of the steps, those in which the head goes on from what it said. They take four times
as long, and it has to say something first."""
_LINES = 20
"""Of progress, while it trains."""
_MOST_GRADIENT = 1.0
_THETA = 10000.0


def train(context: TrainingContext) -> TrainingReport:
    """Trains a head of EAGLE and writes it; tells how good it is on other texts.

    Raises:
        ConfigError: An option is wrong.
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
    """Gives a head the weights of another."""
    if begun.shape != head.shape:
        raise ConfigError(
            TRAINING_OPTION, "start: its head is of another shape than the model's"
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
    """Changes the head; it is float32."""
    like = torch.empty(0, device=teacher.device)
    table = angle_table(rotary, head.shape.head_dim, rows.shape[1], like)
    batch_rows = max(1, options.batch_tokens // rows.shape[1])
    steps = options.epochs * -(-len(rows) // batch_rows)
    alone = round(steps * (1 - _SHARE_OF_CHAINS))
    context.log(f"{rows.numel()} tokens to learn from, {steps} steps")
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
            described = ", ".join(f"{loss:.2f}" for loss in losses.tolist())
            context.log(f"step {step} of {steps}, losses of the drafts {described}")


def _start(context: TrainingContext) -> int:
    """Position of the first state that something is drafted from.

    The last token that is given is the first whose state decides what is said.
    """
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
    """Mean loss of each step of the chains that begin at all positions.

    Smooth L1 of features, and cross-entropy against the target's own distribution.

    Args:
        head: Learns.
        target: Whose output layer says what features mean.
        tokens: [n, length] int64.
        states: [n, length, hidden size] of the target.
        table: Of angles.
        start: Position of the first state that something is drafted from.
        count: Steps.
        options: Weights and noise.

    Returns:
        [count].
    """
    exact = states.float()
    size = exact.abs().mean() * options.noise
    noisy = exact + (torch.rand_like(exact) - 0.5) * 2 * size
    output, bias = target.output, target.output_bias
    with torch.no_grad(), torch.autocast(states.device.type, torch.bfloat16):
        meant = functional.linear(exact[:, start + 1 :], output, bias)
        meant = meant.softmax(-1, dtype=torch.float32)
        # A logit is linear in a feature, so that its mean is, too.
        mean = (meant @ output).float()
        mean_bias = meant.new_zeros(meant.shape[:2])
        if bias is not None:
            mean_bias = (meant @ bias).float()
        del meant
    losses = []
    with torch.autocast(states.device.type, torch.bfloat16):
        chains = Chains(head, target, tokens, noisy, table)
        for place in range(count):
            first = start + place  # earlier ones belong to chains that nobody begins
            said = chains.step()[:, first:]
            logits = functional.linear(said, output, bias).float()
            likely = (said.float() * mean[:, place:]).sum(-1) + mean_bias[:, place:]
            spoken = (logits.logsumexp(-1) - likely).mean()
            told = functional.smooth_l1_loss(said.float(), exact[:, first + 1 :])
            losses.append(spoken + options.feature_weight * told)
    return torch.stack(losses)


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
    """Has drafts made as they will be, in the target's dtype, and counts right ones."""
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
    """The target's own numbers, by Llama's names where it has them."""
    config = AutoConfig.from_pretrained(folder).get_text_config()
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
    """Plain rotary embedding, with the target's theta if it has one alone."""
    given = config["rope_parameters"]
    theta = given.get("rope_theta") if isinstance(given, dict) else None
    return {
        "rope_theta": theta if isinstance(theta, float) else _THETA,
        "max_position_embeddings": config["max_position_embeddings"],
    }


def _shape(
    target: TargetModel, config: Mapping[str, object], options: TrainingOptions
) -> HeadShape:
    """Heads as the target's; what the target does not have is as Llama's."""
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
