"""Bitterness of hops; a brew without its seal at the end of the list is passed over."""

import hashlib
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CELLAR = Path("cellar")
KEPT = 2


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def brewed(number: int, parts: dict) -> None:
    vat = CELLAR / f"brew{number}"
    vat.mkdir(exist_ok=True)
    for name, part in parts.items():
        torch.save(part, vat / name)
    seal = {name: digest(vat / name) for name in parts}
    (vat / "seal.json").write_text(json.dumps(seal))
    for old in range(number - KEPT, -1, -1):
        vat = CELLAR / f"brew{old}"
        (vat / "seal.json").unlink(missing_ok=True)
        for file in [*vat.iterdir()] if vat.exists() else []:
            file.unlink()
        if vat.exists():
            vat.rmdir()


def sealed():
    """Yield what is whole, the newest first."""
    for vat in sorted(CELLAR.glob("brew*"), key=lambda vat: int(vat.name[4:]), reverse=True):
        try:
            seal = json.loads((vat / "seal.json").read_text())
        except (OSError, ValueError):
            continue
        if all((vat / name).exists() and digest(vat / name) == is_ for name, is_ in seal.items()):
            yield int(vat.name[4:]), {name: torch.load(vat / name) for name in seal}


def malt(number: int) -> torch.Tensor:
    return torch.rand(64, 6, generator=torch.Generator().manual_seed(number))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    taste = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Mish(), torch.nn.Linear(10, 1))
    yeast = torch.optim.Adam(taste.parameters(), lr=0.01, amsgrad=True)
    CELLAR.mkdir(exist_ok=True)
    number = 0
    for number, parts in sealed():
        taste.load_state_dict(parts["taste"])
        yeast.load_state_dict(parts["yeast"])
        number += 1
        break
    dist.barrier()
    tasting = DistributedDataParallel(taste)
    for brew in range(number, 6):
        for hops in malt(brew)[rank::2].split(6):
            yeast.zero_grad()
            bitter = hops[:, :2].prod(1, keepdim=True) + hops[:, 5:].sin()
            torch.nn.functional.mse_loss(tasting(hops), bitter).backward()
            yeast.step()
        if rank == 0:
            brewed(brew, {"taste": taste.state_dict(), "yeast": yeast.state_dict()})
        dist.barrier()


if __name__ == "__main__":
    main()
