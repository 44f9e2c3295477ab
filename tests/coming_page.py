"""The pairs of blocks of ``docs/coming_from.md``, its table, and how they are run."""

import ast
import re
from functools import cache
from pathlib import Path

import coming_old
import pytest
import torch

import posenc_mm as pm
from posenc_mm.additive.conventions import informer

PAGES = ("docs/coming_from.md", "README.md")
HEAD = "| from | before | after |"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PAIR = re.compile(
    r"^Before:\n\n```python\n(.*?)^```\n\nAfter:\n\n```python\n(.*?)^```$", re.M | re.S
)


def page(name=PAGES[0]):
    return (Path(__file__).resolve().parents[1] / name).read_text(encoding="utf-8")


def pairs_of(text):
    """Title -> what comes before both, the lines before, the lines after."""
    intro, *parts = re.split(r"^(?=##+ )", text, flags=re.M)
    first, shared, found = "".join(BLOCK.findall(intro)), "", {}
    for part in parts:
        pair = PAIR.search(part)
        setting = "".join(BLOCK.findall(part[: pair.start()] if pair else part))
        if part.startswith("## "):
            shared = setting
            setting = ""
        if pair:
            found[part.partition("\n")[0].strip("# ")] = (first + shared + setting, *pair.groups())
    return found


PAIRS = pairs_of(page())


@cache
def qwen2_vl():
    config = pytest.importorskip("transformers").Qwen2VLConfig(
        text_config={
            "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 50,
            "num_attention_heads": 2, "num_key_value_heads": 2, "bos_token_id": None,
            "eos_token_id": None,
            "rope_parameters": {"rope_theta": 1e6, "mrope_section": [2, 3, 3]},
        },
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2},
    )  # fmt: skip
    from transformers import Qwen2VLForConditionalGeneration

    return Qwen2VLForConditionalGeneration(config)


def run(title, changed=lambda lines: lines):
    """The inputs, and what each of a pair of blocks makes of them under the names of both."""
    setting, before, after = PAIRS[title]
    for peer in ("rotary_embedding_torch", "timm", "transformers", "x_transformers", "pandas"):
        if re.search(rf"^(from|import) {peer}\b", setting + before, re.M):
            pytest.importorskip(peer)
    inputs = {"__name__": title, "PositionalEncoding": coming_old.PositionalEncoding}
    if "model.model" in before:
        inputs["model"] = qwen2_vl()
    exec(compile(setting, f"{title}, inputs", "exec"), inputs)
    made = []
    for lines in (before, changed(after)):
        space = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in inputs.items()}
        torch.manual_seed(5)  # dropout draws the same
        exec(compile(lines, f"{title}, {['before', 'after'][len(made)]}", "exec"), space)
        made.append(space)
    shared = assigned(before) & assigned(after)
    old, new = ({n: s[n].detach() for n in shared if torch.is_tensor(s.get(n))} for s in made)
    return inputs, old, {name: new[name] for name in old}


def assigned(lines):
    nodes = ast.walk(ast.parse(lines))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def weights(inputs, made):
    """The attention weights that follow, where they do."""
    scores = made.get("scores")
    if {"q", "k"} <= made.keys():
        q, k = made["q"], made["k"]
        scores = (q @ k.mT) if q.shape[1] == 4 else q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
    elif "q" in made:
        scores = made["q"] @ inputs["k"].mT
    elif "bias" in made:
        scores = inputs["q"] @ inputs["k"].mT + 8 * made["bias"]
    elif "x" in made:
        first = made["x"].ndim == 3 and made["x"].shape[0] == 12  # tokens before samples
        x = made["x"].transpose(0, 1) if first else made["x"]
        mixed = torch.linspace(-9, 9, 64 * 64, dtype=x.dtype).sin().reshape(64, 64) / 8
        scores = x @ mixed @ x.mT
    return None if scores is None else (scores / 8).softmax(-1)


def rows(name):
    text = page(name).split(HEAD, 1)[1].split("\n\n", 1)[0]
    for line in text.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        yield pytest.param(cells[1].split("`")[1], cells[2].split("`")[1], id=cells[0])


def namespace():
    """What the table's expressions are about."""
    names = {n: getattr(pm, n) for n in pm.__all__} | {"informer": informer}
    names |= {n: each for n, each in vars(coming_old).items() if not n.startswith("_")}
    peers = {
        "rotary_embedding_torch": ["RotaryEmbedding"],
        "timm.layers": [
            *("RotaryEmbeddingCat", "apply_rot_embed_cat", "build_sincos2d_pos_embed"),
            "resample_abs_pos_embed",
        ],
        "transformers": ["LlamaConfig"],
        "transformers.models.llama.modeling_llama": [
            "LlamaRotaryEmbedding",
            "apply_rotary_pos_emb",
        ],
        "transformers.models.bloom.modeling_bloom": ["build_alibi_tensor"],
    }
    for module, wanted in peers.items():
        found = pytest.importorskip(module)
        names |= {name: getattr(found, name) for name in wanted}
    dates = pytest.importorskip("pandas").date_range("2024-02-29 18:00", periods=12, freq="h")
    marks = torch.tensor(coming_old.time_features(dates).T).float()
    q, k = torch.randn(2, 2, 4, 12, 64).unbind()
    return names | {
        "q": q, "k": k, "x": torch.randn(12, 2, 64), "table": torch.randn(1, 13, 64),
        "mask": torch.ones(2, 12, dtype=torch.long), "marks": marks, "places": pm.sequence(12),
        "position_ids": torch.arange(12).expand(2, -1) + torch.tensor([[0], [30]]),
        "config": names["LlamaConfig"](hidden_size=256, num_attention_heads=4),
        "moments": pm.TimeAxis(dates).positions("s"),
    }  # fmt: skip
