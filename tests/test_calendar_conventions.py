"""Published encodings of time: any frequency has one, and published weights give equal outputs."""

import math
import warnings
from datetime import datetime, timezone

import pytest
import torch
from torch import nn

import posenc_mm as pm
from posenc_mm.additive.calendar import Calendar, OnCalendar
from posenc_mm.additive.conventions import gluonts, informer, timesfm1
from posenc_mm.timestamps import FIELD_SIZES, TimeAxis, features_of

# Every spelling that data sets use, that of pandas 2 included, and the unit whose fields it has.
SPELLINGS = {
    **{"h": "hour", "H": "hour", "3h": "hour", "min": "minute", "15min": "minute"},
    **{"15T": "minute", "T": "minute", "t": "minute", "D": "day", "B": "day", "W": "week"},
    **{"W-SUN": "week", "W-MON": "week", "ME": "month", "M": "month", "MS": "month"},
    **{"QE": "month", "Q": "month", "QS": "month", "s": "second", "ms": "millisecond"},
    **{"30T": "minute", "12H": "hour", "2D": "day", "S": "second", "BME": "month"},
}
DAYS = ("day_of_week", "day", "day_of_year")
FIELDS = {
    "millisecond": ("millisecond", "second", "minute", "hour", *DAYS),
    "second": ("second", "minute", "hour", *DAYS),
    "minute": ("minute", "hour", *DAYS),
    "hour": ("hour", *DAYS),
    "day": DAYS,
    "week": ("day", "week"),
    "month": ("month",),
}
NEW = [one for one in SPELLINGS if one not in "H 15T T t M Q 30T 12H S".split()]
AT = (1_704_067_200 + 900 * torch.arange(8)).reshape(2, 4, 1)
STAMPS = [
    *("2023-12-31T23:59:59", "2024-12-31T07:45:00", "2020-12-31T12:30:30", "2021-01-01T00:00:00"),
    *("2024-01-01T00:15:00", "2024-02-29T06:59:00", "2017-01-01T01:01:01", "2018-12-31T22:14:59"),
]
CLOCKS = [datetime.fromisoformat(stamp) for stamp in STAMPS]
MOMENTS = TimeAxis(STAMPS, tz="UTC", unit="s").positions()


def spelled(freq):
    """Old spellings work, with a warning that says the new one."""
    return warnings.catch_warnings() if freq in NEW else pytest.warns(FutureWarning, match="today")


# ------------------------------------------------------------ any frequency


@pytest.mark.parametrize("freq", SPELLINGS)
def test_any_multiple_and_any_spelling_has_the_features_of_its_unit(freq):
    """A bare KeyError in a table of one-letter strings was what 15min and 3h once gave."""
    with spelled(freq):
        features = gluonts(freq)
    assert features.fields == FIELDS[SPELLINGS[freq]]
    assert features(AT).shape == (2, 4, features.dim)
    for code in ("cyclic", "ramp", "one_hot"):
        with spelled(freq):
            encoding = Calendar(features_of(freq), code=code)
        assert encoding(AT).shape == (2, 4, encoding.dim)


@pytest.mark.parametrize("freq", SPELLINGS)
@pytest.mark.parametrize("kind", ["timeF", "learned", "fixed"])
def test_the_width_announced_is_the_width_produced(freq, kind):
    for source in ("informer", "tslib"):
        with spelled(freq):
            encoding = informer(7, freq, kind, source=source)
        assert encoding.dim == 7 and encoding(AT).shape == (2, 4, 7)
        assert encoding(MOMENTS).isfinite().all()


@pytest.mark.parametrize("freq", NEW)
def test_offsets_of_pandas_are_read_by_their_class(freq):
    """pandas 2.2 and 3 renamed most aliases: an offset is what it is, however it is spelled."""
    pd = pytest.importorskip("pandas")
    offset = pd.tseries.frequencies.to_offset(freq)
    assert gluonts(offset).fields == gluonts(freq).fields == FIELDS[SPELLINGS[freq]]
    index = pd.date_range("2024-01-01", periods=8, freq=offset, tz="Europe/Berlin")
    axis = TimeAxis(index)
    encoding = gluonts(axis.frequency, zone=axis.zone)
    assert encoding(axis.positions()).shape == (8, encoding.dim)


def test_quarters_of_an_hour_keep_their_minute():
    quarters = gluonts("15min")(AT[0])[:, 0]
    assert quarters.tolist() == pytest.approx([v / 59 - 0.5 for v in (0, 15, 30, 45)], abs=1e-7)
    for kind in ("timeF", "learned", "fixed"):
        assert len(informer(8, "15min", kind)(AT[0]).unique(dim=0)) == 4
        assert torch.equal(*informer(8, "min", "learned")(torch.tensor([[0], [899]])))


def test_months_and_milliseconds_are_never_swapped():
    assert gluonts("MS").fields == ("month",)
    assert gluonts("ms").fields[0] == "millisecond"
    with pytest.raises(ValueError, match="'min' for minutes or 'ME'"):
        gluonts("m")


