"""Decoders of Hugging Face in our host: equal logits, and other families refused."""

import pytest
import torch

from posenc_mm import sequence
from posenc_mm.scaling import YaRN
from text import checkpoints_hf
from text.checkpoints import open_checkpoint

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 41, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 64,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}  # fmt: skip


def model_of(kind, **changed):
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **changed})
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.double().eval()


CASES = {
    "llama": ("Llama", {}),
    "wide heads": ("Llama", {"head_dim": 10}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "yarn": ("Llama", {"rope_parameters": YARN}),
    "qwen2": ("Qwen2", {"use_sliding_window": False}),
    "mistral": ("Mistral", {"sliding_window": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case):
    kind, changed = CASES[case]
    model = model_of(kind, **changed)
    decoder, settings = checkpoints_hf.host(model.float())
    tokens = torch.randint(41, (2, 19))
    with torch.no_grad():
        found = decoder.double()(tokens, sequence(19).double())
        wanted = model.double()(input_ids=tokens).logits
    # Speeds are float32 there: what is left is their rounding.
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)
    assert isinstance(settings.scaling, YaRN) is (case == "yarn")
    assert checkpoints_hf.trained_length(model.config) == (16 if case == "yarn" else 64)


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        ("GPTNeoX", {}, "has no"),
        ("Qwen3", {"head_dim": 8}, "without a place"),
        ("Mistral", {"sliding_window": 8}, "sliding window of 8"),
        ("Llama", {"hidden_act": "gelu"}, "logits differ"),
    ],
)
def test_other_families_are_refused(kind, changed, said):
    with pytest.raises(ValueError, match=said):
        checkpoints_hf.host(model_of(kind, **changed).float())


def test_a_folder_is_opened_with_its_tokenizer(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    model_of("Llama").float().save_pretrained(tmp_path)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "cat": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(
        tmp_path
    )
    opened = open_checkpoint(tmp_path)
    assert opened.encode("a cat sat") == [1, 2, 0]
    assert (opened.length, opened.layout) == (64, "half")
    assert open_checkpoint(tmp_path, length=32).length == 32
    with pytest.raises(ValueError, match="tokenizer comes with"):
        open_checkpoint(tmp_path, tokenizer=tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot read"):
        open_checkpoint(tmp_path)
