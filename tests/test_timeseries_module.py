"""A forecaster trained, tested and saved, without a command line."""

import pytest
import torch

pytest.importorskip("lightning")
from lightning.pytorch import Trainer
from made_series import Made

from posenc_mm import (
    AdditiveEncoding,
    ALiBi,
    Calendar,
    Horizon,
    Learned,
    Projected,
    Seasonal,
    T5Bias,
    TimeRotary,
)
from timeseries.leaks import leaks
from timeseries.metrics import pinball
from timeseries.module import Forecaster, UsageError
from timeseries.scores import across_change, evaluate

L, H, V, F = 24, 6, 2, 1
SMALL = {"patch": 6, "dim": 16, "depth": 1, "heads": 2}
MANY = pytest.mark.filterwarnings("ignore:The number of training batches")


def forecaster(**given):
    return Forecaster(L, H, **{"variates": V, "known_width": F, **given})


def patches(**given):
    return forecaster(network="patches", network_args={**SMALL, **given.pop("args", {})}, **given)


def trainer(epochs=1, **given):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    return Trainer(
        accelerator="cpu", max_epochs=epochs, enable_checkpointing=False, **{**quiet, **given}
    )


def trained(model, data, epochs=1):
    model.configure_optimizers = lambda: torch.optim.AdamW(model.parameters(), 3e-3)
    trainer(epochs).fit(model, datamodule=data)
    return model.eval()


@pytest.fixture(scope="module")
def data():
    """The clocks are set within the windows of the test."""
    return Made(L, H, tz="Europe/Berlin", start="2024-03-14T10:00", batch_size=32)


@pytest.fixture(scope="module")
def batch(data):
    return data.split.test.__getitems__([0, 40, 80])


@MANY
def test_a_linear_network_is_solved_for_and_nothing_trains_it(data):
    model = forecaster(additive=Seasonal({"day": 2}), zone=data.zone)
    fitted = trainer(epochs=5)
    fitted.fit(model, datamodule=data)
    assert fitted.global_step == 1 and fitted.current_epoch == 1
    solved = {name: value.clone() for name, value in model.state_dict().items()}
    model.on_fit_start()
    assert solved.keys() == {"network.look", "network.read"}
    assert all(torch.equal(solved[name], value) for name, value in model.state_dict().items())
    assert float(fitted.callback_metrics["val/mse"]) < 0.2


def test_errors_are_means_over_every_value_of_every_window(data):
    model = forecaster(additive=Seasonal({"day": 2}), zone=data.zone)
    torch.nn.init.normal_(model.network.look, std=0.1)
    (tested,) = trainer().test(model, datamodule=data, verbose=False)
    scores = evaluate(data, model.point)
    assert tested["test/mse"] == pytest.approx(scores.mse, rel=1e-6)
    assert tested["test/mae"] == pytest.approx(scores.mae, rel=1e-6)
    assert tested["test/mae_clock_change"] == pytest.approx(scores.mae_change, rel=1e-6)
    assert tested["test/mae_rest"] == pytest.approx(scores.mae_rest, rel=1e-6)
    windows = [tested[f"test/windows_{which}"] for which in ("clock_change", "rest")]
    assert windows == [scores.changes, scores.windows - scores.changes]
    changed = across_change(torch.stack([w.moments for w in data.split.test]), model.zone)
    assert windows[0] == int(changed.sum()) == 2 * (L + H - 1)
    (other,) = trainer().test(forecaster(zone="UTC"), datamodule=data, verbose=False)
    assert other.keys() == {"test/mse", "test/mae"}


@MANY
def test_a_transformer_learns_and_starts_from_the_linear_network_beside(data):
    model = patches(additive=Seasonal({"day": 2}), args={"linear": True, "dropout": 0.0})
    alone = forecaster(additive=Seasonal({"day": 2}))
    trainer().fit(alone, datamodule=data)
    model.configure_optimizers = lambda: torch.optim.AdamW(model.parameters(), 0.0)
    trainer(limit_train_batches=1).fit(model, datamodule=data)
    assert torch.equal(model.linear.look, alone.network.look)
    assert evaluate(data, model.point).mse == pytest.approx(evaluate(data, alone.point).mse)
    assert not any(p.requires_grad for p in model.linear.parameters())
    before = evaluate(data, patches().point).mse
    assert evaluate(data, trained(patches(rotary=rotary()), data, epochs=3).point).mse < before / 2


def rotary():
    return TimeRotary(8, step="6h", span="29h")


@MANY
@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_losses(data, batch, loss):
    model = patches(loss=loss)
    model.log = lambda *_, **__: None
    error = (model.eval().point(batch) - batch.future).double()
    wanted = {
        "mse": error.square(),
        "mae": error.abs(),
        "huber": torch.where(error.abs() < 1, error.square() / 2, error.abs() - 0.5),
    }
    torch.testing.assert_close(
        model.training_step(batch, 0).double(), wanted[loss].mean(), rtol=1e-5, atol=1e-6
    )


