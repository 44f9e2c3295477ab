"""Every situation has advice that runs, and what is ruled out is ruled out by the library."""

import contextlib
import io
from itertools import product

import pytest
import torch

import posenc_mm as pm
import posenc_mm.scaling
from posenc_mm.attention import explain
from posenc_mm.choosing import QUESTIONS, Situation, candidates, choose, load, trained
from posenc_mm.choosing.loaded import on_loaded
from posenc_mm.choosing.ranking import number
from posenc_mm.choosing.situation import MODALITIES
from posenc_mm.choosing.snippets import python
from posenc_mm.choosing.telling import text

FIELDS = [question.field for question in QUESTIONS[1:]]
ANSWERS = [[question.value(answer) for answer, _ in question.answers] for question in QUESTIONS[1:]]
EVIDENCE = load()


def situations(modality):
    """All that may be asked about a modality; the others are errors."""
    for values in product(*ANSWERS):
        with contextlib.suppress(ValueError):
            yield Situation(modality, **dict(zip(FIELDS, values, strict=True)))


def run(program):
    scope = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(program, "snippet", "exec"), scope)
    return scope


def test_each_field_is_asked_of_the_modalities_that_have_it():
    count = {modality: sum(1 for _ in situations(modality)) for modality in MODALITIES}
    # pretrained x (causal and cache: three) x kernels, times what each modality has more.
    assert count == {"text": 72, "images": 72, "series": 144, "video": 288, "stream": 288}


@pytest.mark.parametrize("modality", MODALITIES)
def test_every_situation_has_advice_that_runs(modality):
    seen = set()
    for situation in situations(modality):
        advice = choose(situation, EVIDENCE)
        assert 1 <= len(advice.recommended) <= 2
        assert len({one.name for one in advice.recommended}) == len(advice.recommended)
        assert not {one.name for one in advice.recommended} & {name for name, _ in advice.left_out}
        for one in advice.recommended:
            assert one.why and one.title and one.explain
            assert ("cache=cache" in one.python) == situation.kv_cache
            kept = any("has to give way" in reason for reason in one.why)
            assert ("explain(" in one.python) == (situation.kernel != "any" and not kept)
            assert ("larger" in one.python.lower()) >= situation.beyond
            # Blocks read what the first one after the imports makes, and nothing of each other.
            made, *blocks = one.python.partition("\n\nmodel = ")[2].split("\n\n")
            pairs = {(made, block) for block in ("", *blocks)}
            if pairs <= seen:
                continue
            seen |= pairs
            check(situation, one, run(one.python))
    assert len(seen) >= 10


