"""Metrics of texts: of tokenizing, chat templates and parsers of replies."""

from collections.abc import Callable, Iterable
from typing import get_args

from hookline_metrics.front_end_parts import (
    ParserFailures,
    ParserKind,
    RepairKind,
    TextQueueName,
    TextQueueStats,
    TextStats,
)
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import Reading

QUEUE = Label("queue", get_args(TextQueueName))


def _each(
    number: Callable[[TextQueueStats], float],
) -> Callable[[TextStats], Iterable[Point]]:
    return lambda text: [((each.queue,), number(each), 1) for each in text.queues]


def _restarts(text: TextStats) -> Iterable[Point]:
    for each in text.queues:
        yield (each.queue, "exceeded"), each.exceeded, 1
        yield (each.queue, "crashed"), each.crashed, 1


def _parser_failures(parsers: ParserFailures) -> Iterable[Point]:
    return [((kind, name), count, 1) for kind, name, count in parsers.failures]


def _parser_repairs(parsers: ParserFailures) -> Iterable[Point]:
    return [((*names, repair), count, 1) for *names, repair, count in parsers.repairs]


TEXT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_text_jobs_waiting",
        kind=Kind.GAUGE,
        unit="jobs",
        help="Texts that wait for a text process or are in one: short texts (text), "
        "conversations (chat), and long ones of either kind (long).",
        labels=(QUEUE,),
        scope=Scope.FRONT_END,
        value=Reading(TextStats, _each(lambda queue: queue.waiting)),
    ),
    Metric(
        name="hookline_text_jobs",
        kind=Kind.COUNTER,
        unit="jobs",
        help="Texts tokenized, chat templates included.",
        labels=(QUEUE,),
        scope=Scope.FRONT_END,
        value=Reading(TextStats, _each(lambda queue: queue.jobs)),
    ),
    Metric(
        name="hookline_text_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time that text processes spent on chat templates and tokenizing.",
        labels=(QUEUE,),
        scope=Scope.FRONT_END,
        value=Reading(TextStats, _each(lambda queue: queue.seconds)),
    ),
    Metric(
        name="hookline_text_process_restarts",
        kind=Kind.COUNTER,
        unit="restarts",
        help="Text processes replaced, because a text or a chat template took too much "
        "time (exceeded) or ended the process (crashed).",
        labels=(QUEUE, Label("cause", ("exceeded", "crashed"))),
        scope=Scope.FRONT_END,
        value=Reading(TextStats, _restarts),
    ),
    Metric(
        name="hookline_reply_parser_failures",
        kind=Kind.COUNTER,
        unit="failures",
        help="Replies in which the parser of tool calls (tool) or of reasoning failed; "
        "their text went on as content.",
        labels=(Label("kind", get_args(ParserKind)), Label("parser", cap=8)),
        scope=Scope.FRONT_END,
        value=Reading(ParserFailures, _parser_failures),
    ),
    Metric(
        name="hookline_reply_repairs",
        kind=Kind.COUNTER,
        unit="repairs",
        help="Slips of models that were mended in replies: in the JSON of arguments "
        "(character to shape), another model's format (dialect), a call's tags "
        "(markup), stray tags (tag), reasoning that only a call ended (reasoning).",
        labels=(
            Label("kind", get_args(ParserKind)),
            Label("parser", cap=8),
            Label("repair", get_args(RepairKind)),
        ),
        scope=Scope.FRONT_END,
        value=Reading(ParserFailures, _parser_repairs),
    ),
)
