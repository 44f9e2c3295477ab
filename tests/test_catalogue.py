"""The catalogue says of each encoding what papers and mathematics say."""

import inspect
import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import posenc_mm
from posenc_mm import presets, scaling, streams
from posenc_mm.catalogue import entries, find
from posenc_mm.catalogue.explaining import explain
from posenc_mm.catalogue.listing import markdown, records, text
from posenc_mm.placed import Placed

ROOT = Path(__file__).resolve().parents[1]
EVERY = entries()
BY_NAME = {(each.group in ("preset", "design"), each.name): each for each in EVERY}
OWN = [each for each in EVERY if each.group in ("additive", "rotary", "bias")]

# As the papers and their codes have it.
YEARS = {
    "Sinusoidal": 2017,
    "Learned": 2021,
    "Fourier": 2020,
    "Time2Vec": 2019,
    "Rotary": 2021,
    "MixedRotary": 2024,
    "XPos": 2022,
    "LieRE": 2024,
    "ALiBi": 2022,
    "T5Bias": 2020,
    "RelativeBias": 2018,
    "ContinuousBias": 2022,
    "TransformerXLBias": 2019,
    "DeBERTaBias": 2021,
    "Conditional": 2023,
}
RELATIVE = {
    "Sinusoidal": False,
    "Learned": False,
    "Seasonal": False,
    "Calendar": False,
    "Conditional": True,
    "Rotary": True,
    "MixedRotary": True,
    "CayleySTRING": True,
    "LieRE": False,
    "XPos": True,
    "TimeRotary": True,
    "ALiBi": True,
    "T5Bias": True,
    "TransformerXLBias": True,
}
BEYOND = {
    "Sinusoidal": "yes",
    "Learned": "rescaled",
    "WindowedLearned": "rescaled",
    "Rotary": "yes",
    "ALiBi": "yes",
    "T5Bias": "alike",
    "ShawBias": "alike",
    "ERPE": "alike",
    "Holidays": "no",  # of moments a day is not far: after its years they are refused
    "Calendar": "yes",
    "LearnedSeasonal": "yes",
    "IRPE": "alike",
    "RelativeBias": "rescaled",
    "ContinuousBias": "yes",
    "Sum": "parts",
}
LEARNED = {
    "Sinusoidal": "no",
    "Learned": "yes",
    "Fourier": "no",
    "LearnedFourier": "yes",
    "Rotary": "no",
    "MixedRotary": "yes",
    "ALiBi": "no",
    "LearnedALiBi": "yes",
    "T5Bias": "yes",
    "Concat": "parts",
    "Projected": "yes",
    "Holidays": "no",
}
AXES = {
    "Sinusoidal": (1, 2, 3, 4),
    "Rotary": (1, 2, 3, 4),
    "ALiBi": (1, 2, 3, 4),
    "Conditional": (1, 2, 3),
    "WindowedLearned": (2, 4),
    "T5Bias": (1,),
    "XPos": (1,),
    "TimeRotary": (1,),
    "OnCalendar": (1,),
    "DeBERTaBias": (1,),
    "Product": (1, 2, 3, 4),
    "RelativeBias": (1, 2, 3, 4),
}
ACTS_ON = {
    "Sinusoidal": "tokens",
    "Conditional": "neighbours",
    "Rotary": "rotation",
    "ALiBi": "logits",
    "ShawBias": "contents",
}


def one(name):
    return BY_NAME[False, name]


def test_every_public_encoding_is_listed_once():
    kinds = (
        posenc_mm.AdditiveEncoding,
        posenc_mm.ConditionalEncoding,
        posenc_mm.RotaryEncoding,
        posenc_mm.AttentionBias,
        posenc_mm.ContextualBias,
    )
    public = [getattr(posenc_mm, name) for name in posenc_mm.__all__]
    wanted = [c for c in public if isinstance(c, type) and issubclass(c, kinds) and c not in kinds]
    assert sorted(each.name for each in OWN) == sorted(c.__name__ for c in wanted)
    assert len(OWN) >= 38


def test_scalings_presets_and_designs_are_listed():
    names = {group: {e.name for e in EVERY if e.group == group} for group in ("scaling", "preset")}
    methods = {"Unscaled", "Linear", "NTK", "DynamicNTK", "NTKByParts", "YaRN", "DynamicYaRN"}
    methods |= {"Llama3", "LongRoPE", "PerPair", "Proportional", "Resonance", "RIFLEx", "PerAxis"}
    assert names["scaling"] == methods
    assert names["preset"] == set(presets.__all__)
    designs = [each for each in EVERY if each.group == "design"]
    called = {name for each in designs for name in (each.name, *each.aliases)}
    assert {"qwen2_vl", "ilrope", "omnirope", "mrope_i", "v2pe", "lumina2", "cosmos3"} <= called
    assert "layout" not in called and called <= set(streams.__all__)
    assert len({(each.group, each.name) for each in EVERY}) == len(EVERY)


@pytest.mark.parametrize(("name", "year"), YEARS.items())
def test_the_year_of_the_first_paper(name, year):
    assert one(name).doc.references[0].years[0] == year


@pytest.mark.parametrize(("name", "on"), ACTS_ON.items())
def test_where_it_acts(name, on):
    assert one(name).acts_on == on


