"""One test over every encoding: however the batch came into the cache, each row is as if alone."""

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, Case, positions

import posenc_mm as pm

FIRST, SECOND, STEPS = (4, 1, 3), (2, 5, 0), 2
LENGTH = 12


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("case", ENCODINGS, ids=str)
def test_ragged_chunks_beams_and_steps_equal_each_row_alone(case: Case, window: int | None):
    """A left-padded chunk, a right-padded one, other rows taken over, then single tokens.

    Keys are raw or not, by turns; pads are large numbers at odd positions.
    """
    torch.manual_seed(0)
    raw = True if window or isinstance(case.make(), pm.XPos) else False
    model = pm.Transformer(DIM, 2, HEADS, causal=True, window=window, **{case.kind: case.make()})
    model = model.double().eval()
    at = positions(LENGTH, case.axes).double()
    texts = torch.randn(3, LENGTH, DIM, dtype=torch.float64)
    cache, done, found = pm.KVCache(raw=raw), [0, 0, 0], [[], [], []]
    for side, sizes in (("left", FIRST), ("right", SECOND)):
        most = max(sizes)
        x = torch.full((3, most, DIM), 1e3, dtype=torch.float64)
        where = at[3].expand(3, most, -1).clone()
        mask = torch.zeros(3, most, dtype=torch.bool)
        for i, (start, size) in enumerate(zip(done, sizes, strict=True)):
            rows = slice(most - size, most) if side == "left" else slice(size)
            x[i, rows] = texts[i, start : start + size]
            where[i, rows], mask[i, rows] = at[start : start + size], True
        out = model(x, where, key_mask=mask, cache=cache)
        for i in range(3):
            found[i].append(out[i, mask[i]])
        done = [a + b for a, b in zip(done, sizes, strict=True)]
    order = [2, 0, 1, 2]
    cache.reorder(torch.tensor(order))
    done, found = [done[i] for i in order], [[*found[i]] for i in order]
    assert cache.lengths.tolist() == done
    if window:
        cache.crop(first=1 - window)
    for _ in range(STEPS):
        new = torch.stack([texts[i, n] for i, n in zip(order, done, strict=True)]).unsqueeze(1)
        out = model(new, torch.stack([at[[n]] for n in done]), cache=cache)
        for row, pieces in zip(out, found, strict=True):
            pieces.append(row)
        done = [n + 1 for n in done]
    for i, n, pieces in zip(order, done, found, strict=True):
        wanted = model(texts[i : i + 1, :n], at[:n])[0]
        torch.testing.assert_close(torch.cat(pieces), wanted, rtol=0, atol=1e-10)
