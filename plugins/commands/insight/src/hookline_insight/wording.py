"""Says in words where a request's time went; ids and tenants are hostile text."""

from collections.abc import Iterator, Sequence
from itertools import islice

from hookline.clock import NANOSECONDS
from hookline_insight.account import (
    Account,
    Cause,
    Culprit,
    Part,
    Piece,
    parts_of,
)
from hookline_insight.explainer import Explainer
from hookline_metrics.slo import Phase
from hookline_recording.front_end_schema import Served
from hookline_server.logs.redaction import in_one_line

MOST_NAMES = 3
_MOST_LETTERS = 64
_UNITS = {
    Cause.KV_BLOCKS: "blocks",
    Cause.TOKEN_BUDGET: "tokens in a step",
    Cause.SHARE: "tokens in a step",
    Cause.OTHERS_PROMPTS: "prompt tokens in a step",
    Cause.STEP: "tokens in it",
    Cause.LEFT_OUT: "tokens in it",
}
_WAITS = {
    Cause.KV_BLOCKS: "waiting for KV blocks",
    Cause.BATCH_SLOTS: "waiting for one of the {seqs} batch slots",
    Cause.TOKEN_BUDGET: "waiting for room in steps of at most {tokens} tokens",
    Cause.SHARE: "waiting for its share of a step",
    Cause.GATE: "held by the gate {detail}",
    Cause.ADAPTER_LOADING: "waiting for adapter `{detail}`, which was loading",
    Cause.ADAPTER_SLOT: "waiting for a slot for adapter `{detail}`",
    Cause.PIPELINE: "waiting for a pipeline stage or for its own step in flight",
    Cause.SLEEP: "waiting for the engine to wake up",
    Cause.STEP: "waiting for the step in flight when it came",
    Cause.TRANSFER: "waiting for KV from elsewhere",
    Cause.LEFT_OUT: "left out of full steps",
    Cause.OTHERS_PROMPTS: "spent on other requests' prompts in its steps",
    Cause.OTHERS_TOKENS: "spent on other requests' tokens in its steps",
    Cause.FIXED: "the fixed cost of its steps",
    Cause.RECOMPUTED: "computing again what preemptions had lost",
    Cause.CPU: "without the CPU, which others or a quota took from its steps",
    Cause.UNEXPLAINED: "in steps that were slower than their work explains",
    Cause.GONE: "after the last that is known of its engine, which hung or had ended",
    Cause.ENGINE: "planning and bookkeeping of the engine",
    Cause.HTTP: "reading the HTTP request",
    Cause.PREPARATION: "checking and tokenizing in the front end",
    Cause.INBOX: "on its way to the engine, which takes commands between steps",
    Cause.DELIVERY: "on its way from the engine, and in the front end",
    Cause.SENDING: "sending the response",
    Cause.CLIENT: "waiting for the client to read the response",
    Cause.COMPILING: "in steps that were slow while kernels were compiled",
    Cause.INTAKE: "being taken in by the engine",
    Cause.EMISSION: "being sent out by the engine",
    Cause.OVERWRITTEN: "not recorded any more",
}
_OWN = {
    Phase.PREFILL: "computing its own prompt",
    Phase.DECODE: "computing its own tokens",
}


def duration(ns: int) -> str:
    """Returns a duration in s, ms or µs, with up to three significant digits."""
    if abs(ns) >= NANOSECONDS:
        return f"{ns / NANOSECONDS:.2f} s"
    milliseconds = ns / 1e6
    if abs(milliseconds) < 0.1:
        return f"{ns / 1e3:.0f} µs"
    digits = 0 if abs(milliseconds) >= 100 else 1 if abs(milliseconds) >= 10 else 2
    return f"{milliseconds:.{digits}f} ms"


def percent(share: float) -> str:
    """Returns a share of 1 in percent."""
    return f"{share:.0%}".replace("%", " %")


def safe(text: str) -> str:
    """Returns what a client chose so that no terminal obeys it."""
    line = in_one_line(text)
    line = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in line
    )
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}…"


