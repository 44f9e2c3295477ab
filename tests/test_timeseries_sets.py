"""Public sets: borders and counts as published, figures of naive forecasts, and where files are."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightning")
from jsonargparse import Namespace
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI

from timeseries.data import (
    ETT,
    Borders,
    Exchange,
    Illness,
    NordPool,
    Parking,
    SeattleTemps,
    Table,
    VicElec,
    sources,
)

# Test windows for each horizon, whatever the lookback.
COUNTS = [
    (ETT, {96: 2785, 192: 2689, 336: 2545, 720: 2161}, Borders(8640, 11520, 14400)),
    (Exchange, {96: 1422, 192: 1326, 336: 1182, 720: 798}, Borders(5311, 6071, 7588)),
    (Illness, {24: 170, 36: 158, 48: 146, 60: 134}, Borders(676, 773, 966)),
]


@pytest.fixture
def found(data_dir, monkeypatch):
    """The sets are looked for among the real data."""
    monkeypatch.setenv("POSENC_MM_DATA", str(data_dir))
    return data_dir


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """There are no sets on this machine."""
    monkeypatch.delenv("POSENC_MM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def errors(data, forecast):
    """Mean squared and absolute error over all test windows, in float64."""
    squared, absolute, count, windows = 0.0, 0.0, 0, 0
    for batch in data.test_dataloader():
        error = (forecast(batch) - batch.future).double()
        squared, absolute = squared + error.square().sum(), absolute + error.abs().sum()
        count, windows = count + error.numel(), windows + len(error)
    assert windows == data.counts["test"]
    return round(float(squared) / count, 3), round(float(absolute) / count, 3)


@pytest.mark.parametrize(("data", "counts", "borders"), COUNTS)
@pytest.mark.parametrize("lookback", [36, 96])
def test_every_test_window_of_the_published_borders(found, data, counts, borders, lookback):
    for horizon, count in counts.items():
        one = data(lookback=lookback, horizon=horizon)
        assert one.borders == [borders] and one.counts["test"] == count
        assert f"forecasts of rows {borders.val + 1:,} to {borders.test:,}" in one.describe()
        assert f"{count:,} windows, every one" in one.describe()
        assert one.counts["train"] == borders.train - lookback - horizon + 1


@pytest.mark.parametrize(
    ("horizon", "figures"),
    [(96, (0.081, 0.196)), (192, (0.167, 0.289)), (336, (0.306, 0.398)), (720, (0.81, 0.676))],
)
def test_repeating_the_last_exchange_rate(found, horizon, figures):
    data = Exchange(horizon=horizon, batch_size=256)
    assert errors(data, lambda batch: batch.past[:, -1:]) == figures


@pytest.mark.parametrize(("name", "figures"), [("ETTh1", (0.512, 0.433)), ("ETTh2", (0.391, 0.38))])
def test_repeating_the_last_day_of_transformers(found, name, figures):
    data = ETT(name, horizon=96, batch_size=256)
    assert errors(data, lambda batch: batch.past[:, -24:].repeat(1, 4, 1)) == figures


def test_repeating_the_last_year_of_illness(found):
    data = Illness(horizon=24)
    assert errors(data, lambda batch: batch.past[:, -52:][:, :24]) == (2.564, 1.004)


def test_transformers(found):
    data = ETT("ETTh2")
    assert (data.variates, data.known_width, data.step, data.zone) == (7, 0, 3600.0, None)
    assert data.columns[-1] == "OT" and len(data.series[0].axis) == 17_420
    train = data.series[0].values[:8640].numpy()
    assert np.allclose(data.scaler.mean[0], train.mean(0)) and data.scaler.mean.shape == (1, 7)
    assert np.allclose(data.scaler.std[0], train.std(0))
    with pytest.raises(ValueError, match=r"ETTh1, ETTh2, got name='ETTm1'"):
        ETT("ETTm1")


def test_the_price_has_forecasts_that_are_known_in_advance(found):
    data = NordPool()
    assert data.columns == ("OT",) and data.step == 3600.0
    assert data.known_columns == ("Grid load forecast", "Wind power forecast")
    assert data.borders == [Borders(36_691, 41_933, 52_416)]
    batch = next(iter(data.val_dataloader()))
    assert batch.known.shape == (32, 168 + 24, 2) and batch.known.abs().mean() < 3
    assert data.series[0].known[0].tolist() == [42_497, 2_798]


def test_demand_is_shown_on_the_clocks_of_melbourne(found):
    data = VicElec()
    assert data.counts["test"] == 10_474 and data.columns == ("Demand",) and data.known_width == 0
    assert (data.zone, data.step, data.span) == ("Australia/Melbourne", 1800.0, 383 * 1800.0)
    axis = data.series[0].axis
    assert axis.isoformat()[0] == "2012-01-01T00:00:00+11:00"
    assert (axis.seconds().diff() == 1800).all() and not axis.duplicates()
    begin = data.split.test.moments[data.split.test.starts]
    change = 1_412_438_400  # 2014-10-05T02:00 in Melbourne
    assert int(((begin < change) & (begin + data.span >= change)).sum()) == 383
    holidays = VicElec(holidays=True)
    assert holidays.known_columns == ("Holiday",)
    assert holidays.series[0].known.unique().tolist() == [0, 1]


def test_car_parks_are_series_of_irregular_stamps(found):
    data = Parking()
    assert len(data.series) == 28 and data.scaler.mean.shape == (28, 1) and data.step == 1976.0
    train = data.split.train
    names = [data.series[row].name for row in train.belongs.unique()]
    assert names[0] == "BHMBCCMKT01" and "too short: BHMBRTARC01" in data.describe()
    assert len(train[0].moments.diff().unique()) > 10
    ends = train.moments[train.starts + data.lookback + data.horizon - 1]
    assert (ends > train.moments[train.starts]).all()


def test_the_embedded_set_needs_no_file(nowhere):
    pytest.importorskip("vega_datasets")
    data = SeattleTemps()
    assert (data.zone, data.step, data.variates) == ("-08:00", 3600.0, 1)
    assert data.counts == {"train": 5940, "val": 854, "test": 1728}
    (gap,) = data.series[0].axis.gaps()
    assert (gap.start, gap.missing) == ("2010-03-14T02:00:00-08:00", 1)


def table(path, rows=60):
    lines = [f"{n // 24 + 1}.3.2024 {n % 24}:00;{n},5;{n % 7};x" for n in range(rows)]
    path.write_text("\n".join(["Zeit; a ;b;c", *lines]))
    return path


def test_any_table(nowhere):
    path = table(nowhere / "mine.csv")
    options = {"targets": ["a"], "known": "b", "tz": "Europe/Berlin", "lookback": 10, "horizon": 2}
    data = Table(str(path), **options)
    assert data.columns == ("a",) and data.known_columns == ("b",) and data.zone == "Europe/Berlin"
    assert data.counts == {"train": 42 - 12 + 1, "val": 5, "test": 11}
    assert data.series[0].values[:2].flatten().tolist() == [0.5, 1.5]
    with pytest.raises(FileNotFoundError, match="no file nothing"):
        _ = Table("nothing.csv").counts


def test_a_path_is_looked_in_alone_and_else_the_usual_places(nowhere, monkeypatch):
    text = "date,OT\n" + "\n".join(f"2002-01-{day:02d},{day}" for day in range(1, 31))
    options = {"lookback": 5, "horizon": 2, "download": False}
    (nowhere / "data").mkdir()
    (nowhere / "data" / "national_illness.csv").write_text(text)
    assert len(Illness(**options).series[0].axis) == 30
    (nowhere / "other").mkdir()
    (nowhere / "other" / "national_illness.csv").write_text(text + "\n2002-01-31,31")
    monkeypatch.setenv("POSENC_MM_DATA", str(nowhere / "other"))
    assert len(Illness(**options).series[0].axis) == 31
    file = nowhere / "mine.csv"
    file.write_text(text + "\n2002-01-31,31\n2002-02-01,32")
    assert len(Illness(path=str(file), **options).series[0].axis) == 32
    with pytest.raises(FileNotFoundError) as error:
        Illness(path=str(nowhere / "empty"), **options).prepare_data()
    for part in ("national_illness.csv", str(nowhere / "empty"), "https://raw.", "data.path"):
        assert part in str(error.value)


def test_a_set_is_downloaded_once_and_whole(nowhere, monkeypatch):
    served = nowhere / "served"
    monkeypatch.setattr(sources, "GITHUB", served.as_uri())
    source = Illness.source
    content = b"date,OT\n" + b"\n".join(b"2002-01-%02d,%d" % (day, day) for day in range(1, 31))
    file = served / source.place
    options = {"lookback": 5, "horizon": 2}
    with pytest.raises(FileNotFoundError, match="Downloading failed"):
        Illness(**options).prepare_data()
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(FileNotFoundError, match="something else than it did"):
        Illness(**options).prepare_data()
    assert not list((nowhere / "data").iterdir())
    changed = source._replace(sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(Illness, "source", changed)
    assert len(Illness(**options).series[0].axis) == 30
    assert (nowhere / "data" / "national_illness.csv").read_bytes() == content
    file.unlink()
    assert len(Illness(**options).series[0].axis) == 30
    assert not list((nowhere / "data").glob(".partial*"))


def test_the_real_files_are_those_that_would_be_downloaded(data_dir):
    modules = [ETT("ETTh1"), ETT("ETTh2"), Exchange(), Illness(), NordPool(), VicElec(), Parking()]
    for data in modules:
        content = Path(data_dir / data.source.name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == data.source.sha256, data.source.name


def test_transformers_must_be_long_enough(nowhere):
    table(nowhere / "ETTh1.csv")
    with pytest.raises(ValueError, match="ETTh1 must have at least 14,400 rows, got 60"):
        _ = ETT(path=str(nowhere)).counts


class Model(LightningModule):
    def __init__(self, variates: int = 0, step: float = 0.0, zone: str | None = None) -> None:
        super().__init__()
        self.seen = Namespace(variates=variates, step=step, zone=zone)


class CLI(LightningCLI):
    def add_arguments_to_parser(self, parser):
        for name in ("variates", "step", "zone"):
            parser.link_arguments(f"data.{name}", f"model.{name}", apply_on="instantiate")


@pytest.mark.filterwarnings("ignore:LightningCLI's args parameter")
def test_the_command_line_knows_sets_by_name_and_fills_in_what_follows(nowhere):
    path = table(nowhere / "mine.csv")
    words = ["--data=Table", f"--data.path={path}", "--data.known=[b]", "--data.tz=Europe/Berlin"]
    words += ["--data.lookback=10", "--data.horizon=2", "--data.batch_size=7"]
    options = {"subclass_mode_data": True, "seed_everything_default": 0, "run": False}
    cli = CLI(Model, LightningDataModule, args=words, **options)
    assert isinstance(cli.datamodule, Table) and cli.datamodule.batch_size == 7
    assert vars(cli.model.seen) == {"variates": 1, "step": 3600.0, "zone": "Europe/Berlin"}
