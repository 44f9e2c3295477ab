"""Evidence is well formed, can be made again, and is ranked and doubted by the stated rule."""

import csv
import json
import math
import random
import shlex
from importlib import import_module
from importlib.resources import files
from itertools import count
from pathlib import Path

import pytest

from posenc_mm.choosing import Evidence, Measurement, Situation, Study, choose, judge, load, rank
from posenc_mm.choosing.candidates import OF
from posenc_mm.choosing.ranking import lead

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = load()
# Where each application reads its arguments.
PARSERS = {
    ("vision", "compare"): ("vision.compare", "_parse"),
    ("vision", "resize"): ("vision.resizing.asking", "parse"),
    ("text", "compare"): ("text.compare", "_parse"),
    ("text", "probe"): ("text.probe", "parse"),
    ("text", "extend"): ("text.stretching.asking", "parse"),
    ("timeseries", "compare"): ("timeseries.compare", "_parse"),
    ("timeseries", "forecast"): ("timeseries.forecasting.asking", "parse"),
    ("multimodal", "compare"): ("multimodal.compare", "parse"),
}


def made(cells, better="lower", seeds=3, modality="text", baselines=(), causal="", parameters=1000):
    """Evidence of one study: encoding -> [(setting, mean, std), ...]."""
    study = Study(
        "made", modality, "encodings", causal, "made.csv", f"python -m {modality} compare",
        "2026-01-01", "a machine", "versions", baselines, "A made study", "Nothing is real.",
    )  # fmt: skip
    rows = [
        Measurement("made", "data", name, f"{setting} {n}", setting, "loss", better, mean, std,
                    None, seeds, parameters)
        for name, values in cells.items()
        for n, (setting, mean, std) in enumerate(values)
    ]  # fmt: skip
    return Evidence((study,), tuple(rows))


def test_what_is_shipped_is_read_with_the_package_and_small():
    folder = files("posenc_mm.choosing") / "evidence"
    names = {item.name for item in folder.iterdir()}
    assert names == {"studies.csv", *(study.file for study in SHIPPED.studies)}
    assert all(len((folder / name).read_bytes()) < 20_000 for name in names)
    lines = sum(len((folder / name).read_text("utf-8").splitlines()) - 1 for name in names)
    assert lines == len(SHIPPED.rows) + len(SHIPPED.studies)


def test_every_row_says_what_it_must():
    names = [study.study for study in SHIPPED.studies]
    assert len(set(names)) == len(names)
    assert {study.modality for study in SHIPPED.studies} >= {"text", "images", "series", "stream"}
    for study in SHIPPED.studies:
        rows = SHIPPED.of(study)
        assert rows and len({(row.metric, row.better) for row in rows}) == 1
        assert len({(row.encoding, row.condition) for row in rows}) == len(rows)
        assert set(study.baselines) <= {row.encoding for row in rows}
        assert all((study.command, study.date, study.machine, study.what, study.limits))
        for row in rows:
            assert row.setting in {"trained", "longer", "larger", "rates", "lost"}
            assert row.mean is None or (math.isfinite(row.mean) and row.mean > 0)
            assert (row.std is None) or (row.seeds > 1 and row.std >= 0)
            assert row.seeds < 2 or row.std is not None or row.mean is None
            if row.metric.startswith(("accuracy", "share")) and row.mean is not None:
                assert row.mean <= 1


def test_what_may_be_advised_has_the_names_under_which_it_was_measured():
    known = {}
    for path in (ROOT / "configs").glob("*/encodings/*.yaml"):
        known.setdefault(path.parts[-3], set()).add(path.stem)
    for modality, app in (("text", "text"), ("images", "vision"), ("series", "timeseries")):
        for one in OF[modality]:
            assert set(one.name.split("+")) <= known[app]


def parse(command):
    """Have the application itself read a command."""
    words = shlex.split(command)
    assert words[:2] == ["python", "-m"]
    app, subcommand, *rest = words[2:]
    if (app, subcommand) in PARSERS:
        pytest.importorskip("lightning")
        module, name = PARSERS[app, subcommand]
        return getattr(import_module(module), name)(rest)
    if app == "posenc_mm":
        return import_module("posenc_mm.__main__").parser().parse_args([subcommand, *rest])
    assert subcommand in ("fit",) and rest[0] == "-c" and (ROOT / rest[1]).is_file()
    return None


@pytest.mark.parametrize("study", SHIPPED.studies, ids=lambda study: study.study)
def test_each_command_that_made_a_study_is_one_of_its_application(study, monkeypatch):
    monkeypatch.chdir(ROOT)
    parse(study.command)
    with pytest.raises(SystemExit):
        parse(f"python -m {shlex.split(study.command)[2]} compare --nothing-like-this")


