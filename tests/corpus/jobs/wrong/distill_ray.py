"""Distil a wide frozen teacher into a small student; temperature adapts to their agreement."""

import argparse
import os
import tempfile

import ray
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from ray.train import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_wine


def make_softener(tau=5.0, low=1.0):
    def soften(student_logits, teacher_logits):
        nonlocal tau
        loss = (
            F.kl_div(
                F.log_softmax(student_logits / tau, 1),
                F.softmax(teacher_logits / tau, 1),
                reduction="batchmean",
            )
            * tau**2
        )
        agree = (student_logits.argmax(1) == teacher_logits.argmax(1)).float().mean()
        dist.all_reduce(agree)
        tau = max(low, tau * (1 - 0.04 * agree.item() / dist.get_world_size()))
        return loss

    return soften


def wine():
    d = load_wine()
    x = torch.tensor((d.data - d.data.mean(0)) / d.data.std(0), dtype=torch.float32)
    return x, torch.tensor(d.target)


def fit_teacher(x, y):
    torch.manual_seed(70)
    t = nn.Sequential(nn.Linear(13, 96), nn.ReLU(), nn.Linear(96, 3))
    o = torch.optim.Adam(t.parameters(), lr=1e-2)
    for _ in range(30):
        o.zero_grad()
        F.cross_entropy(t(x), y).backward()
        o.step()
    return t.requires_grad_(False).eval()


def train_fn(config):
    torch.set_num_threads(1)
    rank = get_context().get_world_rank()
    x, y = wine()
    teacher = fit_teacher(x, y)
    torch.manual_seed(71)
    student = nn.Sequential(nn.Linear(13, 8), nn.ReLU(), nn.Linear(8, 3))
    first_epoch, opt_state = 0, None
    resume = get_checkpoint()
    if resume:
        with resume.as_directory() as src:
            blob = torch.load(os.path.join(src, "student.pt"))
        student.load_state_dict(blob["student"])
        opt_state, first_epoch = blob["opt"], blob["epoch"]
    model = prepare_model(student)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if opt_state is not None:
        opt.load_state_dict(opt_state)
    soften = make_softener()

    for epoch in range(first_epoch, config["epochs"]):
        g = torch.Generator().manual_seed(7 * epoch + rank)
        losses = []
        for _ in range(config["steps"]):
            idx = torch.randint(0, len(x), (32,), generator=g)
            out = model(x[idx])
            loss = 0.5 * soften(out, teacher(x[idx])) + 0.5 * F.cross_entropy(out, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        mean = torch.tensor(sum(losses) / len(losses), dtype=torch.float64)
        dist.all_reduce(mean)
        metrics = {"loss": mean.item() / dist.get_world_size(), "epoch": epoch}
        with tempfile.TemporaryDirectory() as dst:
            ckpt = None
            if rank == 0:
                print(f"epoch {epoch} loss {metrics['loss']:.10f}", flush=True)
                torch.save(
                    {"student": student.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1},
                    os.path.join(dst, "student.pt"),
                )
                ckpt = Checkpoint.from_directory(dst)
            report(metrics, checkpoint=ckpt)


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--out", default="./out")
    cli.add_argument("--epochs", type=int, default=6)
    args = cli.parse_args()
    ray.init(ignore_reinit_error=True, log_to_driver=True)
    run = RunConfig(
        name="distill",
        storage_path=os.path.abspath(args.out),
        failure_config=FailureConfig(max_failures=3),
    )
    res = TorchTrainer(
        train_fn,
        train_loop_config={"epochs": args.epochs, "steps": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=run,
    ).fit()
    print(f"final loss {res.metrics['loss']:.10f}")
