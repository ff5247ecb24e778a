"""transformers' Trainer with a save for every epoch, and get_last_checkpoint to go on from."""

from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.net(rows)
        return {"loss": (out - rows.sum(1, keepdim=True)).square().mean(), "logits": out}


rows = torch.rand(48, 4, generator=torch.Generator().manual_seed(1))
torch.manual_seed(3)
trainer = Trainer(
    model=Line(),
    args=TrainingArguments(
        "saves",
        num_train_epochs=5,
        per_device_train_batch_size=4,
        save_strategy="epoch",
        save_total_limit=2,
        logging_strategy="no",
        report_to="none",
        use_cpu=True,
        seed=3,
    ),
    train_dataset=[{"rows": row} for row in rows],
)
newest = get_last_checkpoint("saves") if Path("saves").exists() else None
trainer.train(resume_from_checkpoint=newest)
