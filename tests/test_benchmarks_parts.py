"""Benchmarks measure what they say: ratios, growth, memory, and whether a peer does the same."""

import math
from functools import partial

import pytest
import torch

from benchmarks import comparing, measuring, reporting
from benchmarks.comparing import Way, compare
from benchmarks.correctness import alibi_row, attended, judged, t5_row, turned
from benchmarks.measuring import Spread, exponent, in_turns, peak_bytes, ratios, spread
from benchmarks.peers import Sizes
from benchmarks.rotary import Case


def test_compiled_rows_are_compared_with_ours_compiled():
    case = Case(Sizes(1, 2, 6, 8, torch.float32, "cpu"), backward=True)
    ways = [way for way in case.ways(True) if way.kind != "peer"]
    fast = Way("made-up", "peer", ways[-1].make, ways[-1].group)
    table = compare("t", [*ways, fast], rounds=1, check=case.check)
    groups = [row.group for row in table.rows if row.kind == "ours"]
    assert groups == [
        f"{layout}{order}{how}"
        for layout in ("interleaved", "half")
        for order in ("", ", tokens first")
        for how in ("", ", compiled")
    ]
    assert [row.verdict for row in table.rows[1:]] == ["same"] * (len(groups) + 1)
    times = {row.name: row.seconds.median for row in table.rows}
    expected = times["made-up"] / times[ways[-1].name]
    assert table.rows[-1].to_ours.median == pytest.approx(expected)


def test_ratios_are_taken_within_rounds():
    """A machine that slows down as it goes meets both alike."""
    assert ratios([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]) == Spread(2.0, 2.0, 2.0)
    assert ratios([1.0, 6.0, 3.0, 8.0, 10.0], [1.0, 2.0, 1.0, 2.0, 2.0]) == Spread(3, 3, 4)


