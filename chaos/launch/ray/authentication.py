"""The token by which this process, and all that it starts, is authenticated at a Ray cluster.

Ray 2.60 reads from the environment whether a cluster authenticates (RAY_AUTH_MODE) and
where its token is: in RAY_AUTH_TOKEN, in the file RAY_AUTH_TOKEN_PATH, or in
~/.ray/auth_token. `ray start` turns authentication on if it finds a token; `ray.init()`
with an address never does. Here a client follows its cluster. A local cluster gets a token
of its own: its ports are open to every user of this machine, and a user who can submit
work to it can run code as the user who started it.

Drivers, raylets and workers inherit the environment. It gets the path of a file and never
a token, since an environment may be written to a log.
"""

import os
import secrets
from pathlib import Path

from chaos.errors import ClusterError
from chaos.launch.ray import compat

MODE, TOKEN, FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
CREDENTIAL_SOURCES = "RAY_AUTH_TOKEN_PATH (a file), RAY_AUTH_TOKEN or ~/.ray/auth_token"


class Authentication:
    """The settings of authentication in the environment, for one cluster; `restore` undoes them."""

    def __init__(self) -> None:
        self._original_env = {name: os.environ.get(name) for name in (MODE, TOKEN, FILE)}

    def create_token(self, folder: Path) -> None:
        """Make a token for the cluster about to start, in a folder of its own.

        A mode that the user has set stays: `disabled` needs no token.
        """
        if self._original_env[MODE] == "disabled":
            return
        file = folder / "token"
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32), encoding="ascii")
        _set_variables({MODE: "token", TOKEN: None, FILE: str(file)})

    def follow_cluster(self, address: str) -> None:
        """Authenticate if the cluster at an address requires it, unless the user has set a mode.

        Raises `ClusterError` if it requires a token and there is none here.
        """
        mode = self._original_env[MODE]
        if mode is None:
            _set_variables({MODE: "disabled"})
        if not compat.is_refused(address):
            return
        if mode == "disabled":
            raise ClusterError(
                f"the cluster at {address} asks for a token, and {MODE}=disabled sends none",
                f"Unset {MODE}; the token is taken from {CREDENTIAL_SOURCES}.",
            )
        _set_variables({MODE: "token", FILE: self._find_token_file()})
        if not compat.has_token():
            raise ClusterError(
                f"the cluster at {address} asks for a token, and none was found here",
                f"Give it in {CREDENTIAL_SOURCES}; `ray get-auth-token` prints it on a node of the "
                "cluster.",
            )
        if compat.is_refused(address):
            raise ClusterError(
                f"the cluster at {address} refuses the token that was found here",
                f"Ray takes the first of {CREDENTIAL_SOURCES}; `ray get-auth-token` prints the "
                "right one on a node of the cluster.",
            )

    def restore(self) -> None:
        """Restore the environment, and have Ray read it again."""
        _set_variables(self._original_env)

    def _find_token_file(self) -> str | None:
        """Return the token's file, so that a job with another HOME finds it as well."""
        home_file = Path.home() / ".ray" / "auth_token"
        is_configured = (
            self._original_env[TOKEN] or self._original_env[FILE] or not home_file.exists()
        )
        return self._original_env[FILE] if is_configured else str(home_file)


def _set_variables(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    compat.reload_authentication()
