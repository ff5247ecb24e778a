"""Makes the pictures of the documents: `make pictures`.

Faults are injected into a guilty job on the embedded backend, and its pages are photographed.
The terminal is that of the tutorial's first audit.
"""

import base64
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import chaos
from chaos.audit.brief import list_brief_parts
from chaos.report.screen import build_console
from chaos.report.terminal_parts import print_parts
from tests.browser.chromium import Page, browser, find_browser
from tests.browser.recording import COLUMNS, paragraphs, recording

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCENARIO = "scenarios/guilty/optimizer_state_lost.chaos.yaml"
WIDTH, HEIGHT = 1100, 1520


def main() -> int:
    """Make them, or say why not."""
    path = find_browser()
    if path is None:
        sys.stderr.write("chaos: no Chromium on the PATH (Debian's package is `chromium`)\n")
        return 1
    with tempfile.TemporaryDirectory() as made:
        save(DOCS / "audit.svg", terminal(Path(made)).encode())
    with tempfile.TemporaryDirectory() as made, browser(path, Path(made) / "profile") as chromium:
        reports = Path(made) / "reports"
        call("run", SCENARIO, "--backend", "fork", "--reports", str(reports), "--quiet")
        run = min(reports.glob("optimizer_state_lost/*/report.html"))
        take(chromium.open(), run, DOCS / "report.png", WIDTH, HEIGHT)
    return 0


def call(*words: str) -> None:
    """Run a command of chaos; a verdict of `fail` is what this job is for."""
    subprocess.run([sys.executable, "-m", "chaos", *words], cwd=ROOT, check=True)


def terminal(folder: Path) -> str:
    """Audit the script of the tutorial; return the picture of what the command prints."""
    shutil.copy(DOCS / "tutorial/train.py", folder)
    with contextlib.chdir(folder):
        found = chaos.audit("train.py", {"epochs": 4})
    page = io.StringIO()
    print_parts(
        list_brief_parts(found.card),
        build_console(file=page, width=COLUMNS, force_terminal=True, color_system="truecolor"),
    )
    return recording(found.card.command, paragraphs(page.getvalue(), "✗ ", "╭─", "tried"))


def save(to: Path, content: bytes) -> None:
    to.write_bytes(content)
    sys.stdout.write(f"{to.relative_to(ROOT)}: {to.stat().st_size / 1000:.0f} kB\n")


def take(page: Page, file: Path, to: Path, width: int, height: int) -> None:
    """Photograph the top of a page."""
    page.resize(width, height)
    page.prefer("light")
    page.show(file)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = page.do("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    save(to, base64.b64decode(shot["data"]))


if __name__ == "__main__":
    sys.exit(main())
