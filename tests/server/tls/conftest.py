"""Certificates for tests of TLS, made once in each test process."""

import pytest

from hookline_testing.tls_files import TlsFiles, tls_files


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return tls_files(tmp_path_factory.mktemp("tls"))
