"""One transformer over all tokens of a row; questions are answered where they stand."""

from torch import Tensor, nn

from multimodal.rows import BANDS
from posenc_mm import Rotary, Transformer
from posenc_mm.frequencies import axial, geometric
from posenc_mm.streams import Modality, Stream

MODALITIES = (Modality.AUDIO, Modality.IMAGE, Modality.TEXT)


class Answerer(nn.Module):
    """A linear layer for each modality, a transformer, and a linear layer to the ten digits.

    Of the pairs of a head two look along rows and columns of pictures, all others along the first
    axis, at speeds from 1 to 1/100 per position, whatever the design says there.

    Args:
        dim: width of the tokens.
        depth: number of layers.
        heads: of ``dim / heads`` channels, 6 or more.

    Shape:
        ``content (B, N, 32), positions (B, N, 3) -> (B, N, 10)``
    """

    def __init__(self, dim: int = 64, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.readers = nn.ModuleList(nn.Linear(BANDS, dim) for _ in MODALITIES)
        head_dim = dim // heads
        speeds = axial(geometric(head_dim // 2 - 2, 100.0), (1.0,), (1.0,))
        rotary = Rotary(head_dim, axes=3, frequencies=speeds)
        self.encoder = Transformer(dim, depth, heads, rotary=rotary)
        self.answer = nn.Linear(dim, 10)

    def forward(self, content: Tensor, positions: Tensor, stream: Stream) -> Tensor:
        """Give the digits' logits at every token."""
        tokens = content.new_zeros(*content.shape[:2], self.answer.in_features)
        for modality, reader in zip(MODALITIES, self.readers, strict=True):
            tokens = tokens + (stream.modality == modality)[..., None] * reader(content)
        answers: Tensor = self.answer(self.encoder(tokens, positions, key_mask=stream.mask))
        return answers