@MANY
def test_quantiles(data, batch):
    quantiles = [0.1, 0.5, 0.8]
    model = patches(quantiles=quantiles, loss="quantile")
    trained(model, data, epochs=4)
    with torch.no_grad():
        forecast = model.forecast(batch)
    assert (forecast.diff(dim=-1) >= 0).all()
    assert torch.equal(model.point(batch), forecast[..., 1])
    (tested,) = trainer().test(model, datamodule=data, verbose=False)
    inside, losses = [], []
    for one in data.test_dataloader():
        with torch.no_grad():
            forecast = model.forecast(one)
        inside.append((forecast[..., 0] <= one.future) & (one.future <= forecast[..., 2]))
        losses.append(pinball(forecast, one.future, quantiles).mean((1, 2, 3)))
    assert tested["test/coverage"] == pytest.approx(float(torch.cat(inside).double().mean()))
    assert tested["test/pinball"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
    assert 0.3 < tested["test/coverage"] < 1


def test_the_quantile_loss_is_least_at_the_quantile():
    values = torch.arange(100.0)
    guesses = torch.arange(0.0, 100.0, 0.5)[:, None, None, None].expand(-1, 100, 1, 1)
    future = values[None, :, None].expand(len(guesses), -1, -1)
    best = pinball(guesses, future, [0.8]).mean((1, 2, 3)).argmin()
    assert float(guesses[best, 0, 0, 0]) == pytest.approx(79.5, abs=0.5)


def test_predictions_are_in_the_units_of_each_series(data):
    model = forecaster()
    (first, *_, last) = trainer().predict(model, datamodule=data)
    windows = data.split.test
    assert first.dtype == torch.float64 and first.shape == (32, H, V, 1)
    # An untrained linear network repeats the last value.
    for predicted, window, series in ((first[0], windows[0], 0), (last[-1], windows[-1], 1)):
        north = data.series[series]
        row = int((north.axis.seconds() == window.moments[L - 1]).nonzero())
        wanted = north.values[row].expand(H, V)
        torch.testing.assert_close(predicted[..., 0], wanted, rtol=1e-5, atol=1e-5)


SLOTS = {
    "additive": {"additive": Calendar(["hour", "day_of_year"], zone="Europe/Berlin")},
    "rotary": {"rotary": rotary()},
    "bias": {"bias": T5Bias(2, step=3600.0)},
    "rows": {"additive": Horizon(L), "bias": ALiBi(2), "clock": "row"},
    "linear": {"args": {"linear": True}, "additive": Seasonal({"day": 2})},
    "quantiles": {"quantiles": [0.2, 0.5], "loss": "quantile"},
}


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_nothing_leaks(batch, slots):
    model = patches(**slots).train()
    assert leaks(model, batch) == 0
    assert model.training
    assert leaks(forecaster(), batch) == 0


class Share(AdditiveEncoding):
    """Where a moment is between the first and the last: the past knows how long the future is."""

    dim = 1

    def forward(self, positions):
        first, last = positions[..., :1, :], positions[..., -1:, :]
        return ((positions - first) / (last - first)).float()


def test_what_leaks_is_found(batch):
    assert leaks(patches(additive=Share()), batch) > 0.01


def test_an_encoding_of_another_width_is_projected():
    model = patches(additive=Seasonal({"day": 2}))
    hosted = model.network.transformer.additive
    assert isinstance(hosted, Projected) and (hosted.width, hosted.dim) == (4, 16)
    own = Projected(16, Seasonal({"day": 2}))
    assert patches(additive=own).network.transformer.additive is own


def test_the_linear_network_beside_knows_what_needs_no_training():
    for additive, clock, known in [
        (Seasonal({"day": 2}), "time", True),
        (Projected(16, Seasonal({"day": 2})), "time", True),
        (Horizon(L), "row", False),
        (Learned(16, 30), "row", False),
        (None, "time", False),
    ]:
        model = patches(additive=additive, clock=clock, args={"linear": True})
        assert (model.linear.encode is not None) == known


@pytest.mark.parametrize("network", ["patches", "variates"])
def test_columns_can_be_told_apart(network):
    args = {"dim": 16, "heads": 2, "depth": 1, "variate": "learned"}
    model = forecaster(
        network=network, network_args=args | ({"patch": 6} if "p" in network else {})
    )
    assert model.network.variate.sizes == (V + F if network == "variates" else V,)
    assert model.encodings["variate"].startswith("Learned(dim=16")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"network": "lstm"}, "network must be one of linear, patches, variates, got"),
        ({"rotary": rotary()}, "network='linear' has no place for rotary: use network='patches'"),
        ({"clock": "row"}, "network='linear' has no place for a clock of rows"),
        ({"additive": Learned(8, 30)}, "additive of a linear network must have nothing to learn"),
        ({"network": "variates", "clock": "row"}, "'variates' has no place for a clock of rows"),
        ({"network": "patches", "network_args": {"widht": 3}}, "must be some of .*'depth', 'dim'"),
        ({"network": "patches", "network_args": {"variate": 3}}, "variate must be 'learned'"),
        ({"loss": "rmse"}, "loss must be one of mse, mae, huber, or 'quantile'"),
        ({"loss": "quantile"}, "'quantile' just where quantiles are given"),
        ({"quantiles": [0.5]}, "got loss='mse' and quantiles=.0.5."),
        ({"quantiles": [0.9, 0.5], "loss": "quantile"}, "quantiles must rise between 0 and 1"),
        ({"quantiles": [0.1, 0.9], "loss": "quantile"}, "must have the median, 0.5"),
        ({"quantiles": [0.5], "loss": "quantile"}, "use network='patches'"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        forecaster(**given)


def test_training_wants_an_optimizer(data):
    with pytest.raises(UsageError, match="an optimizer must be given"):
        trainer().fit(patches(), datamodule=data)
