"""DeBERTa's disentangled attention: contents meet positions, in both directions."""

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import differences
from posenc_mm.bias.contextual import Contextual, ContextualBias
from posenc_mm.bias.terms import Term
from posenc_mm.checks import check_inside, check_number, check_whole
from posenc_mm.tables import draw_entries


class DeBERTaBias(ContextualBias):
    r"""A query meets the vector of a bucket of distances, and so does a key.

    .. math:: b_{hij} = s \left( q_i \cdot K_h[\delta_{ij}] + k_j \cdot Q_h[\delta_{ij}] \right),
        \quad \delta_{ij} = \min(\max(g(p_i - p_j) + k, 0), 2k - 1), \quad
        s = (D \, (1 + t))^{-1/2}

    with :math:`t` the number of terms beside :math:`q \cdot k`: the same :math:`s` is for all of
    them. :func:`posenc_mm.attend` takes it from here unless it is given another.

    Distances have a bucket each up to half of :math:`k`; farther ones share by their logarithm,
    and from :math:`m` on all share the last. Boundaries come from exact integer arithmetic.
    Distances between whole steps are cut to whole ones.

    The vectors are the authors' after their projections: :math:`K_h` is a layer's projection for
    keys of its table of relative positions, :math:`Q_h` that for queries.

    Traps: they project anew in every layer: give :class:`posenc_mm.Transformer` one instance per
    layer for that. Rows are numbered as in their code, which reads the same row on both sides; the
    paper numbers those of :math:`Q` from the other end.

    References:
        He, Liu, Gao, Chen: DeBERTa: Decoding-enhanced BERT with Disentangled Attention (2021),
        https://arxiv.org/abs/2006.03654

    Args:
        heads: number of attention heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        buckets: :math:`k`, on each side.
        max_distance: :math:`m`; None gives a bucket to each of :math:`k` distances, as the first
            version did.
        terms: ``"c2p"`` for queries, ``"p2c"`` for keys, or both.
        scale: :math:`s`, where it is another.
        std: standard deviation of the initial entries (normal, truncated at two).

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> Contextual``

    Raises:
        ValueError: ``heads`` or ``head_dim`` is below 1, ``buckets`` odd or below 4,
            ``max_distance`` too short for them, ``terms`` unknown, or ``scale`` or ``std``
            negative; at the call, positions do not have one axis, or are not finite.

    Example:
        >>> from posenc_mm import attend, sequence
        >>> q = k = v = torch.ones(1, 2, 5, 8)
        >>> bias = DeBERTaBias(heads=2, head_dim=8, buckets=4, max_distance=9)
        >>> attend(q, k, v, bias=bias, q_positions=sequence(5)).shape
        torch.Size([1, 2, 5, 8])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        buckets: int = 256,
        max_distance: int | None = 512,
        *,
        terms: tuple[str, ...] = ("c2p", "p2c"),
        scale: float | None = None,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        check_whole(heads=heads, head_dim=head_dim)
        check_whole(4, buckets=buckets)
        if buckets % 2:
            raise ValueError(f"buckets must be even, half of them exact, got buckets={buckets}")
        if max_distance is not None and max_distance < buckets // 2 + 2:
            raise ValueError(
                f"max_distance must be at least {buckets // 2 + 2}, beyond the distances that have "
                f"a bucket each, got max_distance={max_distance}"
            )
        if not terms or len(set(terms)) != len(terms) or not {*terms} <= {"c2p", "p2c"}:
            raise ValueError(f"terms must be 'c2p', 'p2c' or both, in a tuple, got terms={terms}")
        self.scale = (head_dim * (1 + len(terms))) ** -0.5 if scale is None else scale
        check_number(scale=self.scale, std=std)
        self.heads, self.head_dim, self.terms = heads, head_dim, tuple(terms)
        self.buckets, self.max_distance, self.std = buckets, max_distance, float(std)
        self.steps = tuple(range(buckets + 1))
        if max_distance is not None:
            self.steps = _bucket_of_distance(buckets // 2, max_distance)
        shape = (heads, 2 * buckets, head_dim)
        self.tables = nn.ParameterDict({term: torch.empty(shape) for term in self.terms})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        rows = self._rows(differences(q_positions, k_positions, axes=1))
        of_queries: tuple[Term, ...] = ()
        of_keys: tuple[Term, ...] = ()
        if "c2p" in self.terms:
            of_queries = (Term(self.tables["c2p"] * self.scale, ((rows, None),)),)
        if "p2c" in self.terms:
            of_keys = (Term(self.tables["p2c"] * self.scale, ((rows.mT, None),)),)
        return Contextual(of_queries, of_keys, scale=self.scale)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, head_dim={self.head_dim}, buckets={self.buckets}, "
            f"max_distance={self.max_distance}, terms={self.terms}, scale={self.scale}, "
            f"std={self.std}"
        )

    def _rows(self, distances: Tensor) -> Tensor:
        if distances.is_floating_point():
            far, advice = 10**18, "are they numbers?"
            check_inside("distances of a DeBERTaBias", distances, [-far], [far], 0, advice)
            distances = distances.trunc()
        whole = distances.squeeze(-1).long()
        steps = torch.tensor(self.steps, device=whole.device)
        bucket = steps[whole.abs().clamp(max=len(self.steps) - 1)]
        signed = torch.where(whole < 0, -bucket, bucket)
        return (signed + self.buckets).clamp(0, 2 * self.buckets - 1)


def _bucket_of_distance(exact: int, max_distance: int) -> tuple[int, ...]:
    """The bucket of each distance from 0 to max_distance, by integer powers instead of logs."""
    found, step = list(range(exact + 1)), 1
    last = max_distance - 1
    for distance in range(exact + 1, max_distance + 1):
        # The smallest step c with (distance / exact)^(exact - 1) <= (last / exact)^c.
        while distance ** (exact - 1) * exact**step > last**step * exact ** (exact - 1):
            step += 1
        found.append(exact + step)
    return tuple(found)