@pytest.mark.parametrize(
    "situation",
    [
        Situation("text", causal=True),
        Situation("text", length="growing", pretrained="rotary"),
        Situation("images"),
        Situation("images", grid="changes", pretrained="learned"),
        Situation("series"),
        Situation("series", times="irregular"),
        Situation("stream"),
        Situation("video"),
    ],
)
def test_the_next_commands_are_commands(situation, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = choose(situation).next
    assert commands
    for command in commands:
        parse(command)
    finding = import_module("posenc_mm.catalogue.finding")
    for one in choose(situation).recommended:
        assert finding.find(one.explain)


def test_a_made_lead_is_advised_and_the_usual_advice_contradicted():
    values = {"rope": 3.0, "alibi": 3.5, "sinusoidal": 1.0, "learned": 4.0}
    evidence = made({name: [("trained", mean, 0.01)] for name, mean in values.items()})
    advice = choose(Situation("text", causal=True), evidence)
    assert advice.recommended[0].name == "sinusoidal"
    assert len(advice.recommended) == 1, "no other advice is left that nothing speaks against"
    verdicts = {each.classic.options: each.judgements[0].verdict for each in advice.classic}
    assert verdicts[("learned",)] == "contradicts" and verdicts[("rope", "t5")] == "contradicts"
    assert verdicts[("sinusoidal",)] == "agrees"
    said = next(e.judgements[0].words for e in advice.classic if e.classic.options == ("learned",))
    assert "learned 4.00 against sinusoidal 1.00" in said
    turned = choose(Situation("text", causal=True), made(
        {name: [("trained", mean, 0.01)] for name, mean in values.items()}, better="higher"
    ))  # fmt: skip
    assert turned.recommended[0].name == "learned"


def test_a_tie_is_said_to_be_one_and_the_usual_advice_is_taken():
    cells = {"alibi": [("trained", 2.0, 0.2)], "learned": [("trained", 2.1, 0.2)]}
    cells["rope"] = [("trained", 3.0, 0.2)]
    advice = choose(Situation("text", causal=True), made(cells))
    assert [one.name for one in advice.recommended] == ["learned", "alibi"]
    assert advice.measured[0].leaders == ("alibi", "learned")
    assert any("cannot be told apart: alibi 2.00, learned 2.10" in r
               for r in advice.recommended[0].why)  # fmt: skip
    assert judge(advice.measured[0], ["learned"]).verdict == "tied"
    apart = {name: [(s, m, 0.05) for s, m, _ in rows] for name, rows in cells.items()}
    assert choose(Situation("text", causal=True), made(apart)).measured[0].leaders == ("alibi",)


def test_conditions_beyond_count_where_they_are_asked_for_only():
    cells = {
        "rope": [("trained", 1.0, 0.01), ("longer", 9.0, 0.01)],
        "alibi": [("trained", 2.0, 0.01), ("longer", 2.0, 0.01)],
        "learned": [("trained", 0.5, 0.01), ("longer", None, None)],
    }
    fixed = choose(Situation("text", causal=True), made(cells))
    growing = choose(Situation("text", length="growing", causal=True), made(cells))
    assert fixed.recommended[0].name == "learned"
    assert growing.recommended[0].name == "alibi"
    assert growing.measured[0].standings[-1].encoding == "learned"
    assert dict(growing.left_out).keys() == {"learned"}


@pytest.mark.parametrize(("seeds", "words"), [(1, "one seed each"), (0, "nothing was repeated")])
def test_thin_evidence_is_said_and_the_usual_advice_kept_beside_it(seeds, words):
    cells = {"sinusoidal": [("trained", 1.0, None)], "learned": [("trained", 5.0, None)]}
    advice = choose(Situation("text", causal=True), made(cells, seeds=seeds))
    assert [one.name for one in advice.recommended] == ["sinusoidal", "learned"]
    assert any(words in sentence and "1,000 parameters" in sentence for sentence in advice.thin)
    assert judge(advice.measured[0], ["learned"]).verdict == "unsure"
    assert "may be chance" in judge(advice.measured[0], ["learned"]).words
    assert "chance cannot be ruled out" in lead(advice.measured[0])
    assert not advice.measured[0].certain
    few = choose(Situation("text", causal=True), made({"rope": [("trained", 1.0, 0.1)]}, seeds=2))
    assert any("2 seeds, which is few" in sentence for sentence in few.thin)
    many = choose(Situation("text", causal=True), made({"rope": [("trained", 1.0, 0.1)]}, seeds=9))
    assert any("9 seeds;" in sentence for sentence in many.thin)


def test_without_evidence_the_usual_advice_is_taken_and_that_is_said():
    advice = choose(Situation("text", causal=True), Evidence((), ()))
    assert advice.recommended[0].name == "learned"
    assert advice.thin[0].startswith("Nothing was measured here")
    other = choose(Situation("text"), made({"sinusoidal": [("trained", 1.0, 0.1)]}))
    assert other.recommended[0].name == "learned", "causal models decide nothing for others"
    assert other.measured[0].near and "not your case" not in other.recommended[0].why[0]
    assert other.thin[0].startswith("Nothing that was measured is of your case")


def test_baselines_never_lead_but_are_named_where_they_are_ahead():
    cells = {"ridge": [("trained", 0.1, None)], "rope": [("trained", 1.0, 0.1)]}
    advice = choose(Situation("text", causal=True), made(cells, baselines=("ridge",)))
    assert advice.measured[0].leaders == ("rope",) and advice.measured[0].certain
    assert any("ahead of what can be advised here: ridge." in s for s in advice.thin)


def test_ranks_and_ties_are_those_of_plain_loops():
    draw = random.Random(0)
    tied = 0
    for better in ["higher", "lower"] * 20:
        names = ["rope", "alibi", "t5", "sinusoidal"]
        cells = {
            name: [(s, draw.uniform(0.1, 1), draw.uniform(0, 0.4)) for s in ("trained", "longer")]
            for name in names
        }
        evidence = made(cells, better=better)
        ranking = rank(evidence, evidence.studies[0], {"trained", "longer"}, names[:3])
        means = {name: sum(m for _, m, _ in rows) / 2 for name, rows in cells.items()}
        order = sorted(names, key=means.get, reverse=better == "higher")
        assert [standing.encoding for standing in ranking.standings] == order
        best = next(name for name in order if name != "sinusoidal")
        variance = {name: sum(s * s for _, _, s in rows) / 2 for name, rows in cells.items()}
        close = [
            name for name in order if name in names[:3]
            and abs(means[name] - means[best]) <= math.sqrt((variance[name] + variance[best]) / 2)
        ]  # fmt: skip
        assert list(ranking.leaders) == close
        tied += len(close) > 1
    assert 0 < tied < 40


def test_the_shipped_tables_are_made_again_from_runs_and_pages(tmp_path):
    evidence = import_module("benchmarks.evidence")
    folder = tmp_path / "runs" / "text" / "compare-stdlib"
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "rope-0.json").write_text(json.dumps({"train_length": 8}))
    (folder / "results.md").write_text("# x\n\nMade by `python -m text compare --seeds 2`.\n")
    losses = count(1)
    lines = ["encoding,seed,length,loss,perplexity,bits_per_byte,tokens,seconds,parameters,refusal"]
    lines += [
        f"{name},{seed},{length},0,0,{'' if (name, length) == ('learned', 16) else next(losses)},"
        "9,1.0,77,"
        for name in ("rope", "learned") for seed in (0, 1) for length in (8, 16)
    ]  # fmt: skip
    (folder / "results.csv").write_text("\n".join(lines) + "\n")
    evidence.main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    again = load(tmp_path / "out")
    study = next(study for study in again.studies if study.study == "python")
    assert study.command == "python -m text compare --seeds 2"
    found = {(r.encoding, r.condition): (r.mean, r.std, r.seeds) for r in again.of(study)}
    assert found["rope", "8"] == (2.0, pytest.approx(2**0.5, rel=1e-5), 2)  # of 1 and 3
    assert found["rope", "16"] == (3.0, pytest.approx(2**0.5, rel=1e-5), 2)
    assert found["learned", "16"] == (None, None, 2)
    assert {r.parameters for r in again.of(study)} == {77}
    # Pages do not change by being read: what is shipped is what they say.
    for shipped in SHIPPED.studies:
        if shipped.machine.startswith("as "):
            page = next(study for study in again.studies if study.study == shipped.study)
            assert again.of(page) == SHIPPED.of(shipped) and page.command == shipped.command