def test_what_acts_after_the_softmax_is_not_said_to_be_added_to_logits():
    assert "acts on   the attention weights, after the softmax" in explain(one("ERPE"))
    title, *rows = text([one("ERPE"), one("ALiBi")]).split("\n\n")[1].splitlines()
    assert title == "Added to the attention weights, after the softmax (slot: bias)"
    assert [row.split()[0] for row in rows] == ["name", "ERPE"]


@pytest.mark.parametrize(("name", "moves"), RELATIVE.items())
def test_relative_or_absolute(name, moves):
    assert one(name).traits.relative is moves


@pytest.mark.parametrize(("name", "far"), BEYOND.items())
def test_what_becomes_of_far_positions(name, far):
    assert one(name).traits.beyond == far


@pytest.mark.parametrize(("name", "learns"), LEARNED.items())
def test_learned_or_not(name, learns):
    assert one(name).traits.learned == learns


@pytest.mark.parametrize(("name", "axes"), AXES.items())
def test_axes(name, axes):
    assert one(name).traits.axes == axes


def test_of_presets_the_turning_of_vjepa2_alone_is_not_relative():
    """Its pairs of channels turn by two angles each, so that lengths and scores change."""
    turning = [e for e in EVERY if e.group == "preset" and e.acts_on == "rotation"]
    assert len(turning) > 20
    assert [each.name for each in turning if not each.traits.relative] == ["vjepa2"]


def test_measuring_draws_no_numbers_of_the_callers():
    before = torch.random.get_rng_state()
    fresh = find("MixedRotary")[0]
    assert fresh.traits.learned == "yes"
    assert torch.equal(torch.random.get_rng_state(), before)
    started = find("T5Bias")[0]
    weight = started.made.weight.clone()
    assert started.traits.relative and torch.equal(started.made.weight, weight)


def test_the_list_fits_a_terminal_and_names_everything():
    lines = text(EVERY).splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line.split() for line in lines if line.startswith("  ")]
    assert {each.name for each in EVERY} <= {row[0].rstrip(",") for row in rows if row}
    (row,) = (row for row in rows if row[0] == "ALiBi")
    assert row == [
        "ALiBi",
        "any",
        "no",
        "relative",
        "yes",
        "Press",
        "et",
        "al.",
        "2022,",
        "others",
        "2023",
    ]


def test_the_scalings_that_keep_caches_right():
    lines = {line.split()[0]: line.split() for line in text(EVERY).splitlines() if line.strip()}
    kept = {n: lines[n][1:3] for n in ("Linear", "YaRN", "DynamicNTK", "DynamicYaRN", "PerAxis")}
    assert kept == {
        "Linear": ["yes", "no"],
        "YaRN": ["yes", "yes"],
        "DynamicNTK": ["no", "no"],
        "DynamicYaRN": ["no", "yes"],
        "PerAxis": ["no", "no"],
    }


def test_records_are_for_programs():
    rows = json.loads(json.dumps(records(EVERY)))
    assert len(rows) == len(EVERY)
    rotary = next(row for row in rows if row["name"] == "Rotary")
    assert rotary["axes"] == [1, 2, 3, 4] and rotary["relative"] is True
    assert rotary["years"] == [2021, 2024] and rotary["slot"] == "rotary"
    assert rotary["papers"][0]["url"] == "https://arxiv.org/abs/2104.09864"
    assert all((ROOT / row["file"]).is_file() for row in rows)
    flux = next(row for row in rows if row["group"] == "design" and row["name"] == "flux2")
    assert flux["axes"] == [4]


def test_the_table_of_the_readme_is_the_list():
    rows = re.findall(r"^\| `\w+` \|.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(rows) == sorted(markdown(EVERY).splitlines()[2:])


@pytest.mark.parametrize("entry", EVERY, ids=lambda each: each.full_name)
def test_examples_make_what_they_are_of(entry):
    if inspect.isclass(entry.target):
        assert type(entry.made) is entry.target
    elif entry.group == "preset":
        assert isinstance(entry.made, Placed) and isinstance(entry.encoding, nn.Module)
    else:
        assert isinstance(entry.made, streams.Layout)
    assert entry.years and all(1970 < year < 2100 for year in entry.years)
    assert entry.doc.summary.endswith(".")


def test_a_name_is_found_in_any_case_and_a_wrong_one_has_neighbours():
    assert [each.target for each in find("alibi")] == [posenc_mm.ALiBi]
    assert [each.target for each in find("posenc_mm.Rotary")] == [posenc_mm.Rotary]
    assert find("YARN")[0].target is scaling.YaRN
    assert find("omnirope")[0].name == "mrope_i"
    both = find("qwen2_vl")
    assert [each.full_name for each in both] == ["presets.qwen2_vl", "streams.qwen2_vl"]
    assert find("streams.qwen2_vl") == (both[1],)
    with pytest.raises(ValueError, match="got 'sinusoid'.*Sinusoidal"):
        find("sinusoid")
    with pytest.raises(ValueError, match="Rotary"):
        find("rope")
    with pytest.raises(ValueError, match="got 'zzzz'$"):
        find("zzzz")
