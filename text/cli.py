"""The command line: Lightning's, with the widths of encodings filled in from the model."""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback

import text.data  # noqa: F401  (its classes can then be named without their module)
from text.module import LanguageModel
from text.predictions import WritePredictions

LIGHTNINGS = ("fit", "validate", "test", "predict")
# Commands of their own, each a module of that name with a main.
OWN = ("compare", "extend", "generate", "probe")
# What the encodings of each slot call the widths that follow from the model and the data.
FILLED = {
    "additive": {"dim": "dim", "sizes": "length"},
    "rotary": {"head_dim": "head_dim", "heads": "heads"},
    "bias": {"heads": "heads", "sizes": "length"},
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
            dumped = self.parser.dump(config, skip_link_targets=False, skip_none=False)
            (folder / self.config_filename).write_text(dumped, encoding="utf-8")
        self.already_saved = True


class TextCLI(LightningCLI):
    """Lightning's command line over :class:`LanguageModel` and any data module of text."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_optimizer_args()
        parser.add_lr_scheduler_args()
        parser.link_arguments("data.alphabet", "model.alphabet", apply_on="instantiate")
        parser.link_arguments("data", "model.length", length_of)
        for slot, names in FILLED.items():
            for name, width in names.items():
                sources = ("model.dim", "model.heads", "data", f"model.{slot}")
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
                several = callback.path is not None and trainer.world_size > 1
                name = "predictions-*.csv"
                places["predictions"] = callback.path.with_name(name) if several else callback.path
        if trainer.is_global_zero:
            for what, where in places.items():
                if where:
                    print(f"{what}: {where}")

    after_fit = after_validate = after_predict = _say_where

    def before_test(self) -> None:
        # Lightning's table has a column for each length, and the numbers of all lengths in each.
        self.config_init[self.subcommand]["verbose"] = False

    def after_test(self) -> None:
        if self.trainer.is_global_zero:
            for name, value in sorted(self.trainer.callback_metrics.items()):
                print(f"{name}: {float(value):.4f}")
        self._say_where()


def length_of(data: Namespace) -> int:
    """Take the length of a training window from the data."""
    if data is None:
        raise ValueError(
            "data must be given, such as by -c configs/text/stdlib.yaml, or --data=TextFiles "
            "--data.path=FILE"
        )
    length = data.init_args.get("length") if "init_args" in data else None
    if length is None:
        raise ValueError(
            f"data must have a length, the tokens of a window to train at, got {data.class_path}"
        )
    return length


def _fill_width(name: str, width: str) -> Callable[..., Any]:
    def fill(dim: int, heads: int, data: Namespace, slot: Namespace) -> Any:
        if slot is None or name not in slot.get("init_args", {}):
            return None
        given = slot.init_args[name]
        if name == "sizes":  # a table may end elsewhere than the windows do
            return length_of(data) if given is None else given
        if heads < 1 or dim % heads:
            raise ValueError(f"heads must divide dim, got heads={heads} and dim={dim}")
        fitting = {"dim": dim, "heads": heads, "head_dim": dim // heads}[width]
        if given not in (None, fitting):
            raise ValueError(
                f"{name} of {slot.class_path} must be the {fitting} of the model, got {given}; "
                f"leave it out to have it filled in"
            )
        return fitting

    fill.__name__ = f"{width}_of_model"
    return fill


def _fill_epochs(name: str) -> Callable[..., Any]:
    def max_epochs(epochs: int | None, scheduler: Namespace) -> Any:
        if scheduler is None or name not in scheduler.get("init_args", {}):
            return None
        given = scheduler.init_args[name]
        return epochs if given is None else given

    return max_epochs


def main(argv: list[str] | None = None) -> None:
    """Run a command of the text application.

    Args:
        argv: the command and its arguments, those of the process unless given.
    """
    words = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if words[0] in OWN:
        import_module(f"text.{words[0]}").main(words[1:])
        return
    if not words[0].startswith("-") and words[0] not in LIGHTNINGS:
        every = ", ".join((*LIGHTNINGS, *OWN))
        sys.exit(f"text: the command must be one of {every}, got {words[0]!r}")
    build(argv or words, run=True, command=words[0])
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Lightning leaves gloo's threads running, which at times abort Python as it ends.
        torch.distributed.destroy_process_group()


def build(argv: list[str] | None, *, run: bool = False, command: str = "") -> TextCLI:
    """Build trainer, model and data from arguments, and run a command on them.

    Args:
        argv: arguments, with the command first if one is to run; those of the process if None.
        run: whether to run a command; else what was built is only returned.
        command: the one that runs.

    Returns:
        What was built: ``trainer``, ``model`` and ``datamodule``.
    """
    # Texts are held in memory: processes that load them would only cost time.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    # Lightning 2.6 with the newest torch: between these two, nothing a user can act on.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated")
    if command != "fit":
        # Results of a test lie beside those of the training, which the checkpoint remembers.
        warnings.filterwarnings("ignore", message="The dirpath has changed")
    # The command line was read here, and is handed on.
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter is intended to run")
    return TextCLI(
        LanguageModel,
        LightningDataModule,
        subclass_mode_data=True,
        save_config_callback=SaveConfig,
        seed_everything_default=0,
        trainer_defaults={"callbacks": [WritePredictions()]},
        parser_kwargs={
            "prog": "python -m text",
            "description": "Train and test language models with any positional encoding. "
            f"{', '.join(OWN)} are commands of their own: see python -m text compare --help.",
        },
        args=argv,
        run=run,
    )
