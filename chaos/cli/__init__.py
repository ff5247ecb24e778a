"""The command line: a file per command, and `main`, which guards them all."""

import sys

from chaos.cli import signals, streams


def main() -> None:
    """Run the command line with streams and signals of its own; always ends by `SystemExit`."""
    streams.keep_streams_writable()
    signals.leave_at_once()
    from chaos.cli.commands import main as run  # noqa: PLC0415 - seconds, in which one may leave

    signals.conclude()
    try:
        run()
    except KeyboardInterrupt:  # as it was over
        sys.exit(signals.exit_code())
    finally:
        signals.ignore()
        streams.tell_of_lost_output()


__all__ = ["main"]
