"""``docs/coming_from.md``: the lines before and the lines after are run, and make the same."""

import math
import re
import sys
from importlib.metadata import version

import coming_old
import oracles
import pytest
import torch
from coming_page import BLOCK, PAGES, PAIRS, namespace, page, rows, run, weights

import posenc_mm as pm
from posenc_mm.additive.conventions import informer

NEAR = 1e-5
COARSE = {"Axial, in pixels": 2e-4}  # angles of hundreds of radians in the peer's float32


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the files that people paste, to save checkpoints in."""
    monkeypatch.chdir(tmp_path)
    pasted = ("layers", "layers.Embed", "utils", "utils.timefeatures", "llama", "llama.model")
    for name in pasted:
        monkeypatch.setitem(sys.modules, name, coming_old)


def near(ours, theirs, title="", name="weights"):
    told = {"rtol": 0, "atol": COARSE.get(title, NEAR), "msg": lambda m: f"{title}, {name}: {m}"}
    torch.testing.assert_close(ours, theirs, **told)


@pytest.mark.parametrize("title", PAIRS)
def test_before_and_after_make_the_same(title, project):
    inputs, old, new = run(title)
    assert old, "the two blocks must make something under one name"
    for name, theirs in old.items():
        near(new[name], theirs, title, name)
        untouched = inputs.get(name)
        assert untouched is None or not torch.equal(untouched, theirs), name
    theirs = weights(inputs, old)
    if theirs is None:
        assert {"logits", "out", "position_ids"} & old.keys()
    else:
        near(weights(inputs, new), theirs, title)


# Lines that are nearly right; the layouts of all lines are swapped besides.
WRONG = [
    ("One token after a cache", "places[-1:]", "places[:1]"),
    ("xPos", "XPos(64)", "XPos(64, gamma=0.5)"),
    ("Axial, in pixels", "256 / 2", "255 / 2"),
    ("Longer than it was trained", "NTK(4.0)", "NTK(4.1)"),
    ("RotaryEmbeddingCat", ", reference=(16, 16)", ""),
    ("resample_abs_pos_embed", "prefix=1", 'prefix=1, rule="bilinear"'),
    ("RelPosBias", "rows[:-3].reshape", "rows[:-3].flip(0).reshape"),
    ("A timm model", "rope_vit_axial", "eva02"),
    ("rope_scaling", "scaling=found.scaling", "scaling=None"),
    ("T5's relative bias", ", scale=1.0", ""),
    ("ALiBi of BLOOM and MPT", "ALiBi(4)", "ALiBi(4, step=1.1)"),
    ("Position ids of Qwen2-VL", 'pad="left"', 'pad="right"'),
    ("A whole decoder", "YaRN(4.0", "YaRN(4.5"),
    ("timeF", 'positions("s")', 'positions("s") + 3600'),
    ("learned and fixed", 'positions("s")', 'positions("s") + 3600'),
    ("Meta's Llama", "offset=7", "offset=6"),
    ("A learned table", '["weight"]', '["weight"].flip(0)'),
    ("A checkpoint", "sequence(len(words))", "sequence(len(words), 1)"),
    ("Another layout", 'target="half"', 'target="interleaved"'),
]
SWAP = {"interleaved": "half", "half": "interleaved", "axis_half": "half"}
WRONG += [(title, 'layout="', None) for title in PAIRS if 'layout="' in PAIRS[title][2]]


@pytest.mark.parametrize(("title", "right", "wrong"), WRONG)
def test_with_other_lines_it_would_not_be_the_same(title, right, wrong, project):
    def changed(lines):
        assert right in lines
        if wrong is None:
            return re.sub(r'layout="(\w+)"', lambda m: f'layout="{SWAP[m[1]]}"', lines)
        return lines.replace(right, wrong)

    _, old, new = run(title, changed)
    assert any((new[name] - theirs).abs().max() > 0.01 for name, theirs in old.items())


def test_every_block_is_one_of_these():
    settings = "".join(setting for setting, _, _ in PAIRS.values())
    lines = [line for pair in PAIRS.values() for line in pair[1:]]
    alone = [block for block in BLOCK.findall(page()) if block not in lines]
    assert all(block in settings for block in alone) and len(PAIRS) > 20
    origins = re.findall(r"^## (.*)", page(), re.M)
    assert len(origins) == 7


def anchors(root, name):
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", (root / "docs" / name).read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere(root):
    found = re.findall(r"\]\(([\w.]*)#?([\w-]*)\)", BLOCK.sub("", page()))
    assert len(found) > 10
    for file, anchor in found:
        assert not anchor or anchor in anchors(root, file or "coming_from.md"), anchor
        assert (root / "docs" / file).exists()


# ------------------------------------------------------------ the table


@pytest.mark.parametrize(("before", "after"), [row for name in PAGES for row in rows(name)])
def test_each_row_of_the_table_is_one_number_twice(before, after):
    names = namespace()
    torch.manual_seed(3)
    theirs = eval(before, names).detach()
    torch.manual_seed(3)  # a map starts from the same numbers
    ours = eval(after, names).detach()
    if "alibi" in before:
        theirs = theirs.view(2, 4, 1, 12)
        ahead = torch.ones(12, 12, dtype=torch.bool).triu(1)
        ours, theirs = (b.masked_fill(ahead, -torch.inf).softmax(-1) for b in (ours, theirs))
        ours = ours.expand_as(theirs)
    near(ours, theirs, before)


# ------------------------------------------------------------ what the page says beside


def turned_by_formula(x, at, layout, axes=1):
    angles = oracles.turning_angles(at, oracles.rope_matrix(64, axes))
    return oracles.rotate(x, angles, layout)


FORMULAS = {
    "Queries and keys": lambda x: turned_by_formula(x, pm.sequence(12), "interleaved"),
    "Axial": lambda x: turned_by_formula(x, oracles.grid((3, 4)), "interleaved", 2),
    "LlamaRotaryEmbedding and apply_rotary_pos_emb": lambda x: turned_by_formula(
        x, pm.sequence(12), "half"
    ),
    "x-transformers": lambda x: turned_by_formula(x, pm.sequence(12), "interleaved"),
}


@pytest.mark.parametrize("title", FORMULAS)
def test_the_lines_after_are_the_formula_in_float64(title, project):
    inputs, _, new = run(title)
    torch.testing.assert_close(new["q"].double(), FORMULAS[title](inputs["q"]), rtol=0, atol=1e-6)


@pytest.fixture
def lucidrains():
    """The peer as the page describes it, which a later version may mend."""
    peer = pytest.importorskip("rotary_embedding_torch")
    if version("rotary-embedding-torch") != "0.9.1":
        pytest.skip("the page says it of 0.9.1")
    return peer


def interleaved(x, first=0):
    return pm.rotate(x, pm.Rotary(64, layout="interleaved")(pm.sequence(x.shape[-2], first)))


@pytest.mark.parametrize(("first", "wrong"), [(100_000, 1e-3), (1_000_000, 1e-2)])
def test_far_positions_are_exact_here_and_not_in_float32(first, wrong):
    peer = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(64)
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=256, num_attention_heads=4)
    q, places = torch.randn(2, 4, 10, 64), pm.sequence(10, first)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, places.T)
    half = (pm.rotate(q, pm.Rotary(64)(places)), llama.apply_rotary_pos_emb(q, q, cos, sin)[0])
    pairs = (interleaved(q, first), peer.rotate_queries_or_keys(q, offset=first))
    for layout, (ours, theirs) in {"half": half, "interleaved": pairs}.items():
        exact = turned_by_formula(q, places, layout)
        assert (ours - exact).abs().max() < 1e-6
        assert wrong < (theirs - exact).abs().max() < 10 * wrong


def test_in_bfloat16_the_peer_loses_positions(lucidrains):
    peer = lucidrains.RotaryEmbedding(64)
    x = torch.randn(1, 1, 1, 64).expand(1, 1, 2000, 64).bfloat16()
    theirs, ours = peer.rotate_queries_or_keys(x)[0, 0], interleaved(x)[0, 0]
    assert torch.equal(theirs[256], theirs[257]) and not torch.equal(ours[256], ours[257])
    distinct = [len(x[512:1024].unique(dim=0)) for x in (theirs, ours)]
    assert distinct[0] <= 129 and distinct[1] == 512
    exact = turned_by_formula(x, pm.sequence(2000), "interleaved")[0, 0]
    assert (theirs - exact).abs().max() > 1 and (ours - exact).abs().max() < 0.02


def test_offsets_of_axes_are_kept_apart_from_what_came_before(lucidrains):
    q, far = torch.randn(2, 4, 12, 64), pm.grid(3, 4) + torch.tensor([3, 7])
    ours = pm.rotate(q, pm.Rotary(64, axes=2, layout="interleaved")(far))
    for keeps in (False, True):
        rotary = lucidrains.RotaryEmbedding(32, cache_if_possible=keeps)
        plain, moved = rotary.get_axial_freqs(3, 4), rotary.get_axial_freqs(3, 4, offsets=(3, 7))
        assert torch.equal(plain, moved) == keeps
    rotary = lucidrains.RotaryEmbedding(32, cache_if_possible=False)
    moved = rotary.get_axial_freqs(3, 4, offsets=(3, 7))
    near(ours, lucidrains.apply_rotary_emb(moved, q.unflatten(2, (3, 4))).flatten(2, 3))


def test_alibi_behind_padding_and_of_mpt():
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    real = torch.tensor([[0, 0, 0, *[1] * 9], [1] * 12])
    hidden = torch.ones(12, 12, dtype=torch.bool).triu(1) | (real[:, None, None] == 0)
    q, k = torch.randn(2, 2, 6, 12, 8).unbind()  # six heads: no power of two
    peers = (bloom.build_alibi_tensor(real, 6, q.dtype).view(2, 6, 1, 12),)
    peers += (build_mpt_alibi_tensor(6, 12).expand(2, -1, -1, -1),)
    v = torch.eye(12).expand(2, 6, 12, 12)  # so that what comes out is the weights
    at = {"q_positions": pm.from_mask(real), "causal": True, "key_mask": real.bool()}
    ours = pm.attend(q, k, v, bias=pm.ALiBi(6), **at)
    for alibi in peers:
        scores = (q @ k.mT / math.sqrt(8) + alibi).masked_fill(hidden, -torch.inf)
        theirs = scores.softmax(-1).nan_to_num(0.0)
        near(ours * real[:, None, :, None], theirs * real[:, None, :, None])


def test_strict_loading_names_the_keys_that_fall_away():
    class Old(torch.nn.Module):
        def __init__(self, encoding):
            super().__init__()
            self.encoding = encoding

    rotary = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(64)
    for old, key in ((rotary, "freqs"), (coming_old.PositionalEncoding(64), "pe")):
        state = Old(old).state_dict()
        assert list(state) == [f"encoding.{key}"]
        new = Old(pm.Sinusoidal(64))
        with pytest.raises(RuntimeError, match=rf"Unexpected key.*encoding\.{key}"):
            new.load_state_dict(state)
        new.load_state_dict({})


def test_quarters_of_an_hour_are_the_last_of_informers_tables():
    dates = pytest.importorskip("pandas").date_range("2024-02-29 22:00", periods=12, freq="15min")
    old = coming_old.TemporalEmbedding(8, "learned", "t")
    marks = [[d.month, d.day, d.weekday(), d.hour, d.minute // 15] for d in dates]
    new = informer(8, "15min", "learned", source="tslib")
    tables = (f"{name}_embed.weight" for name in ("month", "day", "weekday", "hour", "minute"))
    state = old.state_dict()
    new.load_state_dict({f"encoding.tables.{i}": state[t] for i, t in enumerate(tables)})
    near(new(pm.TimeAxis(dates).positions("s")), old(torch.tensor(marks)))
