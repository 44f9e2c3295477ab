"""Whether forecasts know what they are to forecast: change it, and see whether they move."""

import torch
from torch import Tensor

from timeseries.data import Batch
from timeseries.module import Forecaster
from timeseries.networks import Patches


def leaks(model: Forecaster, batch: Batch) -> float:
    """Measure what moves that must not, when what lies ahead is another: 0 where nothing leaks.

    Forecasts must not move with the values to forecast; they may with the moments of future rows
    and with what is known of them in advance. Encodings of tokens of the past must not move with
    the moments of future rows, which here are half as far ahead.

    Args:
        model: to test, as it is in ``eval()``.
        batch: windows.

    Returns:
        The largest change.
    """
    training = model.training
    model.eval()
    seen, ahead = batch.moments.split([batch.past.shape[1], batch.future.shape[1]], dim=1)
    sooner = torch.cat((seen, (seen[:, -1:] + ahead) / 2), dim=1)
    with torch.no_grad():
        values = [
            model.forecast(batch._replace(future=future))
            for future in (batch.future, 1e3 * torch.randn_like(batch.future))
        ]
        past = [_past(model, moments) for moments in (batch.moments, sooner)]
    model.train(training)
    pairs = zip([values[0], *past[0]], [values[1], *past[1]], strict=True)
    return max(float((after - before).abs().max()) for before, after in pairs)


def _past(model: Forecaster, moments: Tensor) -> list[Tensor]:
    """What is encoded of the tokens of the past; other networks than patches encode none."""
    network = model.network
    if not isinstance(network, Patches):
        return []
    positions, encoder = network.positions(moments), network.transformer
    seen = slice(None, -network.ahead)
    encoded = [positions[:, seen]]
    if encoder.additive is not None:
        encoded.append(encoder.additive(positions)[:, seen])
    if encoder.rotary is not None:
        rotation = encoder.rotary(positions)
        encoded += [rotation.cos[..., seen, :], rotation.sin[..., seen, :]]
    if encoder.bias is not None:
        encoded.append(encoder.bias(positions, positions)[..., seen, seen])
    return encoded
