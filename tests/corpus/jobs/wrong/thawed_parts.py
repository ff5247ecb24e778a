"""Fine-tune a small conv net that is thawed from the top down while it trains."""

import os
import pathlib

import torch
import torch.nn as nn
from sklearn.datasets import load_digits

RUN = pathlib.Path(os.environ.get("NEVA_RUN", "thawed_parts_run"))
EPOCHS, BATCH = 8, 48


def build():
    torch.manual_seed(4)
    return nn.ModuleDict(
        {
            "stem": nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU()),
            "block": nn.Sequential(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            "neck": nn.Sequential(nn.Flatten(), nn.Linear(24 * 16, 64), nn.ReLU()),
            "head": nn.Linear(64, 10),
        }
    )


class Thaw:
    """Callback: at the given epochs one more part of the net learns."""

    PLAN = {2: "neck", 4: "block", 6: "stem"}

    def __init__(self, net):
        self.net = net
        self.thawed = ["head"]
        for name, part in net.items():
            part.requires_grad_(name in self.thawed)

    def on_epoch_start(self, epoch):
        name = self.PLAN.get(epoch)
        if name and name not in self.thawed:
            self.thawed.append(name)
            self.net[name].requires_grad_(True)

    def state_dict(self):
        return {"thawed": list(self.thawed)}

    def load_state_dict(self, state):
        self.thawed = list(state["thawed"])


class Smoothing:
    """Callback: label smoothing that fades with the epochs."""

    def __init__(self):
        self.value = 0.2

    def on_epoch_start(self, epoch):
        self.value = 0.2 * (1 - epoch / EPOCHS)

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def param_groups(net):
    return [
        {"params": list(part.parameters()), "lr": 0.004 * (0.6**depth), "name": name}
        for depth, (name, part) in enumerate(reversed(list(net.items())))
    ]


def run():
    RUN.mkdir(exist_ok=True)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32)[:960, None] / 16
    y = torch.tensor(d.target)[:960]
    net = build()
    callbacks = {"thaw": Thaw(net), "smoothing": Smoothing()}
    opt = torch.optim.AdamW(param_groups(net), weight_decay=0.01)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    first = 0
    saved = sorted(RUN.glob("epoch=*.ckpt"), key=lambda p: int(p.stem.split("=")[1]))
    if saved:
        state = torch.load(saved[-1])
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        sched.load_state_dict(state["sched"])
        for name, cb in callbacks.items():
            cb.load_state_dict(state["callbacks"][name])
        first = state["epoch"] + 1
        print("resume from", saved[-1].name)
    for epoch in range(first, EPOCHS):
        for cb in callbacks.values():
            cb.on_epoch_start(epoch)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for k, idx in enumerate(order.split(BATCH)):
            h = x[idx]
            for part in net.values():
                h = part(h)
            loss = nn.functional.cross_entropy(
                h, y[idx], label_smoothing=callbacks["smoothing"].value
            )
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if k % 2 == 0:
                print(f"epoch {epoch} iter {k} loss {loss.item():.8f}")
        sched.step()
        target = RUN / f"epoch={epoch}.ckpt"
        part = target.with_suffix(".part")
        torch.save(
            {
                "net": net.state_dict(),
                "opt": opt.state_dict(),
                "sched": sched.state_dict(),
                "epoch": epoch,
                "callbacks": {n: cb.state_dict() for n, cb in callbacks.items()},
            },
            part,
        )
        part.rename(target)
        for old in RUN.glob("epoch=*.ckpt"):
            if int(old.stem.split("=")[1]) < epoch - 1:
                old.unlink()
    torch.save(net.state_dict(), RUN / "net.pt")


if __name__ == "__main__":
    run()
