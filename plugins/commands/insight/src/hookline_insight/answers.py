"""Answers `why`: returns accounts of requests, or the reason why there is none."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookline_insight.account import Account, Part
from hookline_insight.explainer import Explainer
from hookline_insight.sources import explainers
from hookline_insight.stalled import standstill
from hookline_insight.wording import Words, duration, safe
from hookline_recording.front_end_schema import Served

PATH, STALLED_PATH = "/why", "/stalled"
"""Paths of the pages that answer."""
NEWEST = 60_000
"""Records that are read first: some minutes."""


class UnknownRequestError(LookupError):
    """No recording has a request; its text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An account with the words for it.

    Attributes:
        sentence: What it says in short.
    """

    account: Account
    words: Words
    sentence: str

    def lines(self) -> list[str]:
        """Returns it for people."""
        return [self.sentence, "", *self.words.lines(self.account)]

    def fields(self) -> dict[str, object]:
        """Returns it for machines; times in ns."""
        account, name = self.account, self.words.name
        facts, ended = account.facts, account.finished
        return {
            "sentence": self.sentence,
            "request_id": account.request_id,
            "client_id": None if facts is None else facts.client_id,
            "response_id": None if facts is None else facts.response_id,
            "tenant": None if facts is None else facts.tenant,
            "engine_index": account.engine_index,
            "state": _state(account),
            "finish_reason": None if ended is None else ended.reason,
            "prompt_tokens": None if facts is None else facts.prompt_tokens,
            "output_tokens": account.output_tokens,
            "began_at_ns": self.words.began(account),
            "begin_ns": account.begin,
            "latency_ns": account.latency,
            "ttft_ns": account.ttft,
            "residue_ns": account.residue,
            "is_whole": account.is_whole,
            "is_fitted": account.is_fitted,
            "preemptions": [
                {"cause": cause, "for": None if by is None else name(by)}
                for cause, by in account.preemptions
            ],
            "parts": [self._part(each) for each in account.parts],
            "pieces": [
                {
                    "begin_ns": piece.begin,
                    "end_ns": piece.end,
                    "phase": piece.phase,
                    "step": piece.step,
                    "shares": [
                        {
                            "cause": share.cause,
                            "ns": share.ns,
                            "request_id": share.request_id,
                            "amount": share.amount,
                        }
                        for share in piece.shares
                    ],
                }
                for piece in account.pieces
            ],
        }

    def _part(self, part: Part) -> dict[str, object]:
        return {
            "phase": part.phase,
            "cause": part.cause,
            "ns": part.ns,
            "detail": part.detail,
            "words": self.words.part(part),
            "culprits": [
                {
                    "request_id": request_id,
                    "name": self.words.name(request_id),
                    "ns": culprit.ns,
                    "amount": culprit.amount,
                    "step": culprit.step,
                }
                for request_id, culprit in part.culprits.items()
            ],
        }


def answers(name: str, explainers: Iterable[Explainer]) -> list[Answer]:
    """Returns the accounts of the requests of that name in all recordings."""
    found = []
    for explainer in explainers:
        words = Words(explainer)
        for request_id in explainer.find(name):
            account = explainer.account(request_id)
            sentence = words.sentence(account)
            if account.finished is None and explainer.is_live:
                now = standstill(explainer, is_live=True, now=explainer.until)
                sentence = f"{sentence} {now.hang}".rstrip()
            found.append(Answer(account, words, sentence))
    return found


def _state(account: Account) -> str:
    if account.finished is not None:
        return "ended"
    return "running" if account.is_live else "lost"


def of_request(
    name: str, paths: list[Path], *, others: Sequence[Path] = ()
) -> list[Answer]:
    """Returns the accounts of a request from the first files that have it.

    Of large rings the newest part is enough for most requests.

    Args:
        name: What a client or the engine calls it.
        paths: The recordings.
        others: Recordings that are read if these have it not, one after another.

    Raises:
        UnknownRequestError: None of them has it.
        CommandFailedError: A recording cannot be read.
    """
    found = answers(name, explainers(paths, NEWEST))
    if found and all(answer.account.is_whole for answer in found):
        return found
    read = list(explainers(paths))
    if found := answers(name, read):
        return found
    for path in others:
        if found := answers(name, explainers([path])):
            return found
    raise UnknownRequestError(missing(name, read))


def missing(name: str, explainers: Sequence[Explainer]) -> str:
    """Says why nothing is known of a request."""
    for explainer in explainers:
        for served in explainer.recording.front_end:
            if isinstance(served, Served) and name in (
                *(served.client_id, served.response_id),
            ):
                return _known_to_front_end(name, served)
    who = f"nothing is known of '{safe(name)}'"
    cut = [each for each in explainers if each.recording.overwritten]
    if not cut:
        return f"{who}: no recorded engine has got a request of that id"
    oldest = min((each.until - each.begin) for each in cut)
    if name.isascii() and name.isdecimal() and _was_before(int(name), cut):
        return (
            f"request {name} has ended and its records are overwritten: the ring has "
            f"the last {duration(oldest)}; a larger --flight-recorder-bytes keeps more"
        )
    return (
        f"{who}: either no engine has got a request of that id, or it ended before the "
        f"last {duration(oldest)}, which the ring has; a larger "
        "--flight-recorder-bytes keeps more"
    )


def _known_to_front_end(name: str, served: Served) -> str:
    """Says what a front end knows of a request that no recorded engine has."""
    if not served.request_id:
        return f"{safe(name)} was refused before an engine got it ({safe(served.kind)})"
    return (
        f"{safe(name)} ended after {duration(served.ended_ns)} ({safe(served.reason)}, "
        f"{served.output_tokens} tokens); its engine's records are overwritten: a "
        "larger --flight-recorder-bytes keeps more"
    )


def _was_before(request_id: int, explainers: Iterable[Explainer]) -> bool:
    return any(
        request_id < min(each.recording.requests, default=0) for each in explainers
    )


def shown(found: Sequence[Answer], *, is_json: bool, is_list: bool) -> str:
    """Returns answers as text or JSON; those of a list in short."""
    if is_json:
        fields = [each.fields() for each in found]
        if is_list:
            for each in fields:
                del each["pieces"]
        return json.dumps(fields)
    if is_list:
        lines = [each.sentence for each in found]
        return "\n".join(lines) or "there is none"
    return "\n\n".join("\n".join(each.lines()) for each in found)
