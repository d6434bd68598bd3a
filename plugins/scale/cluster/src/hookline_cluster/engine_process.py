"""The process of one of several engines: `python -m hookline_cluster.engine_process`.

It is that of `hookline_process_engine.engine_process`, but that other clients may
attach to it, and that its last argument are the links to engines that share its
experts, in JSON.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from hookline_cluster.clients.engine_wire import SharedEngineWire
from hookline_process_engine.engine_process import main
from hookline_processes.owner import Owner, run_supervised
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.sharing import share_experts


def keep_to_itself(experts: ExpertLinks | None) -> None:
    """Lets what plugins start inherit none of the links' descriptors."""
    for descriptor in () if experts is None else experts.descriptors:
        os.set_inheritable(descriptor, False)


def _main(owner: Owner, arguments: Sequence[str]) -> int:
    folder, engine_index, owner_index, links = arguments
    experts = msgspec.json.decode(links, type=ExpertLinks | None)
    keep_to_itself(experts)
    return main(
        owner,
        Path(folder),
        int(engine_index),
        int(owner_index),
        make_wire=SharedEngineWire,
        adapt=None if experts is None else partial(share_experts, experts),
    )


if __name__ == "__main__":
    sys.exit(run_supervised(_main))