@pytest.mark.parametrize(
    ("page", "study", "encoding", "condition", "shown"),
    [
        ("timeseries/README.md", "victoria", "civil", "all windows", "**.1530**"),
        ("timeseries/README.md", "victoria", "utc", "across a clock change", ".1495"),
        ("vision/README.md", "cifar10", "axial_rope", "64 px", "28.8"),
        ("text/EXTEND.md", "stories", "search", "2048", "2.067 ± 0.014"),
        ("text/EXTEND.md", "war_and_peace", "none", "16384", "7.280"),
    ],
)
def test_numbers_of_pages_are_those_of_the_pages(page, study, encoding, condition, shown):
    row = next(
        row for row in SHIPPED.rows
        if (row.study, row.encoding, row.condition) == (study, encoding, condition)
    )  # fmt: skip
    assert f"| {shown} |" in (ROOT / page).read_text("utf-8")
    value = float(shown.strip("*").split(" ± ")[0])
    assert row.mean == pytest.approx(value / (100 if study == "cifar10" else 1))
    assert row.seeds == {"cifar10": 1, "stories": 3}.get(study, 0)


def test_rows_of_unknown_studies_are_refused(tmp_path):
    for name in ("studies.csv", "text.csv"):
        text = (files("posenc_mm.choosing") / "evidence" / name).read_text("utf-8")
        (tmp_path / name).write_text(text)
    with (tmp_path / "studies.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["study"] == "python"]
    with (tmp_path / "studies.csv").open("w") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    with pytest.raises(ValueError, match="every row must be of a study"):
        load(tmp_path)
