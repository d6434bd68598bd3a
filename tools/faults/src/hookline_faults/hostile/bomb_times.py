"""Times bombs of grammars: `python -m hookline_faults.hostile.bomb_times`.

Starts a server of the demo model, reads streams and asks for the health all the time,
and sends one bomb after the other. Prints a row for each: how long its 400 took, and
the longest wait of the stream and of the health in that time. Returns 1 if an answer
was another one.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hookline_faults.fuzzing.canary import NOTED_SECONDS
from hookline_faults.fuzzing.watching import Wait, Watched, watched
from hookline_faults.hostile.grammar_bombs import BOMBS, COMPLETIONS, FREE, Bomb
from hookline_testing.server_process import Server, serving

_SERVER = ("--port=0", "--model=demo", "--num-kv-blocks=512", "--log-level=warning")
_CALM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A bomb that has been answered.

    Attributes:
        name: Its name.
        begun: When it was sent, in seconds of the monotonic clock.
        seconds: How long its answer took.
        answer: The status and the error's code.
    """

    name: str
    begun: float
    seconds: float
    answer: str

    def longest(self, waits: Iterable[Wait]) -> float:
        """Returns the longest of the waits that overlap with this exchange."""
        end = self.begun + self.seconds
        return max(
            (
                length
                for at, length, _ in waits
                if at < end and at + length > self.begun
            ),
            default=0.0,
        )


def send(server: Server, name: str, bomb: Bomb) -> Sent:
    """Sends a bomb and waits for its answer."""
    begun = time.monotonic()
    status, answer = server.post(bomb.path, bomb.body)
    seconds = time.monotonic() - begun
    code = answer["error"]["code"] if "error" in answer else "no error"
    return Sent(name, begun, seconds, f"{status} {code}")


def table(sent: Sequence[Sent], seen: Watched) -> Iterable[str]:
    """Yields the lines of a table: a row for each exchange."""
    yield "| | answer | seconds | stream's longest gap | longest /health |"
    yield "|---|---|---|---|---|"
    for each in sent:
        stream = each.longest(seen.sighting.stream.waits)
        health = each.longest(seen.sighting.health.waits)
        yield (
            f"| {each.name} | {each.answer} | {each.seconds:.2f} "
            f"| {_shown(stream)} | {_shown(health)} |"
        )


def _shown(wait: float) -> str:
    return f"{wait * 1000:.0f} ms" if wait else f"< {NOTED_SECONDS * 1000:.0f} ms"


def main() -> int:
    """Times all bombs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=BOMBS)
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="of the server"
    )
    given = parser.parse_args()
    bombs = {name: BOMBS[name] for name in given.only or BOMBS}
    with serving(*_SERVER, *given.options) as server, watched(server) as seen:
        calm = Sent("no bomb", time.monotonic(), _CALM_SECONDS, "")
        time.sleep(_CALM_SECONDS)
        first = Bomb(COMPLETIONS, {**FREE, "guided_regex": "a|b"}, None)
        sent = [calm, send(server, "first grammar, no bomb", first)]
        sent += [send(server, name, bomb) for name, bomb in bombs.items()]
    sys.stdout.write("\n".join(table(sent, seen)) + "\n")
    faults = [each for each in sent[2:] if not each.answer.startswith("400 ")]
    slowest = max(each.seconds for each in sent[2:])
    sys.stdout.write(f"\nslowest: {slowest:.2f} s; answers that are no 400: ")
    sys.stdout.write(f"{len(faults)}\n")
    return int(bool(faults or seen.faults))


if __name__ == "__main__":
    sys.exit(main())
