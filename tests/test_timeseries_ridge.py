"""The closed form of a linear network: what any solver finds, and the published figures."""

import pytest
import torch

pytest.importorskip("lightning")
from made_series import Made
from sklearn.linear_model import Ridge

from posenc_mm import Learned, Projected, Seasonal
from timeseries.data import ETT
from timeseries.networks import Linear, Shape
from timeseries.ridge import solve
from timeseries.scores import evaluate


def design(network, windows, step):
    """Rows of a least-squares problem for one future row: a column of a window each."""
    batch = windows.__getitems__(list(range(len(windows))))
    past = batch.past.double()
    seen, future = network.regressors(past, batch.moments, batch.known.double())
    told = future[:, None, step].expand(-1, seen.shape[1], -1)
    target = batch.future[:, step].double() - past[:, -1]
    return torch.cat((seen, told), dim=-1).flatten(0, 1), target.flatten()


@pytest.fixture(scope="module")
def data():
    return Made(lookback=10, horizon=3)


@pytest.mark.parametrize("penalty", [0.01, 30.0])
@pytest.mark.parametrize("additive", [None, Seasonal({"day": 2})], ids=["bare", "seasonal"])
@pytest.mark.parametrize("known", [0, 1])
def test_weights_are_those_of_any_other_ridge(data, penalty, additive, known):
    network = Linear(Shape(10, 3, 2, known), additive)
    split = data.split
    if not known:
        split = split._replace(train=bare(split.train), val=bare(split.val))
    shares = []
    solved = solve(network, split.train, split.val, penalties=[penalty], tell=shares.append)
    assert solved.penalty == penalty
    assert shares == sorted(shares) and shares[-1] == 1.0
    errors = []
    for step in range(3):
        x, y = design(network, split.train, step)
        other = Ridge(alpha=penalty, fit_intercept=False, tol=1e-12).fit(x.numpy(), y.numpy())
        weights = torch.from_numpy(other.coef_)
        ours = torch.cat((network.look[:, step], network.read[step])).double()
        torch.testing.assert_close(ours, weights, rtol=1e-5, atol=1e-6)
        x, y = design(network, split.val, step)
        errors.append((x @ weights - y).square().mean())
    assert solved.mse[penalty] == pytest.approx(float(torch.stack(errors).mean()), rel=1e-6)


def bare(windows):
    """The same windows without covariates."""
    other = type(windows).__new__(type(windows))
    other.__dict__ = {**vars(windows), "known": windows.known[:, :0]}
    return other


def test_the_penalty_is_the_best_on_validation(data):
    network = Linear(Shape(10, 3, 2, 1), Seasonal({"day": 6}))
    solved = solve(network, data.split.train, data.split.val, penalties=[1e-2, 1.0, 1e2, 1e4])
    assert list(solved.mse) == [1e-2, 1.0, 1e2, 1e4]
    assert solved.mse[solved.penalty] == min(solved.mse.values())
    again = Linear(Shape(10, 3, 2, 1), Seasonal({"day": 6}))
    solve(again, data.split.train, data.split.val, penalties=[solved.penalty])
    assert torch.equal(network.look, again.look) and torch.equal(network.read, again.read)


def test_what_a_projection_projects_is_taken(data):
    features = Seasonal({"day": 2})
    pair = [Linear(Shape(10, 3, 2, 1), one) for one in (features, Projected(64, features))]
    for network in pair:
        solve(network, data.split.train, data.split.val, penalties=[1.0])
    assert torch.equal(pair[0].read, pair[1].read)
    assert not any("project" in name for name, _ in pair[1].named_parameters())


def test_what_has_to_be_learned_is_refused():
    with pytest.raises(ValueError, match="nothing to learn .* use network='patches'"):
        Linear(Shape(10, 3), Learned(8, 30))


def test_etth1_is_forecast_as_well_as_published(data_dir):
    data = ETT("ETTh1", lookback=336, horizon=96, path=str(data_dir), batch_size=512)
    network = Linear(Shape(336, 96, 7), Seasonal({"day": 4}))
    solve(network, data.split.train, data.split.val)
    scores = evaluate(data, lambda batch: network(batch.past, batch.moments, batch.known)[..., 0])
    assert scores.windows == 2785 and scores.mse <= 0.370
