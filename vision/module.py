"""A timm network with the three slots of an encoding, a loss and log lines."""

from typing import Any

from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.functional.classification import multiclass_accuracy

from posenc_mm import AdditiveEncoding, AttentionBias, ConditionalEncoding, RotaryEncoding, grid
from posenc_mm.diagnostics import Subject
from posenc_mm.timm import attach
from vision.networks import create

SLOTS = ("additive", "rotary", "bias")


class ImageClassifier(LightningModule):
    """A timm network that tells classes of images apart, with any positional encoding.

    What is trained with which optimiser on which data is said elsewhere: in YAML, or by the caller.

    Args:
        network: any name that ``timm.create_model`` knows.
        network_args: any keyword of ``timm.create_model``, such as ``depth`` or ``pretrained``.
        classes: to tell apart.
        image_size: pixels of the images trained on, one number or (height, width).
        channels: of an image.
        additive: encoding added to the tokens, or one that is conditioned on them.
        rotary: encoding that turns queries and keys.
        bias: encoding added to the logits of the attention.
        keep_native: leave the network's own encoding in place; else the slots replace it, and all
            slots empty is no encoding at all.
        label_smoothing: of the training loss.
        gradient_checkpointing: keep less of the forward pass and compute it again instead.

    Raises:
        ValueError: the network is unknown or cannot host the encoding.
    """

    def __init__(
        self,
        network: str = "vit_tiny_patch16_224",
        network_args: dict[str, Any] | None = None,
        classes: int = 1000,
        image_size: int | tuple[int, int] = 224,
        channels: int = 3,
        additive: AdditiveEncoding | ConditionalEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        keep_native: bool = False,
        label_smoothing: float = 0.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=SLOTS)
        if "_instantiator" in self.hparams:
            # Built from YAML: the slots are then descriptions, from which they can be built again.
            self.save_hyperparameters()
        self.classes, self.label_smoothing = classes, label_smoothing
        self.image_size = (image_size,) * 2 if isinstance(image_size, int) else tuple(image_size)
        self.network = create(
            network, network_args, image_size=image_size, channels=channels, classes=classes
        )
        slots = {"additive": additive, "rotary": rotary, "bias": bias}
        self.encodings = {name: _describe(encoding) for name, encoding in slots.items()}
        self.encodings["native"] = "kept" if keep_native else "replaced"
        # A network that cannot host an encoding is still a baseline with its own.
        if not keep_native or any(encoding is not None for encoding in slots.values()):
            attach(self.network, **slots, keep_native=keep_native)
        if gradient_checkpointing:
            self.network.set_grad_checkpointing(True)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        loss = F.cross_entropy(self(images), labels, label_smoothing=self.label_smoothing)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        loss, accuracy = self._judge(batch)
        self._log_mean("val/loss", loss, len(batch[1]))
        self._log_mean("val/accuracy", accuracy, len(batch[1]))

    def test_step(
        self, batch: tuple[Tensor, Tensor], batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        other = self._other_size(batch[0])
        loss, accuracy = self._judge(batch)
        self._log_mean(f"test/loss{other}", loss, len(batch[1]))
        self._log_mean(f"test/accuracy{other}", accuracy, len(batch[1]))

    def predict_step(
        self, batch: tuple[Tensor, Tensor], batch_idx: int, dataloader_idx: int = 0
    ) -> Tensor:
        return self(batch[0]).float().softmax(dim=-1)

    def subject(self, batch: tuple[Tensor, Tensor], samples: int) -> Subject:
        """What diagnostics look at: all patches, where the network has one grid of them."""
        images, network = batch[0][:samples], self.network
        patch = getattr(getattr(network, "patch_embed", None), "patch_size", None)
        if patch is None or not hasattr(network, "forward_intermediates"):
            return Subject(network, (images,))
        rows, columns = (size // p for size, p in zip(images.shape[-2:], patch, strict=True))

        def features(images: Tensor) -> Tensor:
            return network.forward_intermediates(
                images, indices=1, norm=True, intermediates_only=True
            )[-1]

        return Subject(
            network, (images,), positions=grid(rows, columns, device=images.device),
            prefix=getattr(network, "num_prefix_tokens", 0), unit="patches",
            features=features, images=images, patch=tuple(patch),
        )  # fmt: skip

    def _judge(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        images, labels = batch
        logits = self(images)
        accuracy = multiclass_accuracy(
            logits.argmax(dim=-1), labels, num_classes=self.classes, average="micro"
        )
        return F.cross_entropy(logits, labels), accuracy

    def _other_size(self, images: Tensor) -> str:
        """Name a size other than the one trained at, for the log."""
        height, width = images.shape[-2:]
        if (height, width) == self.image_size:
            return ""
        return f"_{height}" if height == width else f"_{height}x{width}"

    def _log_mean(self, name: str, value: Tensor, count: int) -> None:
        """Log a mean over the samples of all batches and processes."""
        self.log(
            name, value, prog_bar=True, batch_size=count, sync_dist=True, add_dataloader_idx=False
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["encodings"] = dict(self.encodings)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trained = checkpoint.get("encodings")
        if trained is None:
            raise ValueError(
                "the checkpoint must say which encoding it was trained with; this one does not, so "
                "it was not written by ImageClassifier"
            )
        differing = [name for name in self.encodings if trained.get(name) != self.encodings[name]]
        if differing:
            lines = "; ".join(
                f"{name}: trained with {trained.get(name)}, this model has {self.encodings[name]}"
                for name in differing
            )
            raise ValueError(f"the checkpoint was trained with another encoding. {lines}")


def _describe(encoding: nn.Module | None) -> str:
    if encoding is None:
        return "none"
    return f"{type(encoding).__name__}({encoding.extra_repr()})"
