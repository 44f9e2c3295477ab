"""Every YAML that is shipped is parsed and built; what is left open is filled in from the data."""

import os
import shlex
import sys
from itertools import pairwise, permutations
from pathlib import Path

import pytest
import torch
import yaml

pytest.importorskip("lightning")
import timeseries.filling
from posenc_mm import ALiBi, Holidays, Learned, Seasonal, Time2Vec, TimeRotary
from posenc_mm.frequencies import tape
from posenc_mm.timestamps.seasons import Season
from timeseries.cli import build, main
from timeseries.data import Batch

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs" / "timeseries"
BASES = sorted(CONFIGS.glob("*.yaml"))
NETWORKS = sorted((CONFIGS / "networks").glob("*.yaml"))
OVERLAYS = sorted((CONFIGS / "encodings").glob("*.yaml"))
PATCHES = CONFIGS / "networks" / "patches.yaml"
SLOTS = {
    path.stem: tuple(
        slot
        for slot in ("additive", "rotary", "bias")
        if yaml.safe_load(path.read_text())["model"].get(slot)
    )
    for path in OVERLAYS
}
QUIET = ["--trainer.logger=false", "--trainer.callbacks=null"]
MADE = ["--data=made_series.Made", "--data.lookback=24", "--data.horizon=6"]
STACKS = [["calendar", "rope_seasons", "decay_time"], ["learned", "rope_rows"]]


def stem(path):
    return path.stem


