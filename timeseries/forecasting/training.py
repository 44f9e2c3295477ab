"""A transformer over patches, trained on what the linear network beside it leaves."""

import argparse
import logging
import signal
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, RichProgressBar
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from posenc_mm import AttentionBias, RotaryEncoding
from posenc_mm.bias import LearnedALiBi
from posenc_mm.rotary import TimeRotary
from timeseries.forecasting.choosing import Choice, Part, features
from timeseries.forecasting.evaluating import Forecast
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.telling import Telling
from timeseries.module import Forecaster

DIM, HEADS, DEPTH, PATCH = 64, 4, 2, 16
_STEPS, _PATIENCE, _RATE = 250, 3, 1e-3


class Trained(Forecaster):
    """A forecaster with an optimizer."""

    def configure_optimizers(self) -> Any:
        weights = [one for one in self.parameters() if one.requires_grad]
        optimizer = AdamW(weights, lr=_RATE, weight_decay=0.01)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = OneCycleLR(optimizer, _RATE, total_steps=max(2, steps))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def train(
    ready: Ready,
    parts: list[Part],
    choice: Choice,
    options: argparse.Namespace,
    folder: Path,
    telling: Telling,
) -> Forecast:
    """Train, or go on where training stopped.

    Args:
        ready: windows.
        parts: encodings of moments that are added to the tokens.
        choice: encodings that act on attention.
        options: of the command line.
        folder: of checkpoints, for these data and options alone.
        telling: who tells.

    Returns:
        Forecasts ``(B, H, V)`` by the weights that were best on validation.
    """
    # What matters of its messages is told by the progress bar, or afterwards.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    seed_everything(options.seed, verbose=False)
    model = _model(ready, parts, choice)
    done = folder / "done"
    best = ModelCheckpoint(
        folder, "best", monitor="val/mse", save_last=True, enable_version_counter=False
    )
    if not done.is_file():
        last = folder / "last.ckpt"
        if last.is_file():
            telling.find(f"training goes on from {last}")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")
        warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
        trainer = Trainer(
            max_epochs=options.epochs,
            limit_train_batches=min(_STEPS, -(-len(ready.split.train) // ready.batch_size)),
            callbacks=[
                best,
                EarlyStopping("val/mse", patience=_PATIENCE),
                RichProgressBar(leave=False),
            ],
            logger=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        try:
            trainer.fit(model, datamodule=ready, ckpt_path=str(last) if last.is_file() else None)
        except SystemExit as stopped:
            if not trainer.interrupted:
                raise
            # Lightning ends the process itself, and is deaf to Ctrl-C from then on.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from stopped
        done.write_text(f"{float(best.best_model_score):.6g}\n", encoding="utf-8")
    else:
        telling.find("training: kept from before, as nothing has changed (--again)")
    weights = torch.load(folder / "best.ckpt", weights_only=True, map_location="cpu")["state_dict"]
    model.load_state_dict(weights)
    model.eval()
    return model.point


def _model(ready: Ready, parts: list[Part], choice: Choice) -> Trained:
    patch = next(size for size in (PATCH, 8, 4, 2, 1) if size * 2 <= max(ready.lookback, 2))
    rotary: RotaryEncoding | None = None
    bias: AttentionBias | None = None
    step = patch * ready.step
    if "rope_time" in choice.attention:
        rotary = TimeRotary(DIM // HEADS, step=step, span=max(ready.span, 2 * step))
    if "alibi_time" in choice.attention:
        bias = LearnedALiBi(HEADS, step=step)
    return Trained(
        ready.lookback,
        ready.horizon,
        "patches",
        {"dim": DIM, "heads": HEADS, "depth": DEPTH, "patch": patch, "linear": True},
        variates=ready.variates,
        known_width=ready.known_width,
        zone=ready.zone,
        additive=features(parts),
        rotary=rotary,
        bias=bias,
    )
