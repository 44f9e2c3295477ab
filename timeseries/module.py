"""A forecasting network with the three slots of an encoding, a loss and log lines."""

from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from rich.progress import Progress
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import SumMetric

from posenc_mm import AdditiveEncoding, AttentionBias, RotaryEncoding
from posenc_mm.diagnostics import Subject
from posenc_mm.timestamps import zone_of
from timeseries.building import SLOTS, create
from timeseries.data import Batch
from timeseries.metrics import Mean, pinball
from timeseries.networks import Linear, Shape
from timeseries.ridge import solve
from timeseries.scores import across_change

LOSSES = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.huber_loss}


class UsageError(ValueError):
    """What whoever runs a model can put right."""


class Forecaster(LightningModule):
    """A network that forecasts windows of series, with any positional encoding.

    What is trained with which optimiser on which data is said elsewhere: in YAML, or by the caller.
    A linear network is not trained: as the fit starts it is solved for, on all windows of training,
    with the penalty that is best on those of validation. So is one beside another network, which
    then learns what is left.

    All errors are in units of the scaled columns, and those of validation and test are means over
    every value of every window.

    Args:
        lookback: rows seen.
        horizon: rows to forecast.
        network: ``"linear"``, ``"patches"`` or ``"variates"``.
        network_args: any keyword of the network, where ``linear`` is true for a linear network
            beside (which knows the same ``additive`` encoding of moments if nothing in it is
            learned), and ``variate`` is ``"learned"`` for a learned vector per column.
        clock: what positions are: ``"time"`` the moment; for patches also ``"row"`` or
            ``"token"``, counted in the window, or ``"both"``, moment and row as two axes.
        variates: columns to forecast.
        known_width: covariates known in advance.
        zone: time zone of the series; the windows in which its clocks are set are tested apart.
        additive: encoding added to the tokens, projected to their width if it has another.
        rotary: encoding that turns queries and keys.
        bias: encoding added to the logits of the attention.
        quantiles: to forecast, 0.5 among them; the forecast itself unless given.
        loss: ``"mse"``, ``"mae"`` or ``"huber"``; with quantiles ``"quantile"``.

    Raises:
        ValueError: the network is unknown or cannot host the encoding, or loss and quantiles do not
            fit together.
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        network: str = "linear",
        network_args: dict[str, Any] | None = None,
        clock: str = "time",
        variates: int = 1,
        known_width: int = 0,
        zone: str | None = None,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        quantiles: list[float] | None = None,
        loss: str = "mse",
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=SLOTS)
        if "_instantiator" in self.hparams:
            # Built from YAML: the slots are then descriptions, from which they can be built again.
            self.save_hyperparameters()
        self.quantiles, self.loss = _checked(quantiles, loss, network), loss
        shape = Shape(lookback, horizon, variates, known_width, len(self.quantiles or (0.5,)))
        self.network = create(network, network_args, clock, shape, additive, rotary, bias)
        hosts = {"additive": additive, "rotary": rotary, "bias": bias}
        hosts["variate"] = getattr(self.network, "variate", None)
        self.encodings = {name: _describe(encoding) for name, encoding in hosts.items()}
        self.encodings["clock"] = clock
        alone = isinstance(self.network, Linear)
        self.automatic_optimization = not alone
        if not alone and self.linear is not None:
            self.linear.requires_grad_(False)
        self.zone = zone_of(zone or "UTC")
        names = ["val/mse", "val/mae", "test/mse", "test/mae"]
        self.changes = ["clock_change", "rest"] if self.zone.instants else []
        names += [f"test/mae_{which}" for which in self.changes]
        names += ["test/coverage", "test/pinball"] if self.quantiles else []
        self.means = nn.ModuleDict({name: Mean() for name in names})
        self.counts = nn.ModuleDict({f"test/windows_{w}": SumMetric() for w in self.changes})

    @property
    def linear(self) -> Linear | None:
        """The network that is solved for, if there is one."""
        network = self.network
        return network if isinstance(network, Linear) else getattr(network, "linear", None)

    def forward(self, past: Tensor, moments: Tensor, known: Tensor) -> Tensor:
        return self.network(past, moments, known)

    def forecast(self, batch: Batch) -> Tensor:
        """Forecast what is scaled: ``(B, H, V, Q)``, quantiles in rising order."""
        forecast = self(batch.past, batch.moments, batch.known)
        return forecast.sort(-1).values if self.quantiles else forecast

    def point(self, batch: Batch) -> Tensor:
        """Forecast what is scaled: ``(B, H, V)``, of quantiles the median."""
        return self._middle(self.forecast(batch))

    def on_fit_start(self) -> None:
        linear, trainer = self.linear, self.trainer
        if linear is None:
            return
        split = trainer.datamodule.split
        hidden = not trainer.is_global_zero or trainer.progress_bar_callback is None
        with Progress(disable=hidden) as progress:
            task = progress.add_task("solving the linear network", total=1.0)

            def tell(share: float) -> None:
                progress.update(task, completed=share)

            solved = solve(linear, split.train, split.val, tell=tell)
        mse = solved.mse[solved.penalty]
        rank_zero_info(f"linear network: penalty {solved.penalty:g}, val/mse {mse:.4f}")
        for logger in trainer.loggers:
            logger.log_metrics({"ridge/penalty": solved.penalty, "ridge/val_mse": mse}, step=0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if not self.automatic_optimization:
            return torch.optim.SGD(self.parameters(), lr=0.0)
        raise UsageError(
            "an optimizer must be given to train this network: "
            "-c configs/timeseries/networks/patches.yaml has one, and --optimizer=AdamW is one"
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor | None:
        forecast = self(batch.past, batch.moments, batch.known)
        if self.quantiles:
            loss = pinball(forecast, batch.future, self.quantiles).mean()
        else:
            loss = LOSSES[self.loss](forecast[..., 0], batch.future)
        self.log("train/loss", loss, prog_bar=True)
        if self.automatic_optimization:
            return loss
        self.optimizers().step()  # without a gradient: a checkpoint wants a step, not a change
        self.trainer.should_stop = True
        return None

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._judge("val", batch)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        forecast = self._judge("test", batch)
        if self.changes:
            changed = across_change(batch.moments, self.zone)
            error = (self._middle(forecast) - batch.future).abs()
            for which, windows in zip(self.changes, (changed, ~changed), strict=True):
                self._log(f"test/mae_{which}", error, windows)
                self.counts[f"test/windows_{which}"].update(windows.sum())
                self.log(f"test/windows_{which}", self.counts[f"test/windows_{which}"])
        if self.quantiles:
            inside = (forecast[..., 0] <= batch.future) & (batch.future <= forecast[..., -1])
            self._log("test/coverage", inside)
            self._log("test/pinball", pinball(forecast, batch.future, self.quantiles))

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Forecast in the units of the data, ``(B, H, V, Q)`` in float64."""
        windows = self.trainer.predict_dataloaders
        rows = windows.dataset.belongs[windows.batch_sampler.seen_batch_indices[batch_idx]]
        mean, std = (of[rows][:, None, :, None] for of in self.trainer.datamodule.scaler)
        forecast = self.forecast(batch)
        return forecast.double() * std.to(forecast.device) + mean.to(forecast.device)

    def subject(self, batch: Batch, samples: int) -> Subject:
        past, _, moments, known = (part[:samples] for part in batch)
        return self.network.subject(past, moments, known)

    def _judge(self, stage: str, batch: Batch) -> Tensor:
        forecast = self.forecast(batch)
        error = self._middle(forecast) - batch.future
        self._log(f"{stage}/mse", error.square())
        self._log(f"{stage}/mae", error.abs())
        return forecast

    def _middle(self, forecast: Tensor) -> Tensor:
        return forecast[..., self.quantiles.index(0.5) if self.quantiles else 0]

    def _log(self, name: str, values: Tensor, chosen: Tensor | None = None) -> None:
        """Log a mean over the values of all batches and processes."""
        self.means[name].update(values, chosen)
        self.log(name, self.means[name], prog_bar=name.endswith(("/mse", "/mae")))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["encodings"] = dict(self.encodings)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trained = checkpoint.get("encodings")
        if trained is None:
            raise UsageError(
                "the checkpoint must say which encoding it was trained with; this one does not, so "
                "it was not written by Forecaster"
            )
        differing = [name for name in self.encodings if trained.get(name) != self.encodings[name]]
        if differing:
            lines = "; ".join(
                f"{name}: trained with {trained.get(name)}, this model has {self.encodings[name]}"
                for name in differing
            )
            raise UsageError(f"the checkpoint was trained with another encoding. {lines}")


def _describe(encoding: nn.Module | None) -> str:
    if encoding is None:
        return "none"
    return f"{type(encoding).__name__}({encoding.extra_repr()})"


def _checked(quantiles: list[float] | None, loss: str, network: str) -> list[float] | None:
    if (loss == "quantile") != bool(quantiles) or loss not in {*LOSSES, "quantile"}:
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)}, or 'quantile' just where quantiles are "
            f"given, got loss={loss!r} and quantiles={quantiles}"
        )
    if not quantiles:
        return None
    if sorted(set(quantiles)) != list(quantiles) or not 0 < quantiles[0] <= quantiles[-1] < 1:
        raise ValueError(f"quantiles must rise between 0 and 1, got quantiles={quantiles}")
    if 0.5 not in quantiles:
        raise ValueError(f"quantiles must have the median, 0.5, got quantiles={quantiles}")
    if network == "linear":
        raise ValueError("quantiles must be trained for, use network='patches', got 'linear'")
    return list(quantiles)
