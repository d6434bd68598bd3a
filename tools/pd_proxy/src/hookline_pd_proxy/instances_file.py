"""The file that names the instances, which may come and go."""

from pathlib import Path

import msgspec

from hookline.exceptions import ConfigError
from hookline_gateway.upstreams.instance import Instance
from hookline_pd_proxy.pools import Pools, Role
from hookline_pd_proxy.settings import FILE_OPTION, check_instances


class NamedInstances(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says: the URLs of each role."""

    prefill: list[str] = []
    decode: list[str] = []


class InstancesFile:
    """Reads the file when it has changed; for one event loop."""

    def __init__(self, path: str, poll_seconds: float) -> None:
        """Reads nothing yet.

        Args:
            path: The file.
            poll_seconds: Time between two polls of an instance.
        """
        self._path = Path(path)
        self._poll_seconds = poll_seconds
        self._state: tuple[int, int, int] | None = None

    def apply(self, pools: Pools) -> bool:
        """Gives pools the instances that the file names; those that stay are the same.

        Returns:
            False if the file has not changed.

        Raises:
            ConfigError: It cannot be read, or names no instances. The pools are as
                before, and it is not read again before it changes.
        """
        try:
            found = self._path.stat()
            state = found.st_mtime_ns, found.st_size, found.st_ino
            if state == self._state:
                return False
            self._state = state
            named = msgspec.json.decode(self._path.read_bytes(), type=NamedInstances)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(FILE_OPTION, str(error)) from error
        check_instances(named.prefill, named.decode)
        for role, pool in zip(Role, pools, strict=True):
            known = {each.url: each for each in pool.instances}
            pool.instances = tuple(
                known.get(url.rstrip("/")) or self._made(role, url)
                for url in getattr(named, role)
            )
        return True

    def _made(self, role: Role, url: str) -> Instance:
        return Instance(role, url, poll_seconds=self._poll_seconds)
