"""A server, and what each client's program says of it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline_testing.client_environments import ClientEnvironments, NotInstalledError
from hookline_testing.client_programs import Outcome, run_program
from hookline_testing.client_server import client_server
from hookline_testing.client_suite import ROOT, Client
from hookline_testing.debian_programs import MUST_INSTALL


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with client_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="session")
def outcomes_of(
    server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Client], dict[str, Outcome]]:
    """Installs a client and runs its program, when it is first asked for."""
    environments = ClientEnvironments(ROOT / ".clients")
    known: dict[str, dict[str, Outcome]] = {}

    def find(client: Client) -> dict[str, Outcome]:
        if client.name not in known:
            environment = install(environments, client)
            scratch = tmp_path_factory.mktemp("program")
            known[client.name] = run_program(client, environment, scratch, server_url)
        return known[client.name]

    return find


def install(environments: ClientEnvironments, client: Client) -> Path:
    try:
        return environments.install(client.installed_from)
    except NotInstalledError as error:
        if MUST_INSTALL in os.environ:
            raise
        pytest.skip(f"{client.name} cannot be installed: {error}")
