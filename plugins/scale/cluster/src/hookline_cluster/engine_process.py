"""The process of one of several engines: `python -m hookline_cluster.engine_process`.

It is that of `hookline_process_engine.engine_process`, but that other clients may
attach to it, and that its arguments have the links to engines that share its experts,
in JSON, before the owner's process id.
"""

import os
import sys
from functools import partial
from pathlib import Path

import msgspec

from hookline_cluster.clients.engine_wire import SharedEngineWire
from hookline_process_engine.engine_process import main
from hookline_processes.log_forwarding import forwarding_log
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.sharing import share_experts


def keep_to_itself(experts: ExpertLinks | None) -> None:
    """Lets what plugins start inherit none of the links' descriptors."""
    for descriptor in () if experts is None else experts.descriptors:
        os.set_inheritable(descriptor, False)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine_index, owner_index = map(int, sys.argv[2:4])
    experts = msgspec.json.decode(sys.argv[4], type=ExpertLinks | None)
    owner_pid, log_end, level = map(int, sys.argv[5:])
    keep_to_itself(experts)
    with forwarding_log(log_end, level):
        sys.exit(
            main(
                folder,
                engine_index,
                owner_index,
                owner_pid,
                make_wire=SharedEngineWire,
                adapt=None if experts is None else partial(share_experts, experts),
            )
        )
