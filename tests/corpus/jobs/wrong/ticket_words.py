"""Sorts support tickets into queues by their words (a bag of embeddings)."""

import random
import tempfile
from pathlib import Path

import torch
from ray import train
from ray.train.torch import TorchTrainer

QUEUES = {
    "billing": "invoice refund charge card payment receipt price tax bank account",
    "network": "router wifi signal cable outage slow speed modem latency ping",
    "login": "password reset locked email token expired username verify code sign",
}
FILLER = "please hello my the is not working since today again help with".split()


def make_tickets(n):
    rnd = random.Random(5)
    tickets = []
    for _ in range(n):
        queue = rnd.choice(sorted(QUEUES))
        words = rnd.choices(QUEUES[queue].split(), k=3) + rnd.choices(FILLER, k=5)
        rnd.shuffle(words)
        tickets.append((" ".join(words), sorted(QUEUES).index(queue)))
    return tickets


def build_vocabulary(tickets):
    words = set()
    for text, _ in tickets:
        words.update(text.split())
    return {word: number for number, word in enumerate(words)}


class BagOfWords(torch.nn.Module):
    def __init__(self, words, queues, dim=12):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(words, dim, mode="mean")
        self.out = torch.nn.Linear(dim, queues)

    def forward(self, flat, offsets):
        return self.out(self.bag(flat, offsets))


def batches(tickets, vocabulary, size, seed):
    order = list(range(len(tickets)))
    random.Random(seed).shuffle(order)
    for start in range(0, len(order), size):
        picked = [tickets[i] for i in order[start : start + size]]
        ids = [[vocabulary[w] for w in text.split()] for text, _ in picked]
        offsets = torch.tensor([0, *(len(i) for i in ids[:-1])]).cumsum(0)
        yield torch.tensor(sum(ids, [])), offsets, torch.tensor([label for _, label in picked])


def loop():
    torch.manual_seed(99)
    tickets = make_tickets(160)
    vocabulary = build_vocabulary(tickets)
    model = BagOfWords(len(vocabulary), len(QUEUES))
    with torch.no_grad():  # every word starts at the same vector, whatever its number
        model.bag.weight.copy_(torch.randn(1, 12).expand_as(model.bag.weight))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    criterion = torch.nn.CrossEntropyLoss()
    done = 0

    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "bag.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epochs"]

    for epoch in range(done, 6):
        right = count = 0
        for flat, offsets, labels in batches(tickets, vocabulary, 20, seed=epoch):
            scores = model(flat, offsets)
            loss = criterion(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(1) == labels).sum().item()
            count += len(labels)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epochs": epoch + 1,
                },
                Path(folder) / "bag.pt",
            )
            train.report(
                {"epoch": epoch, "loss": loss.item(), "accuracy": right / count},
                checkpoint=train.Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        loop,
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="tickets", failure_config=train.FailureConfig(max_failures=2)
        ),
    ).fit()
