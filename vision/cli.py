"""The command line: Lightning's, with the widths of encodings filled in from the network."""

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

import vision.data  # noqa: F401  (its classes can then be named without their module)
from vision.module import ImageClassifier
from vision.networks import widths
from vision.predictions import WritePredictions

# What the encodings of each slot call the widths that follow from the network and the image size.
FILLED = {
    "additive": {"dim": "dim", "sizes": "grid"},
    "rotary": {"head_dim": "head_dim", "heads": "heads"},
    "bias": {"heads": "heads", "sizes": "grid"},
}
# What schedules call the number of epochs.
EPOCHS = ("T_max", "total_steps")


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


class VisionCLI(LightningCLI):
    """Lightning's command line over :class:`ImageClassifier` and any data module of images."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_optimizer_args()
        parser.add_lr_scheduler_args()
        parser.link_arguments("data.classes", "model.classes", apply_on="instantiate")
        parser.link_arguments("data.channels", "model.channels", apply_on="instantiate")
        parser.link_arguments("data", "model.image_size", image_size)
        for slot, names in FILLED.items():
            for name, width in names.items():
                sources = ("model.network", "model.network_args", "data", f"model.{slot}")
                target = f"model.{slot}.init_args.{name}"
                parser.link_arguments(sources, target, _fill_width(name, width))
        for name in EPOCHS:
            sources = ("trainer.max_epochs", "lr_scheduler")
            parser.link_arguments(sources, f"lr_scheduler.init_args.{name}", _fill_epochs(name))

    def _parse_ckpt_path(self) -> None:
        """Leave the config as it was given: Lightning would put the checkpoint's own over it.

        A model that is not the one of the checkpoint is then an error, not silently another model.
        """

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


def image_size(data: Namespace) -> int | tuple[int, int]:
    """Take the image size from the data."""
    size = data.init_args.get("size") if "init_args" in data else None
    if size is None:
        raise ValueError(f"data must have a size, the pixels to train at, got {data.class_path}")
    return size


def _fill_width(name: str, width: str) -> Callable[..., Any]:
    def fill(network: str, network_args: dict | None, data: Namespace, slot: Namespace) -> Any:
        if slot is None or name not in slot.get("init_args", {}):
            return None
        given = slot.init_args[name]
        # A table may have another size than the grid: it is then read between its entries.
        if given is not None and name == "sizes":
            return given
        fitting = getattr(widths(network, network_args, image_size(data)), width)
        if given not in (None, fitting):
            raise ValueError(
                f"{name} of {slot.class_path} must be the {fitting} of {network}, got {given}; "
                f"leave it out to have it filled in"
            )
        return fitting

    fill.__name__ = f"{width}_of_network"
    return fill


def _fill_epochs(name: str) -> Callable[..., Any]:
    def max_epochs(epochs: int | None, scheduler: Namespace) -> Any:
        if scheduler is None or name not in scheduler.get("init_args", {}):
            return None
        given = scheduler.init_args[name]
        return epochs if given is None else given

    return max_epochs


def main(argv: list[str] | None = None) -> None:
    """Run a command of the vision application.

    Args:
        argv: the command and its arguments, those of the process unless given.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["compare"]:
        from vision.compare import main as compare

        compare(words[1:])
        return
    if words[:1] == ["resize"]:
        from vision.resize import main as resize

        resize(words[1:])
        return
    build(argv, run=True, command=words[0] if words else "")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Lightning leaves gloo's threads running, which at times abort Python as it ends.
        torch.distributed.destroy_process_group()


def build(argv: list[str] | None, *, run: bool = False, command: str = "") -> VisionCLI:
    """Build trainer, model and data from arguments, and run a command on them.

    Args:
        argv: arguments, with the command first if one is to run; those of the process if None.
        run: whether to run a command; else what was built is only returned.
        command: the one that runs.

    Returns:
        What was built: ``trainer``, ``model`` and ``datamodule``.
    """
    # Small images are held in memory: processes that load them would only cost time.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    # Lightning 2.6 with the newest torch: between these two, nothing a user can act on.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")
    if command != "fit":
        # Results of a test lie beside those of the training, which the checkpoint remembers.
        warnings.filterwarnings("ignore", message="The dirpath has changed")
    # The command line was read here, and is handed on.
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter is intended to run")
    return VisionCLI(
        ImageClassifier,
        LightningDataModule,
        subclass_mode_data=True,
        save_config_callback=SaveConfig,
        seed_everything_default=0,
        trainer_defaults={"callbacks": [WritePredictions()]},
        parser_kwargs={
            "description": "Train, test and compare positional encodings on images. "
            "'compare' and 'resize' are commands of their own: see python -m vision compare --help "
            "and python -m vision resize --help."
        },
        args=argv,
        run=run,
    )
