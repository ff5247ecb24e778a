"""Small digits CNN with a loss that leans on the classes we are worst at."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


class ClassTracker:
    def __init__(self, n_classes):
        self.acc = {c: 0.5 for c in range(n_classes)}

    def update(self, pred, y):
        for c in range(len(self.acc)):
            mask = y == c
            if mask.any():
                hit = (pred[mask] == c).float().mean().item()
                self.acc[c] = 0.8 * self.acc[c] + 0.2 * hit

    def weights(self):
        w = torch.tensor([1.4 - self.acc[c] for c in range(len(self.acc))])
        return w / w.mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 12, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(12 * 16, 10)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.conv(x)), 2)
        return self.fc(self.drop(h.flatten(1)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="./out")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "last.pt")

    d = load_digits()
    X = torch.tensor(d.images[:640], dtype=torch.float32).unsqueeze(1) / 16.0
    Y = torch.tensor(d.target[:640])

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.7)
    tracker = ClassTracker(10)
    start = 0
    if os.path.exists(path):
        ck = torch.load(path)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        torch.set_rng_state(ck["rng"])
        start = ck["epoch"] + 1

    for epoch in range(start, args.epochs):
        perm = torch.randperm(len(X))
        total = 0.0
        for idx in perm.split(80):
            logits = net(X[idx])
            loss = F.cross_entropy(logits, Y[idx], weight=tracker.weights())
            opt.zero_grad()
            loss.backward()
            opt.step()
            tracker.update(logits.argmax(1), Y[idx])
            total += loss.item() * len(idx)
        sched.step()
        print(f"epoch {epoch} loss {total / len(X)!r}", flush=True)
        torch.save(
            {
                "net": net.state_dict(),
                "opt": opt.state_dict(),
                "sched": sched.state_dict(),
                "rng": torch.get_rng_state(),
                "epoch": epoch,
            },
            path + ".tmp",
        )
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
