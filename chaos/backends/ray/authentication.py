"""The token by which this process, and all that it starts, speaks to a Ray cluster.

Ray 2.60 takes from the environment whether a cluster authenticates (RAY_AUTH_MODE) and
where its token is: in RAY_AUTH_TOKEN, in the file RAY_AUTH_TOKEN_PATH, or in
~/.ray/auth_token. `ray start` turns authentication on where it finds one; `ray.init()`
with an address never does. Here a client does as its cluster does, and our own cluster
has a token of its own: its ports are open to every user of this machine, and who may
submit work to it may run code as whoever started it.

Drivers, raylets and workers inherit the environment. We put the path of a file there, and
never a token: what a process says of its environment may end in a log.
"""

import os
import secrets
from pathlib import Path

from chaos.backends.ray import compat
from chaos.errors import ClusterError

MODE, TOKEN, FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
WAYS = "RAY_AUTH_TOKEN_PATH (a file), RAY_AUTH_TOKEN or ~/.ray/auth_token"


class Authentication:
    """The settings of authentication in the environment, for one cluster; `restore` undoes them."""

    def __init__(self) -> None:
        self._before = {name: os.environ.get(name) for name in (MODE, TOKEN, FILE)}

    def use_own(self, folder: Path) -> None:
        """Make a token, kept in a folder of its own, that the cluster about to start asks for.

        Where the user has set a mode, that is the user's word: `disabled` does without.
        """
        if self._before[MODE] == "disabled":
            return
        file = folder / "token"
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32), encoding="ascii")
        _set({MODE: "token", TOKEN: None, FILE: str(file)})

    def follow(self, address: str) -> None:
        """Authenticate where the cluster at an address asks for it, unless the user has set a mode.

        Raises `ClusterError` where it asks for a token that is not to be had here.
        """
        mode = self._before[MODE]
        if mode is None:
            _set({MODE: "disabled"})
        if not compat.is_refused(address):
            return
        if mode == "disabled":
            raise ClusterError(
                f"the cluster at {address} asks for a token, and {MODE}=disabled sends none",
                f"Unset {MODE}; the token is taken from {WAYS}.",
            )
        _set({MODE: "token", FILE: self._file()})
        if not compat.has_token():
            raise ClusterError(
                f"the cluster at {address} asks for a token, and none was found here",
                f"Give it in {WAYS}; `ray get-auth-token` prints it on a node of the cluster.",
            )
        if compat.is_refused(address):
            raise ClusterError(
                f"the cluster at {address} refuses the token that was found here",
                f"Ray takes the first of {WAYS}; `ray get-auth-token` prints the right one on a "
                "node of the cluster.",
            )

    def restore(self) -> None:
        """Leave the environment, and what Ray has read there, as they were found."""
        _set(self._before)

    def _file(self) -> str | None:
        """Return where the token is: a job that is given another HOME is to find it as well."""
        at_home = Path.home() / ".ray" / "auth_token"
        is_named = self._before[TOKEN] or self._before[FILE] or not at_home.exists()
        return self._before[FILE] if is_named else str(at_home)


def _set(wanted: dict[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    compat.read_authentication()
