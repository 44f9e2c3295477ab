"""The command line: Lightning's, with what encodings leave open filled in from the data."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.utilities import rank_zero_info

from timeseries.building import other_clocks
from timeseries.filling import fill, read
from timeseries.module import Forecaster, UsageError
from timeseries.predictions import WritePredictions

# What the model has to know of the data.
FACTS = ("lookback", "horizon", "variates", "known_width", "zone")
# What schedules call the number of epochs.
EPOCHS = ("T_max", "total_steps")
# What users can do something about; the rest is a mistake of the program.
ERRORS = (ValueError, OSError, ImportError)


class Parser(LightningArgumentParser):
    """Lightning's parser, which fills in what encodings leave open before it asks for it."""

    filling = True

    def dump(self, *args: Any, **kwargs: Any) -> str:
        """Write a config as it is: to print one, no data are needed."""
        self.filling = False
        try:
            return super().dump(*args, **kwargs)
        finally:
            self.filling = True

    def validate(self, namespace: Namespace, *args: Any, **kwargs: Any) -> None:
        """Fill in, then check: an encoding that lacks nothing any more is complete."""
        command = namespace.get(namespace.get("subcommand") or "", namespace)
        model, data = command.get("model"), command.get("data")
        if self.filling and model is not None and data is not None:
            try:
                fill(model, read(data))
            except ERRORS as error:
                self.error(str(error), error)
        super().validate(namespace, *args, **kwargs)


class SaveConfig(SaveConfigCallback):
    """Saves the whole config of a run, such that it builds the same module when fed back."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.already_saved or trainer.logger is None:
            return
        folder = Path(trainer.log_dir)  # asked for in each process: the first one tells the others
        if trainer.is_global_zero:
            folder.mkdir(parents=True, exist_ok=True)
            config = self.config.clone()
            for key in (f"lr_scheduler.init_args.{name}" for name in EPOCHS):
                if config.get(key) == config.trainer.max_epochs:
                    config.pop(key, None)  # so that it follows another max_epochs
            text = self.parser.dump(config, skip_link_targets=False, skip_none=False)
            (folder / self.config_filename).write_text(text, encoding="utf-8")
        self.already_saved = True


class TimeseriesCLI(LightningCLI):
    """Lightning's command line over :class:`Forecaster` and any data module of series."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_optimizer_args()
        parser.add_lr_scheduler_args()
        for name in FACTS:
            parser.link_arguments("data", f"model.{name}", _fact(parser, name))
        for name in EPOCHS:
            sources = ("trainer.max_epochs", "lr_scheduler")
            parser.link_arguments(sources, f"lr_scheduler.init_args.{name}", _fill_epochs(name))

    def _parse_ckpt_path(self) -> None:
        """Leave the config as it was given: Lightning would put the checkpoint's own over it.

        A model that is not the one of the checkpoint is then an error, not silently another model.
        """

    def instantiate_classes(self) -> None:
        try:
            super().instantiate_classes()
        except ERRORS as error:
            self._parser(self.subcommand).error(str(error), error)
        for what in other_clocks(self.model.network, self.model.hparams["zone"]):
            rank_zero_info(what)

    def _run_subcommand(self, subcommand: str) -> None:
        try:
            super()._run_subcommand(subcommand)
        except UsageError as error:
            self._parser(subcommand).error(str(error), error)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        trainer = super().instantiate_trainer(**kwargs)
        for other in trainer.loggers[1:]:
            first = trainer.loggers[0]
            if (other.save_dir, other.name) == (first.save_dir, first.name):
                other._version = first.version  # one folder per run, not one per logger
        return trainer

    def _say_where(self) -> None:
        trainer = self.trainer
        places = {"results": trainer.log_dir if trainer.logger is not None else None}
        for callback in trainer.callbacks:
            if isinstance(callback, ModelCheckpoint) and self.subcommand == "fit":
                path = callback.best_model_path
                places[f"checkpoint {Path(path).stem}"] = path
            elif isinstance(callback, WritePredictions):
                places["predictions"] = callback.path
        if trainer.is_global_zero:
            for what, where in places.items():
                if where:
                    print(f"{what}: {where}")

    after_fit = after_validate = after_test = after_predict = _say_where


def _fact(parser: LightningArgumentParser, name: str) -> Callable[[Namespace], Any]:
    def fact(data: Namespace) -> Any:
        try:
            return getattr(read(data), name)
        except ERRORS as error:
            return parser.error(str(error), error)

    fact.__name__ = f"{name}_of_data"
    return fact


def _fill_epochs(name: str) -> Callable[..., Any]:
    def max_epochs(epochs: int | None, scheduler: Namespace) -> Any:
        if scheduler is None or name not in scheduler.get("init_args", {}):
            return None
        given = scheduler.init_args[name]
        return epochs if given is None else given

    return max_epochs


def main(argv: list[str] | None = None) -> int | None:
    """Run a command of the timeseries application.

    Args:
        argv: the command and its arguments, those of the process unless given.

    Returns:
        The exit code, where the command has one.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["compare"]:
        from timeseries.compare import main as compare

        return compare(words[1:])
    if words[:1] == ["forecast"]:
        from timeseries.forecast import main as forecast

        return forecast(words[1:])
    build(argv, run=True, command=words[0] if words else "")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Lightning leaves gloo's threads running, which at times abort Python as it ends.
        torch.distributed.destroy_process_group()
    return None


def build(argv: list[str] | None, *, run: bool = False, command: str = "") -> TimeseriesCLI:
    """Build trainer, model and data from arguments, and run a command on them.

    Args:
        argv: arguments, with the command first if one is to run; those of the process if None.
        run: whether to run a command; else what was built is only returned.
        command: the one that runs.

    Returns:
        What was built: ``trainer``, ``model`` and ``datamodule``.
    """
    # Series are held in memory: processes that load windows would only cost time.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    # Lightning 2.6 with the newest torch: between these two, nothing a user can act on.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")
    # A linear network is solved for; all others say themselves that they need an optimizer.
    warnings.filterwarnings("ignore", message=".*configure_optimizers. will be overridden by")
    if command != "fit":
        # Results of a test lie beside those of the training, which the checkpoint remembers.
        warnings.filterwarnings("ignore", message="The dirpath has changed")
    # The command line was read here, and is handed on.
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter is intended to run")
    defaults: dict[str, Any] = {"callbacks": [WritePredictions()]}
    if torch.backends.mps.is_available():
        defaults["accelerator"] = "cpu"  # moments are float64, which Apple's GPUs do not have
    return TimeseriesCLI(
        Forecaster,
        LightningDataModule,
        subclass_mode_data=True,
        parser_class=Parser,
        save_config_callback=SaveConfig,
        seed_everything_default=0,
        trainer_defaults=defaults,
        parser_kwargs={
            "description": "Train, test and compare positional encodings on time series. "
            "'compare' and 'forecast' are commands of their own: see python -m timeseries compare "
            "--help and python -m timeseries forecast --help."
        },
        args=argv,
        run=run,
    )
