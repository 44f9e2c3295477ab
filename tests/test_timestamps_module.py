"""Clocks and calendars within a module: compiled, exported, in low precision, on any machine."""

import math
import os
import time
from datetime import tzinfo
from fractions import Fraction

import numpy as np
import pytest
import torch

from posenc_mm.timestamps import FIELD_SIZES, PERIODS, UTC, civil, duration, fields, phases, zone_of

LONDON = zone_of("Europe/London")
NOW, NAT = torch.tensor([1_704_067_200]), torch.tensor([-(2**63)])


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the machine's zone cannot be changed")
def test_the_machine_s_zone_does_not_matter(monkeypatch):
    tick, found = torch.tensor([1_720_000_000]), []
    try:
        for name in ("UTC", "America/New_York", "Asia/Kolkata"):
            monkeypatch.setitem(os.environ, "TZ", name)
            time.tzset()
            zone = zone_of("Australia/Lord_Howe")
            found.append([zone, phases(tick, PERIODS, zone=zone).tolist()])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found[0] == found[1] == found[2]


class Nameless(tzinfo):
    def utcoffset(self, when):
        return None


@pytest.mark.parametrize(
    "tz", ["Mars/Olympus", "", "Europe", "../UTC", "+5:30", "EST5EDT9", Nameless(), 5]
)
def test_unknown_zones_are_refused(tz):
    with pytest.raises(ValueError, match="tz"):
        zone_of(tz)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fields(torch.tensor([1.5]), ["hour"]), "moments must be .* torch.float32"),
        (lambda: fields(torch.tensor([True]), ["hour"]), "moments must be .* torch.bool"),
        (lambda: fields(NOW * 1000, ["hour"]), "moments must lie .*1704067200000.* in unit='s'"),
        (lambda: fields(NAT, ["hour"], unit="ns"), "moments must lie .* in unit='ns'"),
        (lambda: phases(NOW.double() / 0, ["day"]), "moments must lie .*inf.*are they numbers"),
        (lambda: phases(NOW.double() * math.nan, ["day"]), "moments must lie .*nan"),
        (lambda: fields(torch.tensor([1]), ["hours"]), "field must be .*'hours'"),
        (lambda: fields(torch.tensor([1]), "hour"), "fields must be a list"),
        (lambda: phases(torch.tensor([1]), ["fortnight"]), "period must be one of .*'fortnight'"),
        (lambda: phases(torch.tensor([1]), []), "periods must be a list"),
        (lambda: phases(torch.tensor([1]), [-3.0]), "duration must be positive"),
        (lambda: phases(torch.tensor([1]), [float("nan")]), "finite number of seconds"),
        (lambda: phases(torch.tensor([1]), ["day"], unit="m"), "unit must be one of .*'m'"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(call, said):
    with pytest.raises(ValueError, match=said):
        call()


class Clock(torch.nn.Module):
    def __init__(self, zone):
        super().__init__()
        self.zone = zone

    def forward(self, ticks):
        turns = phases(ticks, [*PERIODS, "10s"], unit="us", zone=self.zone)
        return turns, fields(ticks, [*FIELD_SIZES, "year"], unit="us", zone=self.zone)


TICKS = torch.arange(-90, 90).reshape(4, 45) * 70_123_456_789_012 + 1


@pytest.mark.parametrize("zone", [UTC, LONDON], ids=lambda zone: zone.name)
def test_clocks_within_a_module_compile_whole_and_export(zone):
    module, graphs = Clock(zone), []

    def counter(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in (45, 7, 13):
        for got, wanted in zip(compiled(TICKS[:, :length]), module(TICKS[:, :length]), strict=True):
            assert torch.equal(got, wanted)
    assert len(graphs) <= 2
    shapes = ({1: torch.export.Dim("length", min=2, max=60)},)
    program = torch.export.export(module, (TICKS,), dynamic_shapes=shapes)
    assert torch.equal(program.module()(TICKS[:, :9])[0], module(TICKS[:, :9])[0])
    assert not any("complex" in str(node.meta.get("val")) for node in program.graph.nodes)


def test_what_is_no_moment_is_refused_as_a_compiled_clock_runs():
    compiled = torch.compile(Clock(UTC), backend="aot_eager", fullgraph=True)
    for wrong in (NAT, NOW * 10**9, NOW.double() * math.nan):
        with pytest.raises(RuntimeError, match="moments"):
            compiled(wrong)


def test_numbers_of_numpy_are_durations():
    """Powers of them wrap, or are refused."""
    for number in (np.int64(86_400), np.float32(86_400), np.float64(86_400)):
        assert duration(number) == Fraction(86_400)
        assert torch.equal(phases(NOW, [number], unit="ms"), phases(NOW, ["1D"], unit="ms"))


def test_low_precision_around_a_clock_changes_nothing():
    module = Clock(LONDON)
    wanted = module(TICKS)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module.bfloat16()(TICKS)[0], wanted[0])


def test_a_device_without_float64_gets_float32_of_the_reduced_time(monkeypatch):
    wanted = phases(TICKS, PERIODS, unit="us")
    monkeypatch.setattr(civil, "_WITHOUT_FLOAT64", ("cpu",))
    got = phases(TICKS, PERIODS, unit="us")
    assert got.dtype == torch.float32 and got.max() < 1
    late = torch.tensor([-1])
    assert phases(late, [*PERIODS, "1D"], unit="us").max() < 1
    torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-6)
