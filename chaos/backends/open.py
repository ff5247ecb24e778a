"""Opens a backend by its name, importing it only then: Ray takes a second."""

from rich.console import Console
from rich.text import Text

from chaos.model.plan import BackendName
from chaos.run.ports import OpenBackend


def open_backend(name: BackendName, console: Console) -> OpenBackend:
    """Give a backend as a context, and say so where Ray's version was never tested."""
    from chaos.backends.ray import compat

    warning = compat.untested_version()
    if warning:
        console.print(Text.assemble(("warning: ", "yellow"), warning), soft_wrap=True)
    if name == "fork":
        from chaos.backends.fork.backend import ForkBackend

        return ForkBackend()
    from chaos.backends.ray.backend import RayBackend

    return RayBackend()
