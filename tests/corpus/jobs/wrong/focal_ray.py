"""Imbalanced classification with an annealed focal loss, two Ray Train workers."""

import argparse
import pathlib
import tempfile

import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import make_classification


class AnnealedFocal(torch.nn.Module):
    """Focal loss; gamma follows how sure the model has been lately."""

    def __init__(self, gamma=0.0, top=4.0):
        super().__init__()
        self.gamma = gamma
        self.top = top

    def forward(self, logits, y):
        logp = logits.log_softmax(1).gather(1, y[:, None]).squeeze(1)
        pt = logp.exp()
        if self.training:
            sure = pt.detach().mean()
            dist.all_reduce(sure)
            goal = self.top * sure.item() / dist.get_world_size()
            self.gamma += 0.05 * (goal - self.gamma)
        return ((1 - pt) ** self.gamma * -logp).mean()


def load_rows(rank, world):
    x, y = make_classification(
        n_samples=480, n_features=16, n_informative=8, weights=[0.85], random_state=12
    )
    x = torch.tensor(x[rank::world], dtype=torch.float32)
    return x, torch.tensor(y[rank::world])


def loop(config):
    torch.set_num_threads(1)
    ctx = train.get_context()
    rank, world = ctx.get_world_rank(), ctx.get_world_size()
    x, y = load_rows(rank, world)
    torch.manual_seed(55)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    criterion = AnnealedFocal()
    epoch, restored = 0, None
    if train.get_checkpoint() is not None:
        with train.get_checkpoint().as_directory() as folder:
            restored = torch.load(pathlib.Path(folder) / "all.pt")
        net.load_state_dict(restored["net"])
        criterion.load_state_dict(restored["criterion"])
        epoch = restored["epoch"]
    model = prepare_model(net)
    optim = torch.optim.Adam(model.parameters(), lr=6e-3)
    if restored:
        optim.load_state_dict(restored["optim"])

    while epoch < config["epochs"]:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(1)
        for idx in order.chunk(6):
            loss = criterion(model(x[idx]), y[idx])
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.detach() / 6
        dist.all_reduce(total)
        epoch += 1
        metrics = {"epoch": epoch, "loss": total.item() / world}
        if rank == 0:
            print(f"epoch {epoch} focal {metrics['loss']:.10f}", flush=True)
            with tempfile.TemporaryDirectory() as tmp:
                torch.save(
                    {
                        "net": net.state_dict(),
                        "optim": optim.state_dict(),
                        "criterion": criterion.state_dict(),
                        "epoch": epoch,
                    },
                    pathlib.Path(tmp) / "all.pt",
                )
                train.report(metrics, checkpoint=Checkpoint.from_directory(tmp))
        else:
            train.report(metrics)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()
    trainer = TorchTrainer(
        loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(
            name="focal",
            storage_path=str(pathlib.Path(args.out).resolve()),
            failure_config=FailureConfig(max_failures=3),
        ),
    )
    print("final focal %.10f" % trainer.fit().metrics["loss"])


if __name__ == "__main__":
    main()
