"""Children that a command starts, and files that its programs leave in the working folder."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.called import Done, chaos

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

TRAINS = """
import os, torch
torch.manual_seed(1)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
first = 0
if os.path.exists("net.pt"):
    saved = torch.load("net.pt")
    net.load_state_dict(saved["net"])
    first = saved["step"]
for step in range(first, 8):
    points = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
    loss = net(points).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2:
        torch.save({"net": net.state_dict(), "step": step + 1}, "net.pt.tmp")
        os.replace("net.pt.tmp", "net.pt")
"""
REPLICAS = f"""
import subprocess, sys
if "--replica" in sys.argv:
    exec({TRAINS!r}.replace("net.pt", f"net-{{sys.argv[-1]}}.pt"))
else:
    words = [sys.executable, __file__, "--replica"]
    for child in [subprocess.Popen([*words, str(number)]) for number in range(2)]:
        child.wait()
"""
TALLY = f"""
import os, subprocess
os.environ["COUNT"] = 'n=$(cat tally.txt || echo 0); echo $((n + 1)) > tally.txt'
{TRAINS}
subprocess.run(["bash", "-c", 'eval "$COUNT"'], check=True)
subprocess.run(["cp", "net.pt", "best.pt"], check=True)
"""


def audited(folder: Path, script: str) -> Done:
    (folder / "train.py").write_text(script)
    return chaos("audit", "train.py", "--max-runs", "1", folder=folder)


@pytest.mark.nightly
def test_a_job_whose_children_alone_train_is_refused_for_that_reason(tmp_path: Path) -> None:
    done = audited(tmp_path, REPLICAS)

    said = " ".join(done.err.split())
    assert done.code == 3
    assert "trains in 2 processes that it starts itself" in said
    assert "its children are started by subprocess and are not watched" in said
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "reports"}


def test_a_file_by_which_runs_go_on_from_one_another_is_refused_by_its_name(
    tmp_path: Path,
) -> None:
    done = audited(tmp_path, TALLY)

    said = " ".join(done.err.split())
    assert done.code == 3
    assert "tally.txt appeared in a clean run, and was another one after the next" in said
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"train.py", "reports", "tally.txt"}  # it may be another program's; best.pt not


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with little room: a file system in memory, which takes root to make."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(options, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_after_a_full_disk_nothing_of_the_job_is_left(small_disk: Path) -> None:
    fill = """
    if step == 4:
        with open("fill.bin", "wb", buffering=0) as file:
            try:
                while file.write(bytes(512)) == 512: pass
            except OSError: pass
"""
    done = audited(small_disk, TRAINS + fill)

    assert done.code in (3, 4)
    assert {path.name for path in small_disk.iterdir()} == {"train.py", "reports"}
