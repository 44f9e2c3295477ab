"""When a diagnostic runs in a training, and where its numbers and pictures go."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from lightning.pytorch.utilities import rank_zero_info

from posenc_mm.checks import check_whole
from posenc_mm.diagnostics import Subject
from posenc_mm.diagnostics.quiet import undisturbed


class Finding(NamedTuple):
    """What one look found.

    Attributes:
        scalars: numbers by name.
        pictures: matplotlib's figures by name.
    """

    scalars: dict[str, float]
    pictures: dict[str, Any]


class Diagnostic(Callback, ABC):
    """Looks at the first batch of a validation or test, and logs numbers and pictures.

    It runs in the first process alone, on the module itself and not on what a strategy wraps
    around it, under the trainer's precision; processes never wait for each other in it. Modes,
    gradients and torch's random numbers are as they were afterwards: a training with it is the
    same training. Pictures go to every logger whose ``experiment`` has ``add_figure``, such as
    TensorBoard's, else into ``diagnostics`` in the trainer's ``log_dir``, as PNG.

    The module needs a method ``subject(batch, samples)``, see :mod:`posenc_mm.lightning`.

    Args:
        every: validations from one look to the next; the first one is looked at. Lightning's check
            before training counts as none: it looks there too, so that a module which does not say
            enough is refused before an epoch is spent, and logs nothing.
        samples: of the batch at most.
        theme: of the pictures, ``"light"`` or ``"dark"``.

    Raises:
        ValueError: a number is below 1, or the theme is unknown; at the start, the module has no
            ``subject``, or a strategy leaves no process a whole model.
    """

    name: ClassVar[str]

    def __init__(self, every: int = 1, samples: int = 8, theme: str = "light") -> None:
        super().__init__()
        check_whole(every=every, samples=samples)
        if theme not in ("light", "dark"):
            raise ValueError(f"theme must be 'light' or 'dark', got theme={theme!r}")
        self.every, self.samples, self.theme = every, samples, theme
        self.validations = 0
        self._folder = Path()
        self._places: list[str] = []

    @abstractmethod
    def look(self, subject: Subject) -> Finding:
        """Run the diagnostic.

        Args:
            subject: what the module says of a batch.

        Returns:
            Its numbers and pictures.
        """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        kind = type(pl_module).__name__
        if not callable(getattr(pl_module, "subject", None)):
            raise ValueError(
                f"{type(self).__name__} needs a method subject(batch, samples) that gives a "
                f"posenc_mm.diagnostics.Subject, {kind} has none"
            )
        strategy = trainer.strategy
        split = isinstance(strategy, (FSDPStrategy, ModelParallelStrategy))
        if split or (isinstance(strategy, DeepSpeedStrategy) and strategy.zero_stage_3):
            raise ValueError(
                f"{type(self).__name__} looks in one process, which under "
                f"{type(strategy).__name__} has only a part of {kind}: leave the callback out, and "
                f"look at a checkpoint by the functions of posenc_mm.diagnostics"
            )
        # Asked for in each process: the first one tells the others.
        self._folder = Path(trainer.log_dir or trainer.default_root_dir) / "diagnostics"
        self._places = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if batch_idx or dataloader_idx:
            return
        if trainer.sanity_checking:
            self._look(trainer, pl_module, batch)
            return
        if self.validations % self.every == 0:
            self._run(trainer, pl_module, batch, "val")
        self.validations += 1

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if not batch_idx and not dataloader_idx:
            self._run(trainer, pl_module, batch, "test")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for place in self._places:
            rank_zero_info(f"pictures of {type(self).__name__}: {place}")
        self._places = []

    def state_dict(self) -> dict[str, Any]:
        return {"validations": self.validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.validations = state_dict["validations"]

    def _look(self, trainer: Trainer, pl_module: LightningModule, batch: Any) -> Finding:
        if not trainer.is_global_zero:
            return Finding({}, {})
        module: Any = pl_module
        with undisturbed(module), trainer.precision_plugin.forward_context():
            return self.look(module.subject(batch, self.samples))

    def _run(self, trainer: Trainer, pl_module: LightningModule, batch: Any, stage: str) -> None:
        found = self._look(trainer, pl_module, batch)
        for name, value in found.scalars.items():
            # With rank_zero_only nothing is waited for; sync_dist says that this is meant.
            pl_module.log(
                f"{stage}/{name}", value, on_step=False, on_epoch=True, batch_size=1,
                add_dataloader_idx=False, rank_zero_only=True, sync_dist=True,
            )  # fmt: skip
        for name, picture in found.pictures.items():
            self._show(trainer, f"{stage}/{name}", picture)

    def _show(self, trainer: Trainer, name: str, picture: Any) -> None:
        shown = False
        for logger in trainer.loggers:
            experiment: Any = getattr(logger, "experiment", None)
            if hasattr(experiment, "add_figure"):
                experiment.add_figure(name, picture, trainer.global_step)
                place = getattr(logger, "log_dir", None) or logger.save_dir
                self._say(f"{place} ({type(logger).__name__}, {name})")
                shown = True
        if not shown:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = f"{name.replace('/', '_')}_step_{trainer.global_step}.png"
            picture.savefig(self._folder / file)
            self._say(str(self._folder))

    def _say(self, place: str) -> None:
        if place not in self._places:
            self._places.append(place)
