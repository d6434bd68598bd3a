"""The secret of several machines, and where the head node may listen."""

from pathlib import Path

import pytest

from hookline.exceptions import ConfigError
from hookline_cluster.config import MachinesConfig
from hookline_cluster.machines import link_keys
from hookline_cluster.machines.endpoint import endpoint_of
from hookline_cluster.machines.link_keys import LinkKeys, read_secret, shared_secret


def test_equal_secrets_give_equal_keys() -> None:
    """Both ends derive the same keys, and the two ends' keys differ."""
    first, second = LinkKeys.derive(b"x" * 16), LinkKeys.derive(b"x" * 16)

    assert first == second
    assert first.head != first.engine
    assert LinkKeys.derive(b"y" * 16).head != first.head


def test_white_space_around_the_secret_does_not_count(tmp_path: Path) -> None:
    """An editor's newline makes no other secret."""
    file = tmp_path / "secret"
    file.write_text("  0123456789abcdef\n")

    assert read_secret(str(file)) == b"0123456789abcdef"
    assert read_secret(None) is None


EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused here


@pytest.mark.parametrize("content", [b"", b"short\n", b"x" * 5000])
def test_a_secret_of_a_wrong_length_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error says how long it may be, and does not show it."""
    file = tmp_path / "secret"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match="must have 16 to 4096"):
        read_secret(str(file))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file"):
        read_secret(str(tmp_path / "nowhere"))


def test_without_a_file_a_users_processes_share_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head node and its engines find the same one; a file prevails."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    given = tmp_path / "given"
    given.write_text("0123456789abcdef")

    first = shared_secret(None)

    assert len(first) >= 32
    assert shared_secret(None) == first
    assert shared_secret(str(given)) == b"0123456789abcdef"


def test_without_a_private_folder_a_file_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the option, and why each folder is not the user's own."""

    def nowhere() -> Path:
        raise PermissionError("it belongs to another user")

    monkeypatch.setattr(link_keys, "local_secret_file", nowhere)

    with pytest.raises(ConfigError, match=r"secret-file: is required: .*another user"):
        shared_secret(None)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_the_loopback_needs_no_file(address: str) -> None:
    """Processes of this machine share a secret of their own."""
    found = endpoint_of(MachinesConfig(address=address), has_secret=False)

    assert found.is_loopback


@pytest.mark.parametrize("address", [EVERYWHERE, "10.1.2.3", "::", "fd00::1"])
def test_all_else_needs_a_secret(address: str) -> None:
    """Without one there is one clear error; with one it is an address like others."""
    config = MachinesConfig(address=address, rpc_port=4321)

    with pytest.raises(ConfigError, match="data-parallel-secret-file: is required"):
        endpoint_of(config, has_secret=False)

    assert str(endpoint_of(config, has_secret=True)).endswith(":4321")


def test_an_unknown_address_is_refused() -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match="data-parallel-address: 'no such host'"):
        endpoint_of(MachinesConfig(address="no such host"), has_secret=True)
