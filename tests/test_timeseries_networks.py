"""Forecasting networks: what they see, where tokens are, and what may not matter."""

import pytest
import torch

pytest.importorskip("lightning")
from posenc_mm import ALiBi, Horizon, Learned, Projected, Seasonal, TimeRotary
from timeseries.networks import NETWORKS, Linear, Patches, Shape, Variates
from timeseries.networks.base import Level

L, H, V, F = 23, 7, 3, 2
NOW = 1_700_000_000


def window(batch=2, step=3600.0, lookback=L, columns=V, known=F):
    moments = NOW + step * torch.arange(lookback + H, dtype=torch.float64).expand(batch, -1)
    return (
        torch.randn(batch, lookback, columns).cumsum(1),
        moments,
        torch.randn(batch, lookback + H, known),
    )


def small(**given):
    """A small network of patches, whose answers are not zero."""
    shape = given.pop("shape", Shape(L, H, V, F))
    settings = {"patch": 4, "dim": 16, "depth": 1, "heads": 2, **given}
    return Patches(shape, **settings).eval()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("known", [0, F])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_shapes_and_gradients(name, known, outputs):
    network = NETWORKS[name](Shape(L, H, V, known, outputs))
    forecast = network(*window(known=known))
    assert forecast.shape == (2, H, V, outputs)
    forecast.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_a_linear_network_is_its_formula():
    network = Linear(Shape(L, H, V, F), Seasonal({"day": 1}))
    past, moments, known = window()
    last = past[:, -1:].expand(-1, H, -1)
    assert torch.equal(network(past, moments, known)[..., 0], last)  # naive, as long as all is zero
    for weight in network.parameters():
        torch.nn.init.normal_(weight)
    forecast = network(past, moments, known)
    b, h, v = 1, 5, 2
    turns = torch.tensor([(NOW + 3600 * (L + h)) % 86_400 / 86_400 * 2 * torch.pi])
    told = torch.cat((turns.sin(), turns.cos(), known[b, L + h]))
    wanted = (past[b, :, v] - past[b, -1, v]) @ network.look[:L, h] + network.look[L, h]
    wanted = wanted + told @ network.read[h] + past[b, -1, v]
    torch.testing.assert_close(forecast[b, h, v, 0], wanted, rtol=1e-4, atol=1e-4)


def test_levels():
    past, _, _ = window()
    level = Level.of(past)
    normal = level.normalise(past)
    assert normal.mean(1).abs().max() < 1e-5 and (normal.square().mean(1) <= 1).all()
    torch.testing.assert_close(level.restore(normal.unsqueeze(-1))[..., 0], past)
    flat = Level.of(torch.ones(1, L, 1))
    assert float(flat.scale) == pytest.approx(0.1)  # what does not vary is not blown up


@pytest.mark.parametrize("build", [small, lambda: Variates(Shape(L, H, V, F), depth=1).eval()])
def test_a_shift_of_the_window_shifts_its_forecast(build):
    network, (past, moments, known) = build(), window()
    offset = torch.tensor([5.0, -40.0, 0.25])
    before, after = network(past, moments, known), network(past + offset, moments, known)
    torch.testing.assert_close(after, before + offset[:, None], rtol=1e-4, atol=1e-4)


def test_patches_forecast_each_column_by_itself():
    network, (past, moments, known) = small(), window()
    order = [2, 0, 1]
    forecast = network(past, moments, known)
    torch.testing.assert_close(network(past[..., order], moments, known), forecast[:, :, order])
    other = past.clone()
    other[..., 1] *= -3
    changed = (network(other, moments, known) - forecast).abs().amax((0, 1, 3)) > 1e-6
    assert changed.tolist() == [False, True, False]
    told = Patches(Shape(L, H, V, F), variate=Learned(64, V, std=1.0)).eval()
    apart = told(past[..., :1].expand(-1, -1, V), moments, known)
    assert (apart[:, :, 0] - apart[:, :, 1]).abs().max() > 1e-3


