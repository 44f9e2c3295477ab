"""The encodings of an attached model, by slot, and the positions that one forward gives them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.bias import AttentionBias
from posenc_mm.placed import Placed
from posenc_mm.positions import grid, rescale
from posenc_mm.rotary import RotaryEncoding

KINDS: dict[str, type] = {
    "additive": AdditiveEncoding,
    "rotary": RotaryEncoding,
    "bias": AttentionBias,
}
Maker = Callable[..., Tensor] | None


class Here:
    """The patches of one forward, or of one window: each maker's positions, made once.

    Attributes:
        sizes: cells per axis.
        device: of the patches.
        drawing: makers that are to be told that this is training.
    """

    def __init__(
        self, sizes: Sequence[Any], device: torch.device, drawing: Sequence[Maker] = ()
    ) -> None:
        self.sizes, self.device, self.drawing = tuple(sizes), device, drawing
        self._made: list[tuple[Maker, Tensor]] = []

    def positions(self, encoding: Any, maker: Maker) -> Tensor:
        """Positions for an encoding; the default ones rescaled to the sizes that it is for."""
        sizes = getattr(encoding, "sizes", None) if maker is None else None
        made = [points for known, points in self._made if known is maker]
        if not made:
            made = [self._make(maker)]
            self._made.append((maker, made[0]))
        return made[0] if sizes is None else self._rescaled(made[0], sizes)

    def _make(self, maker: Maker) -> Tensor:
        if maker is None:
            return grid(*self.sizes, device=self.device)
        told = {"training": True} if any(maker is each for each in self.drawing) else {}
        points = maker(*self.sizes, device=self.device, **told)
        count = 1
        for size in self.sizes:
            count = count * size
        if points.ndim not in (2, 3) or points.shape[-2] != count:
            shown = " x ".join(str(size) for size in self.sizes)
            raise ValueError(
                f"positions must return ({count}, A) or (B, {count}, A) for {shown} patches, got "
                f"shape {tuple(points.shape)}"
            )
        return points

    def _rescaled(self, points: Tensor, sizes: Sequence[int]) -> Tensor:
        return rescale(points, self.sizes, sizes)


class HereByCoordinate(Here):
    """Patches that bring their coordinates ``(B, N, 2)``, each sample on a grid of its own.

    Padding repeats coordinates inside the grid; what is said of it is masked by the model.
    """

    def __init__(self, coordinates: Tensor, drawing: Sequence[Maker] = ()) -> None:
        super().__init__((), coordinates.device, drawing)
        self._coordinates = coordinates

    def _make(self, maker: Maker) -> Tensor:
        if maker is None:
            return self._coordinates
        # A maker wants numbers, as timm's own loop over the sizes does.
        grids = (self._coordinates.amax(1) + 1).tolist()
        rows = []
        for (height, width), at in zip(grids, self._coordinates.long(), strict=True):
            points = Here((height, width), self.device, self.drawing).positions(None, maker)
            if points.ndim != 2:
                raise ValueError(
                    f"positions must return (N, A) for patches that bring their coordinates, got "
                    f"shape {tuple(points.shape)}"
                )
            rows.append(points[at[:, 0] * width + at[:, 1]])
        return torch.stack(rows)

    def _rescaled(self, points: Tensor, sizes: Sequence[int]) -> Tensor:
        cells = points.amax(1, keepdim=True) + 1
        scale = torch.tensor(sizes, device=points.device, dtype=torch.float32) / cells
        return (points.float() + 0.5) * scale - 0.5


class Slots(nn.ModuleDict):
    """The encodings of a model; a slot of several holds them in a list.

    Attributes:
        makers: by slot, what makes the positions of each of its encodings.
        spread: by slot, which of its encodings each attention has, in the model's order.
        keep_native: whether the model's own encodings stay in force.
        frozen: names of the model's own parameters that attaching froze.
    """

    def __init__(
        self,
        given: Mapping[str, list[Placed]],
        spread: Mapping[str, Sequence[int]],
        keep_native: bool,
    ) -> None:
        several = {slot: nn.ModuleList([p.encoding for p in own]) for slot, own in given.items()}
        super().__init__({slot: own[0] if len(own) == 1 else own for slot, own in several.items()})
        self.makers: dict[str, list[Maker]] = {
            slot: [placed.positions for placed in own] for slot, own in given.items()
        }
        makers: list[Any] = [maker for own in self.makers.values() for maker in own]
        self._drawing: list[Maker] = [each for each in makers if each is not None and _draws(each)]
        self.spread, self.keep_native = dict(spread), keep_native
        self.frozen: list[str] = []

    @property
    def drawing(self) -> list[Maker]:
        """What draws positions, while this is training."""
        return self._drawing if self.training else []

    def placed(self, slot: str) -> list[tuple[Any, Maker]]:
        """Each encoding of a slot with what makes its positions."""
        own = self[slot]
        each = list(own) if isinstance(own, nn.ModuleList) else [own]
        return list(zip(each, self.makers[slot], strict=True))

    def added(self, here: Here) -> Tensor:
        """What is added at the patches."""
        ((encoding, maker),) = self.placed("additive")
        table: Tensor = encoding(here.positions(encoding, maker))
        return table

    def each(self, slot: str, places: Sequence[Here], prefix: int = 0) -> list[Any]:
        """What each attention's encoding says: one answer if it is the same for all.

        Args:
            slot: ``"rotary"`` or ``"bias"``.
            places: one for all attentions or one for each.
            prefix: how many tokens without a place come before the patches.
        """
        placed = self.placed(slot)
        if len(placed) == len(places) == 1:
            return [_say(*placed[0], places[0], prefix)]
        spread = self.spread[slot]
        answers: list[tuple[int, Here, Any]] = []
        said = []
        for index in range(max(len(spread), len(places))):
            which, here = spread[index], places[index if len(places) > 1 else 0]
            known = [answer for w, h, answer in answers if w == which and h is here]
            if not known:
                known = [_say(*placed[which], here, prefix)]
                answers.append((which, here, known[0]))
            said.append(known[0])
        return said


def _draws(maker: Callable[..., Tensor]) -> bool:
    try:
        return "training" in inspect.signature(maker).parameters
    except ValueError:  # of a builtin
        return False


def _say(encoding: Any, maker: Maker, here: Here, prefix: int) -> Any:
    points = here.positions(encoding, maker)
    if not isinstance(encoding, AttentionBias):
        return encoding(points).prefix(prefix)
    return encoding.with_prefix(encoding(points, points), prefix)
