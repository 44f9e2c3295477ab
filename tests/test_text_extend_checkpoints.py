"""Pretrained decoders: llama2.c files and Hugging Face folders give the reference's own logits."""

import cmath
import math
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_mm import ERPE, ALiBi, KVCache, MixedRotary, Rotary, XPos, sequence
from text.checkpoints import open_checkpoint
from text.checkpoints_llama2c import read_decoder
from text.checkpoints_tokens import Llama2cTokenizer
from text.decoder import Decoder, Shape
from text.decoder_distances import Distances

DATA = Path(os.environ.get("POSENC_MM_DATA", "missing"))
real = pytest.mark.skipif(
    not (DATA / "stories260K.bin").is_file(), reason="POSENC_MM_DATA does not hold stories260K.bin"
)


def write_llama2c(path, *, dim=12, hidden=20, depth=2, heads=3, kv_heads=1, vocab=37, tied=True):
    rng = np.random.default_rng(3)
    head_dim, length = dim // heads, 16
    kv = kv_heads * head_dim
    sizes = [(vocab, dim), (depth, dim), (depth, dim, dim), (depth, kv, dim), (depth, kv, dim),
             (depth, dim, dim), (depth, dim), (depth, hidden, dim), (depth, dim, hidden),
             (depth, hidden, dim), (dim,), (length * head_dim,)]  # fmt: skip
    sizes += [] if tied else [(vocab, dim)]
    flat = np.concatenate([rng.normal(0, 0.5, math.prod(s)) for s in sizes]).astype("<f4")
    head = struct.pack(
        "<7i", dim, hidden, depth, heads, kv_heads, vocab if tied else -vocab, length
    )
    path.write_bytes(head + flat.tobytes())
    return path