def test_variates_look_at_each_other_and_at_what_is_known():
    network, (past, moments, known) = Variates(Shape(L, H, V, F), depth=1).eval(), window()
    forecast = network(past, moments, known)
    order = [2, 0, 1]
    torch.testing.assert_close(network(past[..., order], moments, known), forecast[:, :, order])
    for changed in ((past * torch.tensor([1.0, -3.0, 1.0]), known), (past, -known)):
        other = network(changed[0], moments, changed[1])
        assert (other - forecast).abs()[:, :, 0].max() > 1e-6


def test_an_additive_encoding_of_variates_reads_the_first_future_moment():
    network = Variates(Shape(L, H, V, F), Projected(64, Seasonal({"day": 1})), depth=1).eval()
    past, moments, known = window()
    seen = []
    network.additive.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    network(past, moments, known)
    assert seen[0].shape == (2, 1, 1) and (seen[0] == NOW + 3600 * L).all()


@pytest.mark.parametrize("stride", [None, 2, 5])
def test_tokens_are_at_the_centres_of_their_patches(stride):
    _, moments, _ = window()
    step = stride or 4
    first = (L - 4) % step  # the newest rows always count
    before = [first + step * n + 1.5 for n in range((L - 4) // step + 1)]
    after = [L + 1.5, L + 5.5]  # the second reaches a row beyond the horizon, by the last step
    rows = torch.tensor([*before, *after], dtype=torch.float64)
    for clock, wanted in {
        "row": rows[:, None],
        "time": NOW + 3600 * rows[:, None],
        "both": torch.stack((NOW + 3600 * rows, rows), dim=-1),
        "token": torch.arange(len(rows)).double()[:, None],
    }.items():
        network = small(clock=clock, stride=stride)
        assert torch.equal(network.positions(moments)[1], wanted), clock


def test_jitter_is_where_it_is():
    _, moments, _ = window(step=600.0)
    moments = moments.clone()
    moments[0, 3] += 240
    before, after = small().positions(window(step=600.0)[1]), small().positions(moments)
    assert (after - before)[0].flatten().tolist() == [60.0] + 6 * [0.0]
    assert torch.equal(after[1], before[1])


@pytest.mark.parametrize("slots", ["rotary", "bias"])
def test_time_itself_does_not_matter_only_how_much_lies_between(slots):
    encoding = {
        "rotary": TimeRotary(8, step="1h", span="30h"),
        "bias": ALiBi(2, step=3600.0),
    }[slots]
    network, (past, moments, known) = small(**{slots: encoding}), window()
    before = network(past, moments, known)
    torch.testing.assert_close(network(past, moments + 123_456_789, known), before)
    spread = NOW + 3 * (moments - NOW)
    assert (network(past, spread, known) - before).abs().max() > 1e-6


def test_what_is_known_of_future_rows_counts():
    network, (past, moments, known) = small(), window()
    before = network(past, moments, known)
    for rows in (slice(1, L), slice(L, L + H)):
        other = known.clone()
        other[:, rows] += 1
        assert (network(past, moments, other) - before).abs().max() > 1e-6


@pytest.mark.parametrize("cls", [Patches, Variates])
def test_beside_a_linear_network_the_rest_starts_at_zero(cls):
    network = cls(Shape(L, H, V, F, outputs=3), linear=Seasonal({"day": 1})).eval()
    for weight in network.linear.parameters():
        torch.nn.init.normal_(weight)
    inputs = window()
    assert torch.equal(network(*inputs), network.linear(*inputs))
    bare = cls(Shape(L, H, V), linear=True)
    assert bare.linear.encode is None


def test_another_lookback_is_only_other_positions():
    network = small(additive=Projected(16, Horizon(L)), clock="row")
    longer = small(shape=Shape(2 * L, H, V, F), additive=Projected(16, Horizon(2 * L)), clock="row")
    longer.load_state_dict(network.state_dict())
    assert longer(*window(lookback=2 * L)).shape == (2, H, V, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"patch": 24}, "patch must be between 1 and the lookback of 23, got patch=24"),
        ({"patch": 0}, "got patch=0"),
        ({"clock": "noon"}, "clock must be one of time, row, both, token, got clock='noon'"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        small(**given)
