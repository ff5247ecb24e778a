"""Train a small classifier on spirals with DistributedDataParallel, without Ray.

torchrun --nproc-per-node 2 --max-restarts 3 spirals_torchrun.py --epochs 3
"""

import argparse
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CHECKPOINT = "spirals.pt"
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
asked_to_end = False


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


def ask_to_end(signal_number, frame):
    global asked_to_end
    asked_to_end = True


def asked(path, method="GET", **headers):
    """Ask the machine's metadata service (IMDSv2); None for what it does not have."""
    request = urllib.request.Request(METADATA + path, method=method, headers=headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError:
        return None


def will_go(path):
    """Return whether this machine is announced to go, by the answer at a path."""
    token = asked("/latest/api/token", "PUT", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    return asked(path, **{"X-aws-ec2-metadata-token": token}) is not None


def ignore_sigterm(loader_process):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def train(model, optimizer, loader, args, done, save_at):
    """Train an epoch from batch `done` on; `save_at` saves once a rank was asked to end.

    With `--poll`, it saves after each batch once a rank's machine is announced to go. With
    `--on-loader-error begin-anew` an error of the loader is not raised.
    """
    batches = iter(loader)
    for _ in range(done):
        next(batches)
    since = time.monotonic()
    for number in range(done, len(loader)):
        if args.epoch_seconds and all_say(time.monotonic() - since > args.epoch_seconds):
            print("the epoch takes too long, and is left early")
            break
        try:
            loss = step(model, optimizer, *next(batches))
        except RuntimeError as error:
            if args.on_loader_error == "raise" or "DataLoader" not in str(error):
                raise
            batches = iter(loader)
            continue
        time.sleep(args.step_seconds)
        if args.poll and any_says(will_go(args.poll)):
            save_at(number + 1)
        elif args.save_on_term and any_says(asked_to_end):
            save_at(number + 1)
            dist.barrier()
            sys.exit(128 + signal.SIGTERM)
    return loss


def step(model, optimizer, points, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()
    return loss


def all_say(mine):
    votes = torch.tensor(float(mine))
    dist.all_reduce(votes, op=dist.ReduceOp.MIN)
    return bool(votes)


def any_says(mine):
    votes = torch.tensor(float(mine))
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    return bool(votes)


def save(state, args):
    """Save the state beside the last one and rename it, or with `--in-place` over the last one."""
    path = CHECKPOINT if args.in_place else CHECKPOINT + ".tmp"
    try:
        torch.save(state, path)
        if args.sync:
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
    except OSError as error:
        if args.on_save_error == "raise":
            raise
        print(f"not saved: {error}")
        return
    if not args.in_place:
        os.replace(path, CHECKPOINT)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="per worker")
    parser.add_argument("--loader-processes", type=int, default=0)
    parser.add_argument(
        "--patience", type=float, help="seconds to wait for a peer; default: 30 min"
    )
    parser.add_argument("--epoch-seconds", type=float, help="leave an epoch after so long")
    parser.add_argument("--on-loader-error", choices=["raise", "begin-anew"], default="raise")
    parser.add_argument("--on-save-error", choices=["raise", "go-on"], default="raise")
    parser.add_argument("--in-place", action="store_true", help="save over the last checkpoint")
    parser.add_argument("--sync", action="store_true", help="have it on the disk before the rename")
    parser.add_argument(
        "--forget", choices=["optimizer", "epoch", "other-sizes"], help="what is not restored"
    )
    parser.add_argument("--leave-out-failed", action="store_true", help="the epoch that failed")
    parser.add_argument("--if-restarted", action="store_true", help="look only then for a file")
    parser.add_argument("--save-on-term", action="store_true", help="save, and end with 143")
    parser.add_argument("--resume", choices=["always", "never"], default="always")
    parser.add_argument("--whole-epochs", action="store_true", help="save no place within one")
    parser.add_argument("--poll", help="a path of AWS's metadata service: there, save each step")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="that a step takes more")
    parser.add_argument("--loaders-take-term", action="store_true", help="SIGTERM ends them, too")
    args = parser.parse_args()
    if args.save_on_term:
        signal.signal(signal.SIGTERM, ask_to_end)

    patience = {"timeout": timedelta(seconds=args.patience)} if args.patience else {}
    dist.init_process_group("gloo", **patience)
    torch.manual_seed(0)
    data = spirals()
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        sampler=sampler,
        num_workers=args.loader_processes,
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=None if args.loaders_take_term else ignore_sigterm,
    )
    model = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

    start, done = 0, 0
    is_new = args.if_restarted and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if os.path.exists(CHECKPOINT) and not is_new and args.resume == "always":
        state = torch.load(CHECKPOINT, map_location="cpu")
        model.module.load_state_dict(state["model"])
        is_other = args.forget == "other-sizes" and state["ranks"] != dist.get_world_size()
        if args.forget != "optimizer" and not is_other:
            optimizer.load_state_dict(state["optimizer"])
        # A batch of each rank: with fewer ranks these are more batches.
        done = state["done"] * state["ranks"] // dist.get_world_size()
        start = state["epoch"] + (0 if args.forget == "epoch" or done else 1)
        if args.leave_out_failed:
            start += 1
        print(f"resuming at epoch {start}")

    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)

        def save_at(batches, epoch=epoch):
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch,
                "done": 0 if args.whole_epochs else batches % len(loader),
                "ranks": dist.get_world_size(),
            }
            if dist.get_rank() == 0:
                save(state, args)

        loss = train(model, optimizer, loader, args, done, save_at)
        done = 0
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
        save_at(0)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
