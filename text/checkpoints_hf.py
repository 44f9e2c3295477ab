"""Decoders of the Llama family from Hugging Face folders and GGUF files, through transformers."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc_mm import Rotary, sequence
from posenc_mm.scaling import RotarySettings, from_hf
from text.decoder import Decoder, Shape

# What parameters are called there, and here.
OUTER = {"model.embed_tokens.": "embedding.", "model.norm.": "norm.", "lm_head.": "head."}
LAYER = {
    "self_attn.q_proj.": "q.", "self_attn.k_proj.": "k.", "self_attn.v_proj.": "v.",
    "self_attn.o_proj.": "out.", "mlp.gate_proj.": "gate.", "mlp.up_proj.": "up.",
    "mlp.down_proj.": "down.", "input_layernorm.": "norm1.", "post_attention_layernorm.": "norm2.",
}  # fmt: skip
# Logits of the two may differ by this share of the largest: their sums are formed in other orders.
CLOSE = 1e-4


def read_decoder(path: Path) -> tuple[Decoder, RotarySettings, int, Any]:
    """Read a decoder and its tokenizer, and check it against transformers' own.

    Args:
        path: of a folder as ``save_pretrained`` leaves it, or of a GGUF file.

    Returns:
        The decoder in float32, its rotary settings, the length that it was trained on, and the
        tokenizer.

    Raises:
        ValueError: transformers is not installed or cannot read it, or it is of another family.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ValueError(f"{path} is read by transformers: pip install transformers") from error
    where = {"pretrained_model_name_or_path": str(path), "local_files_only": True}
    if path.is_file():
        where |= {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except (OSError, ImportError, KeyError, ValueError) as error:
        raise ValueError(f"transformers cannot read {path}: {error}") from error
    decoder, settings = host(model)
    return decoder, settings, trained_length(model.config), tokenizer


def host(model: Any) -> tuple[Decoder, RotarySettings]:
    """Build a decoder with the weights of a transformers model.

    Args:
        model: a causal language model of the Llama family: root mean square norms before attention
            and a gated perceptron, queries and keys without norms, one rotary encoding for all.

    Returns:
        The decoder, whose logits were compared with the model's, and its rotary settings.

    Raises:
        ValueError: it is of another family, or the logits differ.
    """
    config, state = model.config, model.state_dict()
    named = {_renamed(name): value for name, value in state.items()}
    if _window(config) is not None:
        raise ValueError(
            f"the model must see the whole text in each layer, got a sliding window of "
            f"{_window(config)} tokens"
        )
    missing = {"embedding.weight", "layers.0.gate.weight", "layers.0.q.weight"} - named.keys()
    if missing:
        raise ValueError(
            f"the model must be of the Llama family, {type(model).__name__} has no "
            f"{sorted(missing)}"
        )
    settings = from_hf(config)
    tied = bool(getattr(config, "tie_word_embeddings", False))
    if tied:
        named.pop("head.weight", None)
    shape = _shape(config, settings.head_dim, tied, "layers.0.q.bias" in named)
    decoder = Decoder(shape, rotary=_rotary(settings))
    answer = decoder.load_state_dict(named, strict=False)
    if answer.missing_keys or answer.unexpected_keys:
        raise ValueError(
            f"{type(model).__name__} is of another family: missing {answer.missing_keys[:4]}, "
            f"without a place {answer.unexpected_keys[:4]}"
        )
    decoder.eval()
    _compare(decoder, model)
    return decoder, settings


def trained_length(config: Any) -> int:
    """Tell the length that a model was trained on, before any scaling of its own.

    Args:
        config: of transformers.

    Returns:
        Tokens.
    """
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    own = rope.get("original_max_position_embeddings") if isinstance(rope, dict) else None
    return int(own or config.max_position_embeddings)


def _shape(config: Any, head_dim: int, tied: bool, qkv_bias: bool) -> Shape:
    heads = config.num_attention_heads
    return Shape(
        vocab=config.vocab_size,
        dim=config.hidden_size,
        hidden=config.intermediate_size,
        depth=config.num_hidden_layers,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=head_dim,
        eps=config.rms_norm_eps,
        tied=tied,
        qkv_bias=qkv_bias,
    )


def _rotary(settings: RotarySettings) -> Rotary:
    return Rotary(
        settings.head_dim,
        base=settings.base,
        layout="half",
        rotary_dim=settings.rotary_dim,
        scaling=settings.scaling,
    )


def _window(config: Any) -> int | None:
    if getattr(config, "use_sliding_window", True) is False:
        return None
    return getattr(config, "sliding_window", None)


def _renamed(name: str) -> str:
    for theirs, ours in OUTER.items():
        if name.startswith(theirs):
            return name.replace(theirs, ours)
    new = name.removeprefix("model.")
    for theirs, ours in LAYER.items():
        new = new.replace(f".{theirs}", f".{ours}")
    return new


def _compare(decoder: Decoder, model: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(decoder.shape.vocab, (1, 24), generator=draw)
    with torch.no_grad():
        ours: Tensor = decoder(tokens, sequence(24))
        theirs: Tensor = model(input_ids=tokens).logits
    apart = (ours - theirs).abs().max().item()
    if not apart <= CLOSE * max(1.0, theirs.abs().max().item()):
        raise ValueError(
            f"{type(model).__name__} computes something else than the Llama family: logits differ "
            f"by {apart:.2g}"
        )
