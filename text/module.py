"""A transformer of tokens with the three slots of an encoding, a loss and log lines."""

from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm import AdditiveEncoding, AttentionBias, KVCache, RotaryEncoding, sequence
from posenc_mm.diagnostics import Subject
from text.data.windows import Batch
from text.metrics import Surprise
from text.networks import SLOTS, TokenTransformer
from text.vocabulary import vocabulary_of


class LanguageModel(LightningModule):
    """A model that predicts the next byte or character, with any positional encoding.

    What is trained with which optimiser on which text is said elsewhere: in YAML, or by the caller.

    Args:
        dim: width of a token.
        depth: number of layers.
        heads: number of attention heads.
        kv_heads: number of key and value heads; ``heads`` unless given.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.
        alphabet: the characters that tokens stand for; without any, tokens are bytes of UTF-8.
        length: tokens of a window trained on, by which other lengths are told apart in the log.
        additive: encoding added to the tokens.
        rotary: encoding that turns queries and keys.
        bias: encoding added to the logits of the attention.

    Raises:
        ValueError: the widths do not fit each other or an encoding.
    """

    def __init__(
        self,
        dim: int = 64,
        depth: int = 2,
        heads: int = 4,
        kv_heads: int | None = None,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        alphabet: str = "",
        length: int = 128,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=SLOTS)
        if "_instantiator" in self.hparams:
            # Built from YAML: the slots are then descriptions, from which they can be built again.
            self.save_hyperparameters()
        self.vocabulary, self.alphabet, self.length = vocabulary_of(alphabet), alphabet, length
        slots = {"additive": additive, "rotary": rotary, "bias": bias}
        self.network = TokenTransformer(
            self.vocabulary.size, dim, depth, heads, **slots, kv_heads=kv_heads,
            mlp_ratio=mlp_ratio, dropout=dropout,
        )  # fmt: skip
        self.encodings = {name: _describe(encoding) for name, encoding in slots.items()}
        self.surprise = nn.ModuleDict()  # one for each length that is evaluated

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        segments: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        return self.network(tokens, positions, segments=segments, cache=cache)

    def token_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses in nats ``(B, N)`` of the tokens that follow, and logits ``(B, N, tokens)``."""
        inputs, targets = batch.tokens[:, :-1], batch.tokens[:, 1:]
        logits = self(inputs, batch.positions, segments=batch.segments)
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = F.cross_entropy(precise.transpose(1, 2), targets, reduction="none")
        return losses, logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = self.token_losses(batch)[0][batch.counted].mean()
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch.tokens))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._judge("val", batch)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._judge("test", batch)

    def predict_step(
        self, batch: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> tuple[Tensor, Tensor]:
        losses, logits = self.token_losses(batch)
        return logits.argmax(-1), (-losses).exp()

    def subject(self, batch: Batch, samples: int) -> Subject:
        """What diagnostics look at; offsets move half a window, so that it stays within one."""
        tokens = batch.tokens[:samples]
        inputs, positions, segments = tokens[:, :-1], batch.positions, batch.segments
        positions = positions[:samples] if positions.ndim == 3 else positions
        segments = None if segments is None else segments[:samples]
        half = inputs.shape[1] // 2 + 1
        first = None if segments is None else segments[:, :half]

        def shifted(offset: float) -> Tensor:
            return self(inputs[:, :half], positions[..., :half, :] + offset, segments=first)

        def logits(tokens: Tensor) -> Tensor:
            return self(tokens, sequence(tokens.shape[1], device=tokens.device))

        return Subject(
            self.network, (inputs, positions), {"segments": segments}, positions,
            shifted=shifted, tokens=tokens,
            # Cut at any token, packed documents would be read across their ends.
            logits=None if segments is not None else logits,
        )  # fmt: skip

    def _judge(self, stage: str, batch: Batch) -> None:
        losses, logits = self.token_losses(batch)
        length = batch.tokens.shape[1] - 1
        name = stage if length == self.length else f"{stage}_{length}"
        if name not in self.surprise:
            self.surprise[name] = Surprise().to(self.device)
        targets = batch.tokens[:, 1:][batch.counted]
        widths = torch.tensor(self.vocabulary.widths, device=targets.device)[targets]
        right = logits.argmax(-1)[batch.counted] == targets
        self.surprise[name].update(losses[batch.counted], widths, right)

    def on_validation_epoch_end(self) -> None:
        self._log_surprise("val")

    def on_test_epoch_end(self) -> None:
        self._log_surprise("test")

    def _log_surprise(self, stage: str) -> None:
        for name, surprise in self.surprise.items():
            begin, _, length = name.partition("_")
            if begin != stage or not surprise.update_called:
                continue
            for what, value in surprise.compute().items():
                full = f"{stage}/{what}{length and '_' + length}"
                # Already of all processes: their mean is the same again.
                self.log(full, value, prog_bar=what == "loss", sync_dist=True)
            surprise.reset()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["encodings"] = dict(self.encodings)
        checkpoint["alphabet"] = self.alphabet

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trained = checkpoint.get("encodings")
        if trained is None or "alphabet" not in checkpoint:
            raise ValueError(
                "the checkpoint must say which encoding and tokens it was trained with; this one "
                "does not, so it was not written by LanguageModel"
            )
        differing = [name for name in self.encodings if trained.get(name) != self.encodings[name]]
        if differing:
            lines = "; ".join(
                f"{name}: trained with {trained.get(name)}, this model has {self.encodings[name]}"
                for name in differing
            )
            raise ValueError(f"the checkpoint was trained with another encoding. {lines}")
        if checkpoint["alphabet"] != self.alphabet:
            raise ValueError(
                f"the checkpoint was trained with other tokens: {_tokens(checkpoint['alphabet'])}, "
                f"this model has {_tokens(self.alphabet)}"
            )


def _describe(encoding: nn.Module | None) -> str:
    if encoding is None:
        return "none"
    return f"{type(encoding).__name__}({encoding.extra_repr()})"


def _tokens(alphabet: str) -> str:
    return f"the characters {alphabet!r}" if alphabet else "bytes"