@pytest.mark.parametrize("freq", ["YE", "YS"])
def test_years_have_no_feature_and_say_so(freq):
    for make in (gluonts, lambda one: informer(8, one)):
        with pytest.raises(ValueError, match=f"finer than years.*'{freq}'"):
            make(freq)
    assert informer(8, freq, "learned")(AT).shape == (2, 4, 8)


# ------------------------------------------------------------ tables that fit


@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "B", "W", "MS", "QE", "YE"])
def test_tables_have_a_row_for_every_minute_of_a_year(freq):
    """Hours of daily data and minutes of finer data once raised IndexError."""
    everywhere = 1_704_067_200 + 60 * torch.arange(0, 366 * 1440, 7).unsqueeze(-1)
    encoding = informer(2, freq, "learned", zone="Australia/Lord_Howe")
    encoding(everywhere).sum().backward()
    for name, table in zip(encoding.fields, encoding.encoding.tables, strict=True):
        read = table.grad.any(-1)
        dead = {"month": 1, "day": 1}.get(name, 0)
        assert not read[:dead].any() and read[dead:].all(), name


def test_a_table_that_is_too_short_is_named_with_its_field():
    with pytest.raises(ValueError, match=r"at least \[24, 7\] rows .*'hour', 'day_of_week'.*24, 5"):
        OnCalendar(pm.Learned(8, (24, 5), joint=False), ["hour", "day_of_week"])
    with pytest.raises(ValueError, match=r"\[13, 32, 4\] rows"):
        OnCalendar(pm.Learned(8, (12, 31, 4)), ["month", "day", "minute"], convention="informer")
    with pytest.raises(ValueError, match=r"\[24\] rows"):
        OnCalendar(pm.Learned(8, (24, 7)), ["hour"])
    with pytest.raises(ValueError, match="'year'"):
        OnCalendar(pm.Learned(8, 3000), ["year"])
    assert OnCalendar(pm.Learned(8, 60), ["hour"]).dim == 8


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Calendar(["year"]), "largest value.*OnCalendar"),
        (lambda: Calendar(["hours"]), "fields must be of .*'hours'"),
        (lambda: Calendar("hour"), "fields must be a list"),
        (lambda: Calendar([]), "fields must be a list"),
        (lambda: Calendar(["hour"], code="onehot"), "code must be .*'onehot'"),
        (lambda: Calendar(["hour"], unit="h"), "unit must be .*'h'"),
        (lambda: Calendar(["hour"], zone="Mars/Olympus"), "Mars"),
        (lambda: Calendar(["hour"], code="ramp", convention="timesfm2"), "'timesfm2'"),
        (lambda: Calendar(["hour"], convention="gluonts"), "for ramps"),
        (lambda: Calendar(["hour"])(torch.zeros(3, 1)), "float32, which cannot hold"),
        (lambda: Calendar(["hour"])(torch.zeros(3, 1).bfloat16()), "bfloat16, which cannot hold"),
        (lambda: Calendar(["hour"])(torch.zeros(3, 2).long()), "of 1 axes"),
        (lambda: Calendar(["hour"])(torch.zeros(3, 1) > 0), "integers or floats"),
        (lambda: OnCalendar(pm.Sinusoidal(4), ["hours"]), "'hours'"),
        (lambda: OnCalendar(pm.Sinusoidal(4), ["hour"], convention="gluonts"), "'gluonts'"),
        (lambda: OnCalendar(nn.Linear(1, 4), ["hour"]), "AdditiveEncoding"),
        (lambda: OnCalendar(pm.Sinusoidal(4), ["hour", "day"])(MOMENTS), "of 1 axes"),
        (lambda: OnCalendar(pm.Sinusoidal(4), ["hour"])(torch.zeros(3, 1)), "cannot hold"),
        (lambda: informer(8, "h", "timef"), "kind must be .*'timef'"),
        (lambda: informer(8, "h", source="autoformer"), "source must be .*'autoformer'"),
        (lambda: informer(8, "hourly"), "freq must be .*'hourly'"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(make, said):
    with pytest.raises(ValueError, match=said):
        make()


# ------------------------------------------------------------ equal to the published ones


def marks(names):
    """The columns that Informer's data come with."""
    of = {
        "month": lambda clock: clock.month,
        "day": lambda clock: clock.day,
        "day_of_week": lambda clock: clock.weekday(),
        "hour": lambda clock: clock.hour,
        "minute": lambda clock: clock.minute // 15,
    }
    return torch.tensor([[of[name](clock) for name in names] for clock in CLOCKS])


class Tables(nn.Module):
    """A sum of an nn.Embedding per column, with rows for counts from 1."""

    def __init__(self, dim, sizes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in sizes)

    def forward(self, columns):
        return sum(table(columns[:, axis]) for axis, table in enumerate(self.tables))


@pytest.mark.parametrize(
    ("freq", "source", "sizes"),
    [
        ("h", "informer", (13, 32, 7, 24)),
        ("15min", "informer", (13, 32, 7, 24, 4)),
        ("D", "informer", (13, 32, 7)),
        ("D", "tslib", (13, 32, 7, 24)),
        ("t", "tslib", (13, 32, 7, 24, 4)),
    ],
)
def test_weights_of_published_tables_give_their_outputs(freq, source, sizes):
    published = Tables(6, sizes)
    with spelled(freq):
        encoding = informer(6, freq, "learned", source=source)
    state = published.state_dict().values()
    encoding.load_state_dict({f"encoding.tables.{row}": table for row, table in enumerate(state)})
    columns = marks(encoding.fields)
    torch.testing.assert_close(encoding(MOMENTS), published(columns), rtol=0, atol=1e-6)
    fine = encoding(MOMENTS.double())
    torch.testing.assert_close(fine, published(columns), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dim", [8, 7])
def test_fixed_tables_are_sinusoids_of_the_index_of_any_width(dim):
    """An odd width has one cosine fewer, where the published code fails."""
    encoding = informer(dim, "15min", "fixed")
    assert not encoding.state_dict()
    wanted = torch.zeros(len(CLOCKS), dim, dtype=torch.float64)
    for row, columns in enumerate(marks(encoding.fields).tolist()):
        for index in columns:
            for channel in range(dim):
                wave = math.cos if channel % 2 else math.sin
                wanted[row, channel] += wave(index / 10_000 ** (channel // 2 * 2 / dim))
    torch.testing.assert_close(encoding(MOMENTS.double()), wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(encoding(MOMENTS).double(), wanted, rtol=0, atol=1e-6)


def ramps(names):
    """The table of gluonts, from what Python calls the fields."""
    of = {
        "second": lambda clock: clock.second / 59,
        "minute": lambda clock: clock.minute / 59,
        "hour": lambda clock: clock.hour / 23,
        "day_of_week": lambda clock: clock.weekday() / 6,
        "day": lambda clock: (clock.day - 1) / 30,
        "day_of_year": lambda clock: (clock.timetuple().tm_yday - 1) / 365,
        "month": lambda clock: (clock.month - 1) / 11,
        "week": lambda clock: (clock.isocalendar()[1] - 1) / 52,
    }
    return torch.tensor([[of[name](clock) - 0.5 for name in names] for clock in CLOCKS])


@pytest.mark.parametrize("source", ["informer", "tslib"])
@pytest.mark.parametrize("freq", ["s", "15min", "3h", "B", "W-SUN", "MS"])
def test_weights_of_a_published_map_of_ramps_give_its_outputs(freq, source):
    encoding = informer(5, freq, source=source)
    wanted = ramps(features_of(freq))
    published = nn.Linear(wanted.shape[1], 5, bias=source == "informer")
    encoding.load_state_dict({f"project.{k}": v for k, v in published.state_dict().items()})
    torch.testing.assert_close(gluonts(freq)(MOMENTS), wanted, rtol=0, atol=1e-7)
    torch.testing.assert_close(encoding(MOMENTS), published(wanted), rtol=0, atol=1e-6)


def test_timesfm_1_counts_from_1_and_weeks_from_sunday():
    wanted = [
        [
            clock.minute / 59 - 0.5,
            clock.hour / 23 - 0.5,
            clock.day / 30 - 0.5,
            clock.weekday() / 6 - 0.5,
            clock.timetuple().tm_yday / 364 - 0.5,
            clock.month / 11 - 0.5,
            int(clock.strftime("%U")) / 51 - 0.5,
        ]
        for clock in CLOCKS
    ]
    got = timesfm1()(MOMENTS.double())
    torch.testing.assert_close(got, torch.tensor(wanted).double(), rtol=0, atol=1e-7)
    # Its ends, in December of a leap year and in January of a year that begins on a Sunday.
    assert got[1].tolist()[2:6] == pytest.approx([0.5333, -1 / 3, 0.5055, 0.5909], abs=1e-4)
    assert got[6, 2].item() == pytest.approx(-0.4667, abs=1e-4)
    own = Calendar(timesfm1().fields, code="ramp")(MOMENTS)
    assert own.abs().max() <= 0.5 < got.max()


def test_fields_are_read_on_the_clocks_of_the_zone():
    summer = datetime(2024, 7, 1, 22, 30, tzinfo=timezone.utc)
    at = torch.tensor([[int(summer.timestamp())]])
    berlin = gluonts("h", zone="Europe/Berlin")(at)[0]
    assert berlin.tolist()[:2] == pytest.approx([-0.5, 1 / 6 - 0.5])
    learned = informer(3, "h", "learned", zone="Europe/Berlin")
    tables = learned.encoding.tables
    wanted = tables[0][7] + tables[1][2] + tables[2][1] + tables[3][0]
    torch.testing.assert_close(learned(at)[0], wanted)
    assert timesfm1(zone="Europe/Berlin").zone.name == "Europe/Berlin"
    assert set(timesfm1().fields) < set(FIELD_SIZES)
