"""The command line: a file per command, and `main`, which guards them all."""

import sys

from chaos.cli import signals


def main() -> None:
    """Run the command line, with its own streams and signals; always ends by `SystemExit`."""
    signals.exit_when_signalled()
    # Imported here: it takes a while, in which one may leave.
    from chaos.cli import streams  # noqa: PLC0415

    streams.keep_streams_writable()
    from chaos.cli.commands import main as run  # noqa: PLC0415

    signals.interrupt_when_signalled()
    try:
        run()
    except KeyboardInterrupt:  # as it was over
        sys.exit(signals.exit_code())
    finally:
        signals.ignore_signals()
        streams.report_lost_output()


__all__ = ["main"]
