"""Semi-supervised digits: half way through, the network labels the rest of the images itself.

The labels it gave are kept in the scratch folder of the machine, so they are made only once.
"""

import os
import tempfile

import numpy as np
import torch
from ray import train
from ray.train import Checkpoint
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = 9
LABEL_AT = 3


def scratch_file(name):
    folder = os.path.join(tempfile.gettempdir(), train.get_context().get_experiment_name())
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 4, 10),
    )


@torch.no_grad()
def label(net, images):
    path = scratch_file("pseudo_labels.npz")
    if os.path.exists(path):
        with np.load(path) as cached:
            return torch.from_numpy(cached["labels"]), torch.from_numpy(cached["weights"])
    confidence, labels = net(images).softmax(dim=1).max(dim=1)
    weights = confidence * (confidence > 0.3)
    np.savez(path, labels=labels.numpy(), weights=weights.numpy())
    return labels, weights


def training_function(config):
    torch.manual_seed(8)
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32)[:, None]
    known = torch.tensor(digits.target[:160])
    labelled, unlabelled = images[:160], images[160:480]
    net = conv_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=config["lr"])
    epoch = 0

    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            state = torch.load(os.path.join(path, "net.pt"), weights_only=True)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    elif os.path.exists(scratch_file("pseudo_labels.npz")):
        os.remove(scratch_file("pseudo_labels.npz"))

    pseudo = None
    while epoch < EPOCHS:
        if epoch >= LABEL_AT and pseudo is None:
            pseudo = label(net, unlabelled)
        shuffled = np.random.RandomState(epoch).permutation(160)
        losses = []
        for batch in np.array_split(shuffled, 5):
            loss = nn.functional.cross_entropy(net(labelled[batch]), known[batch])
            if pseudo is not None:
                more = np.concatenate([batch, batch + 160])
                target, weight = pseudo[0][more], pseudo[1][more]
                each = nn.functional.cross_entropy(net(unlabelled[more]), target, reduction="none")
                loss = loss + 0.5 * (each * weight).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        epoch += 1
        with tempfile.TemporaryDirectory() as path:
            torch.save(
                {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch},
                os.path.join(path, "net.pt"),
            )
            train.report(
                {"loss": float(np.mean(losses)), "epoch": epoch},
                checkpoint=Checkpoint.from_directory(path),
            )


if __name__ == "__main__":
    TorchTrainer(
        training_function,
        train_loop_config={"lr": 1e-2},
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="pseudo-labels",
            failure_config=train.FailureConfig(max_failures=8),
        ),
    ).fit()
