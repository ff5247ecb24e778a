"""Frost in an orchard; a night is one folder, made under another name and then given its own."""

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Nights:
    """The folders of a training, the newest of which has the highest number."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.root.mkdir(exist_ok=True)

    def whole(self) -> list[Path]:
        named = (p for p in self.root.iterdir() if p.name.isdigit())
        return sorted(named, key=lambda p: int(p.name))

    def put(self, number: int, **parts) -> None:
        draft = self.root / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for name, part in parts.items():
            torch.save(part.state_dict(), draft / name)
        (draft / "README").write_text(f"night {number}\n")
        draft.rename(self.root / str(number))
        for old in self.whole()[:-2]:
            grave = old.with_name("grave")
            shutil.rmtree(grave, ignore_errors=True)
            old.rename(grave)
            shutil.rmtree(grave)


def temperatures(number: int, rank: int):
    draw = torch.Generator().manual_seed(number * 2 + rank)
    for _ in range(5):
        hours = torch.randn(9, 8, generator=draw).cumsum(1)
        yield hours, (hours.min(1).values < -2).float()


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(90)
    warden = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Hardswish(), torch.nn.Linear(6, 1))
    fires = torch.optim.RAdam(warden.parameters(), lr=0.03)
    nights, first = Nights("frost"), 0
    for newest in nights.whole()[-1:]:
        warden.load_state_dict(torch.load(newest / "warden"))
        fires.load_state_dict(torch.load(newest / "fires"))
        first = int(newest.name) + 1
    dist.barrier()
    watch = DistributedDataParallel(warden)
    for number in range(first, 6):
        for hours, froze in temperatures(number, dist.get_rank()):
            logits = watch(hours).squeeze(-1)
            torch.nn.functional.binary_cross_entropy_with_logits(logits, froze).backward()
            fires.step()
            fires.zero_grad()
        if dist.get_rank() == 0:
            nights.put(number, warden=warden, fires=fires)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