def check(situation, one, scope):
    model = scope["model"]
    assert isinstance(model, pm.Transformer) and model.causal == situation.causal
    slots = [model.additive, model.rotary, model.bias]
    assert any(slot is not None for slot in slots)
    axes = scope["positions"].shape[-1]
    of_tokens = {"text": 1, "images": 2, "video": 3, "series": 1, "stream": 3}[situation.modality]
    table = situation.pretrained in ("learned", "bias")
    assert axes == of_tokens or (table and situation.modality == "stream")
    if situation.beyond and "larger" in scope:
        assert scope["larger"].shape[-2] > scope["positions"].shape[-2]
    if situation.kv_cache:
        assert scope["cache"].keys[0].shape[-2] == scope["positions"].shape[-2]
    if "how" in scope:
        allowed = {"flash": {"sdpa", "factors"}, "flex": {"flex"}}[situation.kernel]
        assert scope["how"].backend in allowed
    if situation.times == "irregular" and situation.pretrained == "no":
        times = scope["positions"].double()[..., 0].flatten().unique()
        assert len(times.diff().round(decimals=4).unique()) > 1, "times are irregular"


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("kernel", ["flash", "flex"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_kernel_rules_out_what_the_attention_refuses_and_nothing_else(modality, kernel, causal):
    situation = Situation(modality, kernel=kernel, causal=causal)
    for one in candidates.OF[modality]:
        plain = Situation(modality, causal=causal)
        scope = run(python(one, plain))
        bias, positions = scope["model"].bias, scope["positions"]
        q = torch.randn(1, 4, positions.shape[-2], 24)
        backend = "flex" if kernel == "flex" else "sdpa" if bias is None else "factors"
        given = {"bias": bias, "q_positions": positions} if bias is not None else {}
        given |= {"causal": True, "ordered": True} if causal else {}
        try:
            with torch.no_grad():
                explain(q, q, q, backend=backend, **given)
            refused = False
        except ValueError:
            refused = True
        assert bool(one.refusal(situation)) == refused, one.name


def test_a_cache_rules_out_the_scalings_whose_keys_do_not_stay_right():
    situation = Situation(
        "text", length="growing", pretrained="rotary", causal=True, kv_cache=True
    )  # fmt: skip
    for one in trained.SCALINGS:
        made = one.parts(situation)["rotary"].arguments["scaling"].python()
        scaling = eval(made, vars(pm.scaling))
        speeds = {scaling.frequencies(24, length=length) for length in (5000, 9000)}
        assert bool(trained.refusal(one, situation)) == (len(speeds) > 1), one.name
    assert dict(choose(situation).left_out).keys() == {"dynamic"}
    again = choose(Situation("text", length="growing", pretrained="rotary", causal=True))
    assert not again.left_out


@pytest.mark.parametrize("modality", ["text", "series", "video"])
def test_a_table_is_ruled_out_where_inputs_grow_as_it_cannot_read_them(modality):
    growing = Situation(modality, length="growing")
    (table,) = (one for one in candidates.OF[modality] if one.name == "learned")
    assert table.refusal(growing) and not table.refusal(Situation(modality))
    scope = run(python(table, Situation(modality)))
    far = scope["positions"] + 50
    with pytest.raises(ValueError, match="must lie from"):
        scope["model"](scope["tokens"], far)


def test_text_fits_a_hundred_columns_and_says_all_parts():
    for modality in MODALITIES:
        for situation in situations(modality):
            advice = choose(situation, EVIDENCE)
            lines = text(advice).splitlines()
            assert max(map(len, lines)) <= 100, situation
            for part in ("What is usually said, and what was measured", "Measured", "Next"):
                assert part in lines
            for one in advice.recommended:
                assert f"Python: {one.name}" in lines and f"YAML: {one.name}" in lines
            assert any(line.startswith("Take: ") for line in lines)


def test_numbers_are_written_with_three_digits():
    shown = [number(value) for value in (2.0, 0.15304, 12.345, 7.28, 0.0000694556, 123.4, None)]
    assert shown == ["2.00", "0.153", "12.3", "7.28", "0.00006946", "123", "-"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("modality", "sound", "modality must be one of text, images"),
        ("grid", "changes", "grid is asked of images, video, stream only"),
        ("times", "irregular", "times is asked of"),
        ("pretrained", "yes", "pretrained must be one of no, rotary, learned, bias"),
        ("kernel", "triton", "kernel must be one of any, flash, flex"),
        ("causal", "no", "causal must be true or false"),
        ("kv_cache", True, "kv_cache needs a causal model"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_so(field, value, message):
    with pytest.raises(ValueError, match=message):
        Situation(**{"modality": "text", field: value})


def test_loaded_models_take_what_is_advised():
    pytest.importorskip("timm")
    transformers = pytest.importorskip("transformers")
    from posenc_mm.scaling import NTK, YaRN

    grown = Situation("text", length="growing", pretrained="rotary", causal=True)
    for one, scaling in zip(trained.SCALINGS, (YaRN(4.0, 4096), NTK(4.0)), strict=False):
        model = run(on_loaded(one, grown))["model"]
        assert isinstance(model, transformers.LlamaForCausalLM)
        assert f"Scaled({scaling}" in repr(model.model.rotary_emb.posenc)
    larger = choose(Situation("images", grid="changes", pretrained="learned"))
    grids = [tuple(run(one.loaded)["vit"].patch_embed.grid_size) for one in larger.recommended]
    assert sorted(grids) == [(12, 12), (18, 18)]


def test_where_inputs_grow_no_baseline_is_advised_that_reads_no_further():
    """Sines of positions that no training saw: measured last of all, on text and on pictures."""
    growing = [
        Situation("text", length="growing", kernel="flash"),
        Situation("video", length="growing"),
        Situation("video", grid="changes"),
    ]
    for situation in growing:
        advice = choose(situation, EVIDENCE)
        assert "sinusoidal" not in {one.name for one in advice.recommended}
        assert any("sinusoidal" in each.classic.advice for each in advice.classic), "but it is told"


def test_what_is_nearby_orders_the_usual_advice_where_nothing_else_was_measured():
    names = {
        length: [one.name for one in choose(Situation("text", length=length), EVIDENCE).recommended]
        for length in ("fixed", "growing")
    }
    assert names == {"fixed": ["rope", "learned"], "growing": ["alibi", "rope"]}


def test_who_leads_only_among_what_fits_is_said_to():
    advice = choose(Situation("text", length="growing", kernel="flash"), EVIDENCE)
    shown = text(advice)
    assert "Leads by more than chance of what fits here: rope" in " ".join(shown.split())
    assert "lower is better; * leads of what fits here" in shown
    whole = text(choose(Situation("text", length="growing", causal=True), EVIDENCE))
    assert "lower is better; * leads\n" in whole and "what fits here" not in whole
    assert "lower is better; not repeated, so none leads\n" in whole


def test_rotary_that_is_read_further_is_stretched():
    (rope,) = choose(Situation("text", length="growing", kernel="flash"), EVIDENCE).recommended
    model = run(rope.python)["model"]
    assert "scaling=YaRN(factor=2.0, original_length=12" in repr(model.rotary)


def test_a_trained_rotation_on_other_sizes_is_advised_by_those_who_do_so():
    """EVA-02 rescales positions to the trained grid; RoPE-ViT lets them go on."""
    situation = Situation("images", grid="changes", pretrained="rotary")
    said = {each.classic.options: each.classic.source for each in choose(situation).classic}
    assert "2303.11331" in said[("rescaled",)] and "2403.13298" in said[("none",)]


def test_a_resized_table_of_a_text_has_to_be_trained_on():
    (one,) = choose(Situation("text", length="growing", pretrained="learned")).recommended
    assert any("train on" in reason for reason in one.why)
