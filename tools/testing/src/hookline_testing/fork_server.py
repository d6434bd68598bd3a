"""Imports what tests start, and forks it: `python -m ….fork_server DESCRIPTOR PADDING`.

It has one thread, and makes nothing before it forks: no event loop, socket or pool. A
fork is the child of whoever has asked, an ancestor of this process, once the process in
between has ended.

A server starts engines and other processes. So that these are forks, too, it has a
child that serves only it, and that like this process has imported everything.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

from hookline_processes.forked_children import keep_from_forked_children
from hookline_processes.owner import HELD
from hookline_testing.fork_orders import Order, become, run
from hookline_testing.forks import MOST_BYTES, MOST_DESCRIPTORS, NAME, SERVER, Forks
from hookline_testing.forks_of_supervised import fork_supervised

IMPORTED = (
    "hookline.frontend.starting",
    "hookline_cluster.cluster",
    "hookline_prometheus",
    "hookline_prometheus.exposition",
    "hookline_server.api_servers.parent",
    "hookline_server.cli.commands.banner",
    "hookline_server.cli.commands.serve",
    "hookline_server.cli.engine_starter",
    "hookline_server.texts.engine",
)
"""Modules that servers import after their start; each brings many others."""
IMPORTED_BY_ENGINES = (
    "hookline_cluster.clients.engine_wire",
    "hookline_process_engine.engine_process",
    "hookline_ranks.experts.sharing",
    "hookline_models.uniproc",
    "hookline_models.building",
    "hookline_background_compiling.first_forward",
    "hookline_grammars.extension",
    "hookline_grammars.worker_side",
    "hookline_kernels.cpu.decode_call",
    "hookline_kernels.cpu.sampling",
    "torch.fx.experimental.symbolic_shapes",
    "transformers.models.llama.modeling_llama",
)
"""Those of engines and ranks, which import torch before them."""


def main() -> int:
    """Serves until the tests end; in a fork, runs what was ordered."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _import_all()
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads cannot be forked"
    order = _serve(control)
    if order is not None and order.module == SERVER:
        order = _serve_server(order)
    if order is not None:
        run(order)
    return 0


def _serve(control: socket.socket) -> Order | None:
    """Forks processes until whoever asks ends.

    Returns:
        In a fork its order; None here, in the end.
    """
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_DESCRIPTORS)
        if not data:
            return None
        order = Order(*json.loads(data))
        reading, writing = os.pipe()
        waiting, going = os.pipe()
        if not os.fork():
            if forked := os.fork():
                os.write(writing, str(forked).encode())
                os._exit(0)
            for each in (reading, writing, going):
                os.close(each)
            control.close()
            if not os.read(waiting, 1):  # nobody asks any more
                os._exit(1)
            os.close(waiting)
            become(order, descriptors)
            return order
        for each in (writing, waiting, *descriptors):
            os.close(each)
        os.wait()
        os.write(going, b"1")
        control.send(os.read(reading, MOST_BYTES))
        for each in (reading, going):
            os.close(each)


def _serve_server(order: Order) -> Order | None:
    """Gives a server a child that forks what it starts; returns in all of them."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        keep_from_forked_children(ours)
        forks = Forks(ours, order.variables)
        fork_supervised(lambda: forks)
        return order
    ours.close()
    Path("/proc/self/comm").write_text(NAME, "ascii")
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)  # meant for the server
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)
    next_order = _serve(theirs)
    if next_order is None:
        os._exit(0)
    return next_order


def _import_all() -> None:
    for name in (*IMPORTED, "torch"):
        importlib.import_module(name)
    from hookline_kernels.runtime.unused_imports import (  # noqa: PLC0415 - torch first
        leave_out_unused,
    )

    leave_out_unused()
    for name in IMPORTED_BY_ENGINES:
        importlib.import_module(name)
    _load_tables()
    gc.collect()
    gc.freeze()


def _load_tables() -> None:
    """Has libraries make what they otherwise make for the first model and kernel."""
    importlib.import_module(
        "transformers.conversion_mapping"
    ).get_checkpoint_conversion_mapping("llama")
    importlib.import_module("numba.core.registry").cpu_target.target_context.refresh()


if __name__ == "__main__":
    sys.exit(main())
