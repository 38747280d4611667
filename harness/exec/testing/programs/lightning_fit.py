"""lightning_fit.py PRECISION DEVICES STRATEGY: PyTorch Lightning fits a small classifier for an epoch, with validation. BATCH (16): its rows."""
import os
import sys

import pytorch_lightning as lightning
import torch
from torch import nn
from torch.nn import functional

BATCH = int(os.environ.get("BATCH", "16"))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, _):
        loss = functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        self.log("validation", functional.cross_entropy(self.network(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


if __name__ == "__main__":
    lightning.seed_everything(0)
    data = torch.utils.data.TensorDataset(torch.randn(4 * BATCH, 32), torch.randint(0, 10, (4 * BATCH,)))
    batches = torch.utils.data.DataLoader(data, BATCH, pin_memory=True)
    trainer = lightning.Trainer(accelerator="gpu", precision=sys.argv[1], devices=int(sys.argv[2]), strategy=sys.argv[3], max_epochs=1, logger=False,
                                enable_checkpointing=False, gradient_clip_val=1.0, detect_anomaly="bf16" in sys.argv[1])
    trainer.fit(Classifier(), batches, batches)
    print("loss", float(trainer.callback_metrics["loss"]))
