"""Distil a fixed teacher into a small student; the exported student is an average over the late epochs."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_teacher():
    torch.manual_seed(100)
    t = nn.Sequential(nn.Linear(20, 256), nn.Tanh(), nn.Linear(256, 10))
    with torch.no_grad():
        t[2].weight.mul_(6)
    return t.requires_grad_(False).eval()


def make_student():
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


class Distiller:
    swa_from = 2

    def __init__(self, folder, epochs):
        self.folder, self.epochs, self.rank = Path(folder), epochs, dist.get_rank()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.teacher = make_teacher()
        g = torch.Generator().manual_seed(8)
        self.train_x, self.test_x = (
            torch.randn(3200, 20, generator=g),
            torch.randn(1000, 20, generator=g),
        )
        torch.manual_seed(12)
        self.student = make_student()
        self.ddp = DistributedDataParallel(self.student)
        self.swa = AveragedModel(self.student)
        self.opt = torch.optim.SGD(self.ddp.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        self.warm = torch.optim.lr_scheduler.StepLR(self.opt, 1, 0.8)
        self.swalr = SWALR(self.opt, swa_lr=0.06, anneal_epochs=2)
        self.done = 0

    def parts(self):
        return {
            "student": self.student,
            "swa": self.swa.module,
            "opt": self.opt,
            "warm": self.warm,
            "swalr": self.swalr,
        }

    def checkpoint(self):
        if self.rank == 0:
            blob = {k: v.state_dict() for k, v in self.parts().items()}
            tmp = self.folder / "student.ckpt.new"
            torch.save({**blob, "done": self.done}, tmp)
            os.replace(tmp, self.folder / "student.ckpt")

    def maybe_resume(self):
        path = self.folder / "student.ckpt"
        if path.exists():
            blob = torch.load(path, weights_only=False)
            for k, v in self.parts().items():
                v.load_state_dict(blob[k])
            self.done = blob["done"]
        dist.barrier()

    @torch.no_grad()
    def agreement(self, net):
        return (
            (net(self.test_x).argmax(1) == self.teacher(self.test_x).argmax(1))
            .float()
            .mean()
            .item()
        )

    def run(self, temp=2.0):
        self.maybe_resume()
        data = TensorDataset(self.train_x)
        sampler = DistributedSampler(data, shuffle=True, seed=3)
        loader = DataLoader(data, batch_size=32, sampler=sampler)
        for epoch in range(self.done, self.epochs):
            sampler.set_epoch(epoch)
            for i, (x,) in enumerate(loader):
                loss = temp**2 * F.kl_div(
                    F.log_softmax(self.ddp(x) / temp, 1),
                    F.softmax(self.teacher(x) / temp, 1),
                    reduction="batchmean",
                )
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                if self.rank == 0 and i % 10 == 9:
                    print(f"epoch {epoch} it {i} loss {loss.item():.9f}", flush=True)
            if epoch >= self.swa_from:
                self.swa.update_parameters(self.student)
                self.swalr.step()
            else:
                self.warm.step()
            self.done = epoch + 1
            if self.rank == 0:
                print(
                    f"epoch {epoch} student {self.agreement(self.student):.4f} lr {self.opt.param_groups[0]['lr']:.6f}",
                    flush=True,
                )
            self.checkpoint()
        if self.rank == 0:
            print(f"exported agreement {self.agreement(self.swa.module):.4f}", flush=True)
            tmp = self.folder / "export.new"
            torch.save(self.swa.module.state_dict(), tmp)
            os.replace(tmp, self.folder / "export.pt")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="runs/pewter")
    p.add_argument("--epochs", type=int, default=7)
    o = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Distiller(o.out, o.epochs).run()
    dist.barrier()
    dist.destroy_process_group()
