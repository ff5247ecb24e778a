"""Accelerate's save_state with folders that it numbers, and load_state without a name."""

from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed

EPOCHS = 5

set_seed(3)
project = ProjectConfiguration("saves", automatic_checkpoint_naming=True, total_limit=2)
accelerator = Accelerator(cpu=True, project_config=project)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
rows = torch.rand(48, 4, generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=4)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)


class Epoch:
    """The epoch to go on with."""

    done = 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


epoch = Epoch()
accelerator.register_for_checkpointing(epoch)
if any(Path("saves/checkpoints").glob("checkpoint_*")):
    accelerator.load_state()
    project.iteration = epoch.done
while epoch.done < EPOCHS:
    for (batch,) in loader:
        loss = (net(batch) - batch.sum(1, keepdim=True)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    epoch.done += 1
    accelerator.save_state()