@pytest.fixture
def seasons(monkeypatch):
    """What is found, to be changed, and the rows that were looked at."""
    found, looked = {"day": 6, 44_714.0: 1}, []

    def find(values, axis):
        looked.append((tuple(values.shape), axis.isoformat()[-1]))
        return [Season(name, 0.0, count, 0.5, 0.9, "some") for name, count in found.items()]

    monkeypatch.setattr(timeseries.filling, "find_seasons", find)
    return found, looked


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A table for the base that needs one."""
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    stamps = (
        f"2024-{1 + d // 28:02d}-{1 + d % 28:02d}T{h:02d}:00" for d in range(40) for h in range(24)
    )
    lines = (f"{stamp},{row % 24 + 0.1 * (row % 7)}" for row, stamp in enumerate(stamps))
    path.write_text("\n".join(["time,load", *lines]))
    return path


def words_of(base, file):
    if base.stem not in ("seattle", "table") and not os.environ.get("POSENC_MM_DATA"):
        pytest.skip("POSENC_MM_DATA is not set")
    return ["-c", base, *([f"--data.path={file}"] if base.stem == "table" else [])]


def overlay(name):
    return ["-c", CONFIGS / "encodings" / f"{name}.yaml"]


def built(*words):
    return build([str(word) for word in [*words, *QUIET]])


def module(*words):
    return built(*words).model


def check(cli, names):
    model, data = cli.model.eval(), timeseries.filling.read(cli.config.data)
    filled = {slot for slot in ("additive", "rotary", "bias") if model.encodings[slot] != "none"}
    assert filled == {slot for name in names for slot in SLOTS[name]}
    last = len(data.split.test) - 1
    batch = data.split.test.__getitems__([0, last])
    with torch.no_grad():
        forecast = model.forecast(Batch(*batch))
    assert forecast.shape == (*batch.future.shape, 1) and forecast.isfinite().all()


@pytest.mark.parametrize("path", OVERLAYS, ids=stem)
def test_every_overlay_fits_the_default(path, file):
    check(built("-c", CONFIGS / "seattle.yaml", "-c", PATCHES, "-c", path), [path.stem])


@pytest.mark.parametrize("names", STACKS, ids="+".join)
@pytest.mark.parametrize("base", [base for base in BASES if base.stem != "seattle"], ids=stem)
def test_overlays_fit_every_base(base, names, file):
    words = [word for name in names for word in overlay(name)]
    check(built(*words_of(base, file), "-c", PATCHES, *words), names)


@pytest.mark.parametrize("network", NETWORKS, ids=stem)
def test_every_network_fits_what_moments_are_encoded_by(network, file):
    cli = built(*words_of(CONFIGS / "table.yaml", file), "-c", network, *overlay("calendar"))
    check(cli, ["calendar"])
    assert cli.model.automatic_optimization == (network.stem != "linear")


@pytest.mark.parametrize("path", BASES + NETWORKS + OVERLAYS, ids=stem)
def test_the_first_line_is_a_command_that_runs_it(path, monkeypatch, file, capsys):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    prefix, _, command = first.partition("python -m timeseries ")
    assert prefix == "# "
    words = shlex.split(command.replace("FILE", str(file)))
    assert path.relative_to(ROOT).as_posix() in words
    configs = [word for before, word in pairwise(words) if before == "-c"]
    assert all((ROOT / config).is_file() for config in configs)
    if path in OVERLAYS:
        return  # tested above
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["timeseries", *words, "--print_config"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, capsys.readouterr().err


def test_overlays_name_the_clock_they_are_for():
    clocks = {
        path.stem: yaml.safe_load(path.read_text())["model"].get("clock") for path in OVERLAYS
    }
    assert clocks.pop("vic_elec_utc") is None and None not in clocks.values()
    for one, other in permutations(clocks, 2):
        if one.partition("_")[2] == "time" == other.partition("_")[2]:
            assert clocks[one] == clocks[other] == "time"


def part(model, kind):
    (found,) = {one for one in model.modules() if isinstance(one, kind)}
    return found


def test_steps_and_spans_are_those_of_the_clock():
    words = ["-c", CONFIGS / "seattle.yaml", "-c", PATCHES, *MADE, "--model.network_args.patch=6"]
    words += ["--model.rotary=TimeRotary", "--model.bias=ALiBi"]
    for clock, step, span in [("time", 21_600, 104_400), ("row", 6, 29), ("token", 1, 5)]:
        model = module(*words, f"--model.clock={clock}")
        rotary = part(model, TimeRotary)
        assert (rotary.step, rotary.span, part(model, ALiBi).step) == (step, span, step)
    assert part(module(*words, "--model.bias.step=60"), ALiBi).step == 60


def test_two_clocks_at_once():
    both = """{class_path: Sum, init_args: {axes: [[0], [1]], encodings: [
        {class_path: Projected, init_args: {encodings: {class_path: Seasonal, init_args:
            {periods: {day: 2}, zone: auto}}}},
        {class_path: Learned}]}}"""
    biases = """{class_path: BiasSum, init_args: {axes: [[0], [1]], biases: [
        {class_path: ALiBi}, {class_path: RelativeBias}]}}"""
    words = ["-c", CONFIGS / "seattle.yaml", "-c", PATCHES, *MADE, "--data.tz=Europe/Berlin"]
    words += [f"--model.additive={both}", f"--model.bias={biases}", "--model.clock=both"]
    words += ["--model.network_args.patch=4", "--model.network_args.dim=32"]
    cli = built(*words)
    assert part(cli.model, Learned).sizes == (32,)  # two patches of four rows cover six
    assert part(cli.model, Learned).dim == 32
    assert part(cli.model, Seasonal).zone.name == "Europe/Berlin"
    assert part(cli.model, Seasonal).step == 3600
    assert part(cli.model, ALiBi).step == 4 * 3600
    batch = timeseries.filling.read(cli.config.data).split.test.__getitems__([0, 5])
    assert cli.model(batch.past, batch.moments, batch.known).shape == (2, 6, 2, 1)


def test_seasons_are_found_in_the_training_rows(caplog, seasons):
    words = ["-c", CONFIGS / "seattle.yaml", *MADE]
    with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
        model = module(*words, "--model.additive.periods={auto: 4, week: 2}")
    assert part(model, Seasonal).periods == {"day": 4, 44_714.0: 1, "week": 2}
    assert sum("season in the training rows" in line for line in caplog.messages) == 2
    found, looked = seasons
    assert looked == [((336, 2), "2024-04-03T00:00:00")]
    found.clear()
    with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
        model = module(*words, "--model.additive.periods={auto: 4}")
    assert part(model, Seasonal).periods == {"year": 1}
    assert any("no season is clear of noise" in line for line in caplog.messages)


def test_tape_and_the_years_of_holidays_and_zones():
    words = ["-c", CONFIGS / "seattle.yaml", "-c", PATCHES, *MADE, "--model.network_args.patch=6"]
    model = module(*words, *overlay("tape"))
    assert model.network.transformer.additive.frequencies == (tape(32, 30),)
    model = module(*words, *overlay("holidays"))
    holidays = part(model, Holidays)
    assert (holidays.years, holidays.zone.name) == ((2024, 2025), "UTC")
    assert part(module(*words, *overlay("time2vec")), Time2Vec).dim == 64