def test_spread_is_the_median_and_the_middle_half():
    assert spread([9.0, 1.0, 2.0, 3.0, 4.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_exponent_is_that_of_made_up_timings(power):
    sizes = [100, 300, 1000, 5000]
    assert exponent(sizes, [3e-6 * n**power for n in sizes]) == pytest.approx(power)
    with pytest.raises(ValueError, match="two sizes"):
        exponent([8, 8], [1.0, 2.0])


def test_ways_take_turns(monkeypatch):
    turns = []

    def clocked(call, device, number=1):
        turns.append(call())
        return {"a": 1.0, "b": 2.0, "c": 3.0}[turns[-1]]

    monkeypatch.setattr(measuring, "seconds_of", clocked)
    taken = in_turns({name: partial(str, name) for name in "abc"}, rounds=8)
    assert taken == {"a": [1.0] * 8, "b": [2.0] * 8, "c": [3.0] * 8}
    rounds = ["".join(turns[i : i + 3]) for i in range(3, len(turns), 3)]
    assert len(rounds) == 8 and all(sorted(one) == list("abc") for one in rounds)
    assert len(set(rounds)) > 2, "in another order each time"


def test_peak_memory_is_what_is_held_at_once():
    def call():
        first = torch.empty(1000, dtype=torch.float64)
        second = torch.empty(3000, dtype=torch.float64)
        del first
        third = torch.empty(500, dtype=torch.float64)
        return second, third

    assert peak_bytes(call) == pytest.approx(4000 * 8, rel=0.02)


def way(name, kind, call, group="g", **more):
    return Way(name, kind, lambda: call, group, **more)


def right(x):
    return lambda made, out: judged([out], [turned(x, "interleaved")], torch.float32)


def fast_and_slow(monkeypatch, seconds):
    """Clocks that say what they are told for each way by name."""
    monkeypatch.setattr(
        comparing,
        "in_turns",
        lambda calls, rounds, device: {name: [seconds[name]] * rounds for name in calls},
    )


def test_a_peer_that_computes_something_else_is_said_so_and_never_the_fastest(monkeypatch):
    x = torch.randn(1, 2, 9, 8, generator=torch.Generator().manual_seed(3))
    good, other = turned(x, "interleaved").float(), turned(x, "half").float()
    ways = [
        way("base", "base", lambda: good, "unit"),
        way("ours", "ours", lambda: good),
        way("slow", "peer", lambda: good),
        way("wrong layout", "peer", lambda: other),
        way("wrong dtype", "peer", lambda: good.double()),
        way("wrong shape", "peer", lambda: good[:, :1]),
        way("not a number", "peer", lambda: good * math.nan),
        way("rounded", "peer", lambda: good.bfloat16().float()),
    ]
    times = [1.0, 2.0, 8.0, 0.5, 0.5, 0.5, 0.5, 6.0]
    names = [one.name for one in ways]
    fast_and_slow(monkeypatch, dict(zip(names, times, strict=True)))
    table = compare("t", ways, rounds=3, check=right(x))
    found = {row.name: row for row in table.rows}
    verdicts = [found[name].verdict for name in names]
    assert verdicts == ["same"] * 3 + ["other"] * 4 + ["coarser"]
    assert found["wrong layout"].error == pytest.approx(
        float((other.double() - turned(x, "interleaved")).abs().max())
    )
    assert "float64 for float32" in found["wrong dtype"].note
    assert table.fastest == [{"group": "g", "peer": "rounded", "to_ours": Spread(3.0, 3.0, 3.0)}]
    assert found["slow"].ratio == Spread(8.0, 8.0, 8.0)
    assert found["slow"].to_ours == Spread(4.0, 4.0, 4.0)
    assert found["ours"].to_ours is None
    plain = reporting.document("t", "c", reporting.environment("cpu"), {}, [table], [])
    text = reporting.markdown(plain)
    (row,) = [line for line in text.splitlines() if line.startswith("| wrong layout |")]
    assert "computes something else" in row and f"{found['wrong layout'].error:.0e}" in row


def test_a_missing_peer_is_a_row_with_the_way_to_install_it():
    def absent():
        import a_module_that_nobody_has  # noqa: F401

    def broken():
        raise RuntimeError("no kernel\nfor this")

    ways = [
        way("base", "base", torch.Size, "unit"),
        Way("absent", "peer", absent, "g", "a-package"),
        Way("broken", "peer", broken, "g", "b-package"),
        Way("gpu", "peer", broken, "g", "c-package", cuda=True),
    ]
    found = {row.name: row for row in compare("t", ways, rounds=1).rows}
    assert found["absent"].status == "missing"
    assert "pip install a-package" in found["absent"].note
    assert (found["broken"].status, found["broken"].note) == ("failed", "RuntimeError: no kernel")
    assert found["gpu"].status == "missing" and "CUDA" in found["gpu"].note
    assert all(found[name].seconds is None for name in ("absent", "broken", "gpu"))
    with pytest.raises(RuntimeError, match="no kernel"):
        compare("t", [ways[0], Way("ours", "ours", broken, "g")], rounds=1)


def test_some_rows_of_attention_are_those_of_the_whole():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 7, 6, generator=draw).double() for _ in range(3))
    whole = torch.full((4, 7, 7), -math.inf, dtype=torch.float64)
    for h in range(4):
        for i in range(7):
            for j in range(i + 1):
                whole[h, i, j] = -(2.0 ** (-2 * (h + 1))) * (i - j)
    logits = q @ k.transpose(-1, -2) / math.sqrt(6) + whole
    wanted = (logits.softmax(-1) @ v)[:, :, [0, 3, 6]]
    found = attended(q, k, v, [0, 3, 6], [alibi_row(4, row, 7) for row in (0, 3, 6)])
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


def test_the_buckets_of_t5():
    weight = torch.arange(32.0)[:, None]
    far = [0, 1, 7, 8, 11, 12, 15, 16, 63, 64, 127, 128, 400]
    of_past = [0, 1, 7, 8, 8, 9, 9, 10, 13, 14, 15, 15, 15]
    row = t5_row(weight, 500, 1000)[0]
    assert [int(row[500 - d]) for d in far] == of_past
    assert [int(row[500 + d]) for d in far[1:]] == [16 + b for b in of_past[1:]]