def safe_text(text: str) -> str:
    """Returns lines of another machine so that no terminal obeys them."""
    return "\n".join(map(in_one_line, text.splitlines()))


class Words:
    """Words for the accounts of one recording."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        header = explainer.recording.header
        self._limits = {
            "seqs": header.max_num_seqs,
            "tokens": header.max_num_batched_tokens,
        }

    def name(self, request_id: int) -> str:
        """Returns what a client calls a request, or its number."""
        request = self._explainer.recording.requests.get(request_id)
        facts = None if request is None else request.facts
        if facts is None or not (facts.client_id or facts.response_id):
            return f"request {request_id}"
        name = safe(facts.client_id or facts.response_id)
        return f"{name}#{facts.completion_index}" if facts.completion_index else name

    def obstacle(self, name: str) -> str:
        """Says what requests wait for that an obstacle holds back."""
        return _WAITS[Cause(name)].format(**self._limits, detail="of an extension")

    def began(self, account: Account) -> int:
        """Returns when a request's account begins, in ns since the epoch."""
        return self._explainer.recording.wall_at(account.begin)

    def sentence(self, account: Account) -> str:
        """Says in one sentence how a request fared, and why it took so long."""
        name, latency = self.name(account.request_id), duration(account.latency)
        tokens = f"{account.output_tokens} token"
        tokens += "" if account.output_tokens == 1 else "s"
        ended, served = account.finished, self._served(account)
        if ended is None and served is not None and not account.is_live:
            head = f"{name} ended without its engine after {latency} ({tokens})"
        elif ended is None:
            verb = "has" if account.is_live else "had"
            until = "" if account.is_live else ", the last that is known of its engine"
            head = f"{name} {verb} not ended after {latency} ({tokens}){until}"
        elif ended.reason == "abort":
            head = f"{name} was aborted after {latency} ({tokens})"
        elif ended.reason in ("error", "rejected"):
            head = f"{name} failed after {latency} ({safe(ended.kind)}, {tokens})"
        else:
            head = f"{name} took {latency} ({tokens})"
        return self._because(head, account.pieces)

    def missed(
        self, account: Account, objective: str, taken: float, limit: float | None
    ) -> str:
        """Says in one sentence why a request missed an objective; in s."""
        name, after = self.name(account.request_id), _seconds(taken)
        bound = "" if limit is None else f" (limit {_seconds(limit)})"
        head = f"{name} took {after}{bound}"
        if objective == "tpot":
            head = f"{name} took {after} a token after its first{bound}"
        elif objective == "ttft":
            head = f"{name} had its first token after {after}{bound}"
            if account.first_token_at is None:
                head = f"{name} had no token after {after}{bound}"
        return self._because(head, account.pieces_of(objective))

    def _because(self, head: str, pieces: tuple[Piece, ...]) -> str:
        """Adds to what is said of a time what most of it went to."""
        if (main := _main(pieces)) is None:
            return f"{head}."
        share = percent(main.ns / (pieces[-1].end - pieces[0].begin))
        return f"{head}: {share} of it {self.part(main)}{self._step(main)}."

    def _served(self, account: Account) -> Served | None:
        return self._explainer.recording.requests[account.request_id].served

    def part(self, part: Part) -> str:
        """Says what a part was, and who caused it."""
        if part.cause is Cause.OWN:
            return _OWN.get(part.phase or Phase.DECODE, _OWN[Phase.DECODE])
        words = _WAITS[part.cause].format(**self._limits, detail=safe(part.detail))
        if part.phase is Phase.PREEMPTED:
            words = f"preempted and {words}"
        if part.cause is Cause.RECOMPUTED or not part.culprits:
            return words
        between = ", held by " if part.cause is Cause.ADAPTER_SLOT else ": "
        return f"{words}{between}{self._culprits(part)}"

    def lines(self, account: Account) -> Iterator[str]:
        """Yields the account: the parts, and the steps that cost most."""
        for part in account.parts:
            phase = "unknown" if part.phase is None else part.phase
            yield (
                f"  {duration(part.ns):>9}  {part.ns / account.latency:6.1%}"
                f"  {phase:<9}  {self.part(part)}"
            )
        first = ""
        if account.ttft is not None:
            first = f"; its first token came after {duration(account.ttft)}"
        yield f"  {duration(account.latency):>9}  100.0%  in all{first}"
        yield from self._remarks(account)

    def _remarks(self, account: Account) -> Iterator[str]:
        for cause, beneficiary in account.preemptions:
            whom = "" if beneficiary is None else f" for {self.name(beneficiary)}"
            if beneficiary == account.request_id:
                whom = " by its own growth"
            yield f"  It was preempted ({safe(cause)}){whom}."
        yield from self._slow_steps(account)
        if not account.is_whole:
            yield "  The recording does not have all of it."
        if not account.is_fitted:
            yield "  There are too few steps to fit costs: they are shared by tokens."

    def _slow_steps(self, account: Account) -> Iterator[str]:
        """Yields the steps in which others cost the request most."""
        found: dict[int, dict[int | None, int]] = {}
        lengths: dict[int, int] = {}
        tokens: dict[tuple[int, int | None], int] = {}
        for piece in account.pieces:
            if piece.step is None:
                continue
            for share in piece.shares:
                if share.cause is Cause.OTHERS_PROMPTS:
                    by = found.setdefault(piece.step, {})
                    by[share.request_id] = by.get(share.request_id, 0) + share.ns
                    tokens[piece.step, share.request_id] = share.amount
            lengths[piece.step] = lengths.get(piece.step, 0) + piece.end - piece.begin
        order = sorted(found, key=lambda step: -sum(found[step].values()))
        for step in islice(order, MOST_NAMES):
            other = max(found[step], key=found[step].__getitem__)
            assert other is not None
            yield (
                f"  step {step}: {duration(lengths[step])}, "
                f"{duration(found[step][other])} of them {self.name(other)}'s "
                f"{tokens[step, other]} prompt tokens"
            )

    def _step(self, part: Part) -> str:
        told = (
            Cause.OTHERS_PROMPTS,
            Cause.CPU,
            Cause.COMPILING,
            Cause.UNEXPLAINED,
            Cause.LEFT_OUT,
        )
        if part.cause not in told or part.worst is None:
            return ""
        return f", most of all in step {part.worst} ({duration(part.worst_ns)})"

    def _culprits(self, part: Part) -> str:
        known: Sequence[tuple[int, Culprit]] = list(part.culprits.items())
        names = [
            f"{self._culprit(part.cause, each)} ({self._amount(part.cause, culprit)})"
            for each, culprit in known[:MOST_NAMES]
        ]
        if len(known) > MOST_NAMES:
            names.append("others")
        if len(names) == 1:
            return names[0]
        return f"{', '.join(names[:-1])} and {names[-1]}"

    def _culprit(self, cause: Cause, request_id: int) -> str:
        if cause is not Cause.ADAPTER_SLOT:
            return self.name(request_id)
        adapter = self._explainer.adapters.adapter(request_id)
        return f"adapter `{safe(adapter)}` of {self.name(request_id)}"

    def _amount(self, cause: Cause, culprit: Culprit) -> str:
        unit = _UNITS.get(cause)
        if unit is None:
            return duration(culprit.ns)
        unit = unit.replace("tokens", "token") if culprit.amount == 1 else unit
        return f"{culprit.amount} {unit}"


def _seconds(seconds: float) -> str:
    return duration(round(seconds * NANOSECONDS))


def _main(pieces: tuple[Piece, ...]) -> Part | None:
    """Returns what took most of a time, in whatever phase."""
    causes: dict[tuple[Cause, str, Phase | None], list[Piece]] = {}
    for piece in pieces:
        for share in piece.shares:
            # Own prompt and own tokens differ; a preempted request waits once more.
            own = share.cause is Cause.OWN or piece.phase is Phase.PREEMPTED
            phase = piece.phase if own else None
            key = (share.cause, share.detail, phase)
            only = Piece(piece.begin, piece.end, phase, piece.step, (share,))
            causes.setdefault(key, []).append(only)
    found = [part for each in causes.values() for part in parts_of(tuple(each))]
    return max(found, key=lambda each: each.ns, default=None)
