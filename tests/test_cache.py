"""The key-value cache: rows of different lengths, windows, beams, raw keys."""

import pytest
import torch
from torch import Tensor

import posenc_mm as pm

DIM, HEADS, HEAD_DIM, DEPTH = 24, 4, 6, 2
LENGTHS = (3, 7, 5)


def host(**given) -> pm.Transformer:
    given = {"rotary": pm.Rotary(HEAD_DIM), "bias": pm.ALiBi(HEADS)} | given
    return pm.Transformer(DIM, DEPTH, HEADS, causal=True, **given).double().eval()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def ragged(texts: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """Rows of different lengths in one batch, and which tokens are real; pads are large."""
    most = max(len(text) for text in texts)
    x = torch.full((len(texts), most, texts[0].shape[-1]), 1e3, dtype=torch.float64)
    mask = torch.zeros(len(texts), most, dtype=torch.bool)
    for i, text in enumerate(texts):
        rows = slice(most - len(text), most) if side == "left" else slice(len(text))
        x[i, rows], mask[i, rows] = text, True
    return x, mask


# ------------------------------------------------------------ rows of different lengths


@pytest.mark.parametrize("window", [None, 3, [2, None]], ids=str)
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("sides", ["left", "right", "left right left", "right right left"])
def test_rows_of_different_lengths_in_chunks_decode_as_if_alone(sides, raw, window):
    """Each chunk is ragged and padded on its side; then four steps; each row against itself."""
    model = host(window=window)
    texts = [noise(n * len(sides.split()) + 4, DIM) for n in LENGTHS]
    cache, taken, found = pm.KVCache(raw=raw), [0, 0, 0], [[], [], []]
    for turn, side in enumerate(sides.split()):
        sizes = [LENGTHS[(i + turn) % 3] if turn else n for i, n in enumerate(LENGTHS)]
        sizes = [min(n, len(t) - 4 - at) for n, t, at in zip(sizes, texts, taken, strict=True)]
        parts = [t[at : at + n] for t, at, n in zip(texts, taken, sizes, strict=True)]
        x, mask = ragged(parts, side)
        at = pm.from_mask(mask) + torch.tensor(taken)[:, None, None]
        out = model(x, at, key_mask=mask, cache=cache)
        for i in range(3):
            found[i].append(out[i, mask[i]])
        taken = [at + n for at, n in zip(taken, sizes, strict=True)]
        assert cache.lengths.tolist() == taken
    for _ in range(4):
        x = torch.stack([t[at] for t, at in zip(texts, taken, strict=True)]).unsqueeze(1)
        out = model(x, pm.sequence(1, offset=cache.lengths), cache=cache)
        for i in range(3):
            found[i].append(out[i])
        taken = [at + 1 for at in taken]
    for text, at, pieces in zip(texts, taken, found, strict=True):
        close(torch.cat(pieces), model(text[None, :at], pm.sequence(at))[0])


def test_lengths_are_where_each_row_goes_on():
    model, cache = host(), pm.KVCache()
    with pytest.raises(ValueError, match="empty"):
        _ = cache.lengths
    model(noise(2, 4, DIM), pm.sequence(4), cache=cache)
    assert cache.lengths.tolist() == [4, 4]
    mask = torch.tensor([[True, False], [True, True]])
    model(noise(2, 2, DIM), pm.sequence(2, offset=4), key_mask=mask, cache=cache)
    assert cache.lengths.tolist() == [5, 6]
    cache.crop(first=-3)
    assert len(cache) == 3 and cache.lengths.tolist() == [5, 6]
    cache.crop(last=-1)
    assert cache.lengths.tolist() == [4, 5]


# ------------------------------------------------------------ windows


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_a_window_needs_no_more_rows_than_it_sees(padded, raw):
    """Cropped after each call; positions go on by lengths, which still count what is dropped."""
    window, texts = 4, [noise(n + 6, DIM) for n in LENGTHS]
    model, cache = host(window=window), pm.KVCache(raw=raw)
    if padded is None:
        texts = [text[: LENGTHS[0] + 6] for text in texts]
    prompts = [text[:-6] for text in texts]
    x, mask = ragged(prompts, padded or "left")
    model(x, pm.from_mask(mask), key_mask=None if padded is None else mask, cache=cache)
    for step in range(6):
        cache.crop(first=-(window - 1))
        assert len(cache) <= window - 1 and cache.keys[0].shape[2] == len(cache)
        new = torch.stack([text[len(text) - 6 + step] for text in texts]).unsqueeze(1)
        out = model(new, pm.sequence(1, offset=cache.lengths), cache=cache)
        for i, text in enumerate(texts):
            until = len(text) - 5 + step
            close(out[i, 0], model(text[None, :until], pm.sequence(until))[0, -1])


@pytest.mark.parametrize("heads", [4, 6])
def test_a_windowed_alibi_is_its_definition(heads):
    """One layer by hand: distance by positions, sight by rows, cached or not."""
    model = (
        pm.Transformer(24, 1, heads, bias=pm.ALiBi(heads), window=3, causal=True).double().eval()
    )
    x, places = noise(2, 7, 24), torch.tensor([[0], [2], [3], [7], [8], [9], [20]])
    block = model.blocks[0]
    parts = block.attention.qkv(block.norm1(x)).unflatten(-1, (3 * heads, -1)).transpose(1, 2)
    q, k, v = parts.chunk(3, dim=1)
    seen = torch.zeros_like(q)
    for h, slope in enumerate(pm.alibi_slopes(heads)):
        for i in range(7):
            rows = range(max(0, i - 2), i + 1)
            logits = [
                (q[:, h, i] * k[:, h, j]).sum(-1) / q.shape[-1] ** 0.5
                - slope * abs(int(places[i] - places[j]))
                for j in rows
            ]
            weights = torch.stack(logits, -1).softmax(-1)
            seen[:, h, i] = sum(weights[:, n, None] * v[:, h, j] for n, j in enumerate(rows))
    y = x + block.attention.out(seen.transpose(1, 2).flatten(2))
    wanted = model.norm(y + block.mlp(block.norm2(y)))
    close(model(x, places), wanted)
    cache = pm.KVCache()
    pieces = [model(x[:, [i]], places[[i]], cache=cache) for i in range(7)]
    close(torch.cat(pieces, 1), wanted)


# ------------------------------------------------------------ beams and going back


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("indices", [[2, 0, 1], [1, 1, 1], [0, 2], [2, 2, 0, 1, 0]], ids=str)
def test_beams_take_over_the_rows_of_others(indices, padded):
    model, cache = host(), pm.KVCache()
    texts = [noise(n if padded else 5, DIM) for n in LENGTHS]
    x, mask = ragged(texts, "right")
    model(x, pm.from_mask(mask), key_mask=mask if padded else None, cache=cache)
    cache.crop(first=-4)
    kept = [cache.keys[0].clone(), cache.dropped]
    cache.reorder(torch.tensor(indices))
    assert torch.equal(cache.keys[0], kept[0][indices])
    assert cache.lengths.tolist() == [len(texts[i]) for i in indices]
    new = noise(len(indices), 1, DIM)
    out = model(new, pm.sequence(1, offset=cache.lengths), cache=cache)
    for row, i in enumerate(indices):
        alone, whole = pm.KVCache(), texts[i]
        model(whole[None], pm.sequence(len(whole)), cache=alone)
        alone.crop(first=-4)
        step = pm.sequence(1, offset=len(whole))
        close(out[row], model(new[row : row + 1], step, cache=alone)[0])


def test_tokens_may_be_taken_back():
    model, x, cache = host(), noise(2, 9, DIM), pm.KVCache()
    model(x[:, :7], pm.sequence(7), cache=cache)
    cache.crop(last=-3)
    assert len(cache) == 4 and cache.lengths.tolist() == [4, 4]
    other = torch.cat((x[:, :4], x[:, 7:]), 1)
    out = model(x[:, 7:], pm.sequence(2, offset=cache.lengths), cache=cache)
    close(out, model(other, pm.sequence(6))[:, 4:])


def test_what_does_not_fit_is_refused():
    model, cache = host(), pm.KVCache()
    with pytest.raises(ValueError, match="not empty"):
        cache.reorder(torch.tensor([0]))
    cache.crop(first=-2)
    model(noise(2, 4, DIM), pm.sequence(4), cache=cache)
    for wrong, said in (
        (torch.tensor([0, 2]), "indices"),
        (torch.tensor([-1]), "indices"),
        (torch.tensor([[0]]), "indices"),
        (torch.tensor([0.0]), "indices"),
        (torch.tensor([True, False]), "indices"),
    ):
        with pytest.raises(ValueError, match=said):
            cache.reorder(wrong)


def test_a_cache_that_a_failed_call_left_is_refused():
    """The positions of a token are there, or its keys in one layer: nothing goes on from there."""
    model, x, at = host(additive=pm.Learned(DIM, 6)), noise(2, 8, DIM), pm.sequence(8)

    def stop(*_):
        raise KeyboardInterrupt

    for held, until, error in ((4, 8, ValueError), (0, 8, ValueError), (4, 5, KeyboardInterrupt)):
        cache = pm.KVCache()
        if held:
            model(x[:, :held], at[:held], cache=cache)
        hook = model.blocks[1].register_forward_pre_hook(stop) if until == 5 else None
        with pytest.raises(error):
            model(x[:, held:until], at[held:until], cache=cache)
        if hook is not None:
            hook.remove()
        with pytest.raises(ValueError, match="cache must hold each token in all layers"):
            model(x[:, held : held + 1], at[held : held + 1], cache=cache)


# ------------------------------------------------------------ raw keys


def test_raw_keys_are_kept_as_they_were_and_turned_when_read():
    model, x = host(bias=None), noise(2, 5, DIM)
    caches = {raw: pm.KVCache(raw=raw) for raw in (True, False)}
    outs = [
        torch.cat([model(x[:, [i]], pm.sequence(1, offset=i), cache=cache) for i in range(5)], 1)
        for cache in caches.values()
    ]
    close(*outs)
    turned = pm.rotate(caches[True].keys[0], model.rotary(pm.sequence(5)))
    close(turned, caches[False].keys[0])
    assert not torch.allclose(caches[True].keys[0], caches[False].keys[0])
    cache = pm.KVCache()
    model(x, pm.sequence(5), cache=cache)
    assert cache.raw is False


def test_raw_keys_may_be_given_other_positions():
    """A conversation whose middle was cut out closes up, exactly as if it had never been."""
    x, cache = noise(1, 9, DIM), pm.KVCache(raw=True)
    one = pm.Transformer(DIM, 1, HEADS, rotary=pm.Rotary(HEAD_DIM), causal=True).double().eval()
    one(x[:, :8], pm.sequence(8), cache=cache)
    rows = [0, 1, 6, 7]
    cut = pm.KVCache(
        [k[:, :, rows] for k in cache.keys],
        [v[:, :, rows] for v in cache.values],
        pm.sequence(4),
        raw=True,
    )
    out = one(x[:, 8:], pm.sequence(1, offset=4), cache=cut)
    close(out, one(x[:, [*rows, 8]], pm.sequence(5))[:, 4:])