def oracle(path, tokens):
    """llama2.c's forward pass in float64 and plain loops, from its description of the file."""
    data = path.read_bytes()
    dim, hidden, depth, heads, kv_heads, vocab, length = struct.unpack("<7i", data[:28])
    flat = np.frombuffer(data[28:], "<f4").astype(np.float64)
    d, at = dim // heads, 0

    def take(*size):
        nonlocal at
        at += math.prod(size)
        return flat[at - math.prod(size) : at].reshape(size)

    table = take(abs(vocab), dim)
    rms_att, wq = take(depth, dim), take(depth, dim, dim)
    wk, wv = take(depth, kv_heads * d, dim), take(depth, kv_heads * d, dim)
    wo, rms_ffn = take(depth, dim, dim), take(depth, dim)
    w1, w2, w3 = take(depth, hidden, dim), take(depth, dim, hidden), take(depth, hidden, dim)
    rms_final = take(dim)
    take(length * d)
    wcls = table if vocab > 0 else take(-vocab, dim)
    assert at == len(flat)

    def norm(x, gain):
        return x / math.sqrt(np.mean(x**2) + 1e-5) * gain

    def turn(x, place):
        x = x.copy()
        for i in range(0, len(x), 2):
            angle = place * 10000 ** (-(i % d) / d)
            a, b, c, s = x[i], x[i + 1], math.cos(angle), math.sin(angle)
            x[i], x[i + 1] = a * c - b * s, a * s + b * c
        return x

    keys, values, out = [[] for _ in range(depth)], [[] for _ in range(depth)], []
    for place, token in enumerate(tokens):
        x = table[token].copy()
        for layer in range(depth):
            y = norm(x, rms_att[layer])
            q = turn(wq[layer] @ y, place)
            keys[layer].append(turn(wk[layer] @ y, place))
            values[layer].append(wv[layer] @ y)
            seen = np.zeros(dim)
            for head in range(heads):
                own = slice(head // (heads // kv_heads) * d, (head // (heads // kv_heads) + 1) * d)
                mine = slice(head * d, (head + 1) * d)
                scores = np.array([q[mine] @ k[own] / math.sqrt(d) for k in keys[layer]])
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                seen[mine] = sum(w * v[own] for w, v in zip(weights, values[layer], strict=True))
            x = x + wo[layer] @ seen
            y = norm(x, rms_ffn[layer])
            gate = w1[layer] @ y
            x = x + w2[layer] @ (gate / (1 + np.exp(-gate)) * (w3[layer] @ y))
        out.append(wcls @ norm(x, rms_final))
    return np.stack(out)


@pytest.mark.parametrize("tied", [True, False])
def test_a_file_of_llama2c_is_computed_as_its_format_says(tmp_path, tied):
    path = write_llama2c(tmp_path / "model.bin", tied=tied)
    decoder, length = read_decoder(path)
    tokens = [5, 0, 36, 7, 7, 1, 20]
    with torch.no_grad():
        found = decoder.double()(torch.tensor([tokens]), sequence(7).double())
    assert length == 16 and decoder.shape.tied is tied
    np.testing.assert_allclose(found[0].numpy(), oracle(path, tokens), rtol=0, atol=1e-9)


@real
def test_stories260k_is_computed_as_its_format_says():
    opened = open_checkpoint(DATA / "stories260K.bin")
    written = (DATA / "tinystories_sample.txt").read_text()[:300]
    tokens = [1, *opened.encode(written)][:48]
    with torch.no_grad():
        found = opened.decoder(torch.tensor([tokens]), sequence(len(tokens)))
    wanted = oracle(DATA / "stories260K.bin", tokens)
    np.testing.assert_allclose(found[0].numpy(), wanted, rtol=0, atol=1e-4)
    assert opened.length == 512
    assert opened.decode(opened.encode(written)) == f" {written}"


def naive(pieces, scores, text):
    """llama2.c's own loop: of all neighbours join the pair of best score, the first of equals."""
    known = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    tokens = []
    for character in f" {text}":
        spelled = character.encode()
        tokens += [known[spelled]] if spelled in known else [b + 3 for b in spelled]
    while True:
        best, where = -1e10, None
        for i in range(len(tokens) - 1):
            joined = known.get(pieces[tokens[i]] + pieces[tokens[i + 1]])
            if joined is not None and scores[joined] > best:
                best, where = scores[joined], (i, joined)
        if where is None:
            return tokens
        tokens[where[0] : where[0] + 2] = [where[1]]


@real
def test_pairs_are_merged_in_the_order_of_their_scores():
    tokenizer = Llama2cTokenizer.read(DATA / "tok512.bin")
    written = (DATA / "tinystories_sample.txt").read_text()
    text = written[:700] + "\u20ac \n\n" + written[-300:]
    wanted = naive(tokenizer.pieces, tokenizer.scores, text)
    assert tokenizer.encode(text) == wanted
    assert tokenizer.encode("") == []


def test_equal_scores_are_merged_from_the_left():
    pieces = [b"<unk>", b"<s>", b"</s>", *[bytes([i]) for i in range(256)], b" ", b"a", b"aa"]
    scores = [0.0] * len(pieces)
    found = Llama2cTokenizer(pieces, scores).encode("aaa")
    assert [pieces[token] for token in found] == [b" ", b"aa", b"a"]


def test_what_is_no_checkpoint_is_refused(tmp_path):
    whole = write_llama2c(tmp_path / "model.bin")
    (tmp_path / "cut.bin").write_bytes(whole.read_bytes()[:-4])
    with pytest.raises(ValueError, match="must have [0-9,]+ bytes"):
        read_decoder(tmp_path / "cut.bin")
    (tmp_path / "other.bin").write_bytes(b"not a model, but long enough to hold a header")
    with pytest.raises(ValueError, match="seven integers"):
        read_decoder(tmp_path / "other.bin")
    with pytest.raises(ValueError, match="one tok"):
        open_checkpoint(whole)
    (tmp_path / "tok9.bin").write_bytes(struct.pack("<i", 1) + struct.pack("<fi", 0.0, 1) + b"a")
    with pytest.raises(ValueError, match="must have the 37 tokens"):
        open_checkpoint(whole)
    with pytest.raises(ValueError, match="there is no"):
        open_checkpoint(tmp_path / "nothing.bin")


def small(**slots):
    torch.manual_seed(0)
    return Decoder(Shape(31, 12, 20, 2, 3, 1, 4, tied=False), **slots).double().eval()


SLOTS = {
    "rotary": {"rotary": Rotary(4, layout="interleaved")},
    "rotary and ALiBi": {"rotary": Rotary(4), "bias": ALiBi(heads=3)},
    "XPos": {"rotary": XPos(4, scale_base=9.0)},
}


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("window", [None, 3])
def test_pieces_through_a_cache_are_the_whole(slots, window):
    decoder = small(**SLOTS[slots])
    tokens, positions = torch.arange(14).reshape(2, 7), sequence(7, offset=5).double()
    with torch.no_grad():
        whole = decoder(tokens, positions, window=window)
        cache, parts = KVCache(), []
        for start, end in ((0, 4), (4, 5), (5, 7)):
            seen = (tokens[:, start:end], positions[start:end])
            parts.append(decoder(*seen, window=window, cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)


def test_xpos_lets_a_score_fade_with_the_distance_alone():
    decoder, n, d, scale = small(rotary=XPos(4, scale_base=9.0)), 6, 4, 9.0
    tokens, layer = torch.arange(n)[None], decoder.layers[0]
    seen = []
    layer.out.register_forward_pre_hook(lambda _, given: seen.append(given[0][0].numpy()))
    with torch.no_grad():
        decoder(tokens, sequence(n, offset=2000).double())
        y = layer.norm1(decoder.embedding(tokens))[0]
        q, k, v = (part(y).numpy() for part in (layer.q, layer.k, layer.v))
    for head in range(3):
        for i in range(n):
            scores = []
            for j in range(i + 1):
                score = 0.0
                for pair in range(d // 2):
                    fade = ((2 * pair / d + 0.4) / 1.4) ** ((i - j) / scale)
                    angle = (i - j) * 10_000 ** (-2 * pair / d)
                    a = complex(*q[i, head * d + 2 * pair : head * d + 2 * pair + 2])
                    b = complex(*k[j, 2 * pair : 2 * pair + 2])
                    score += fade * (a * b.conjugate() * cmath.exp(1j * angle)).real
                scores.append(score / math.sqrt(d))
            weights = np.exp(scores) / np.exp(scores).sum()
            wanted = weights @ v[: i + 1]
            np.testing.assert_allclose(seen[0][i, head * d : head * d + d], wanted, atol=1e-12)


def test_a_cache_of_the_other_kind_is_refused():
    tokens, positions = torch.arange(3)[None], sequence(3).double()
    with pytest.raises(ValueError, match="must keep raw keys, got raw=False"):
        small(rotary=XPos(4))(tokens, positions, cache=KVCache(raw=False))
    with pytest.raises(ValueError, match="must keep rotated keys, got raw=True"):
        small(rotary=Rotary(4))(tokens, positions, cache=KVCache(raw=True))
    still = Rotary(4)(positions)
    with pytest.raises(ValueError, match="another rotary than XPos"):
        small(rotary=XPos(4))(tokens, positions, distances=Distances(2, still, still))


def test_encodings_without_a_place_are_refused():
    with pytest.raises(ValueError, match="heads of 4 channels"):
        small(rotary=Rotary(8))
    with pytest.raises(ValueError, match="got 3 rotations for heads=3 and kv_heads=1"):
        small(rotary=MixedRotary(4, heads=3, axes=1))
    with pytest.raises(ValueError, match="3 heads"):
        small(bias=ALiBi(heads=4))
    with pytest.raises(ValueError, match="added to the logits, got ERPE"):
        small(bias=ERPE(heads=3, size=5))
    with pytest.raises(ValueError, match="tokens must be"):
        small()(torch.zeros(1, 3, dtype=torch.long), sequence(4))
