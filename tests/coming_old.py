"""What people paste into their projects, from the published formulas, with the published keys.

The tutorial's ``PositionalEncoding``, Informer's ``embed.py`` and ``timefeatures.py``, Meta's
``llama/model.py``: in float32 and with a table of ``max_len`` rows, as in all their copies.
"""

import torch
from torch import nn


def waves(rows, dim):
    """A sine and a cosine of each speed side by side, ``(rows, dim)``."""
    speeds = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
    theta = torch.arange(rows).float().outer(speeds)
    return torch.stack((theta.sin(), theta.cos()), dim=-1).flatten(1)


class PositionalEncoding(nn.Module):
    """Vaswani et al. 2017, section 3.5, and dropout of the sum as in section 5.4."""

    def __init__(self, d_model, dropout=0.1, max_len=5000, batch_first=False):
        super().__init__()
        self.dropout, self.batch_first = nn.Dropout(dropout), batch_first
        table = waves(max_len, d_model)
        self.register_buffer("pe", table[None] if batch_first else table[:, None])

    def forward(self, x):
        here = self.pe[:, : x.shape[1]] if self.batch_first else self.pe[: x.shape[0]]
        return self.dropout(x + here)


class PositionalEmbedding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", waves(max_len, d_model)[None])

    def forward(self, x):
        return self.pe[:, : x.shape[1]]


class TokenEmbedding(nn.Module):
    """Zhou et al. 2021, appendix B: a convolution over three steps, around the ends."""

    def __init__(self, c_in, d_model):
        super().__init__()
        self.tokenConv = nn.Conv1d(c_in, d_model, 3, padding=1, padding_mode="circular", bias=False)

    def forward(self, x):
        return self.tokenConv(x.mT).mT


class FixedEmbedding(nn.Module):
    def __init__(self, rows, d_model):
        super().__init__()
        self.emb = nn.Embedding(rows, d_model)
        self.emb.weight = nn.Parameter(waves(rows, d_model), requires_grad=False)

    def forward(self, x):
        return self.emb(x).detach()


class TemporalEmbedding(nn.Module):
    """A row per month, day, weekday and hour, and per quarter of an hour; ``(..., 4 or 5)``."""

    def __init__(self, d_model, embed_type="fixed", freq="h"):
        super().__init__()
        sizes = {"month": 13, "day": 32, "weekday": 7, "hour": 24}
        self.names = [*sizes, "minute"] if freq == "t" else [*sizes]
        kind = FixedEmbedding if embed_type == "fixed" else nn.Embedding
        for name in self.names:
            setattr(self, f"{name}_embed", kind({**sizes, "minute": 4}[name], d_model))

    def forward(self, x):
        columns = x.long().unbind(-1)
        parts = zip(self.names, columns, strict=True)
        return sum(getattr(self, f"{name}_embed")(column) for name, column in parts)


class TimeFeatureEmbedding(nn.Module):
    def __init__(self, d_model, freq="h"):
        super().__init__()
        self.embed = nn.Linear({"h": 4, "t": 5}[freq], d_model, bias=False)

    def forward(self, x):
        return self.embed(x)


class DataEmbedding(nn.Module):
    """Value, place and time stamp, added: Zhou et al. 2021, appendix B."""

    def __init__(self, c_in, d_model, embed_type="fixed", freq="h", dropout=0.1):
        super().__init__()
        self.value_embedding = TokenEmbedding(c_in, d_model)
        self.position_embedding = PositionalEmbedding(d_model)
        if embed_type == "timeF":
            self.temporal_embedding = TimeFeatureEmbedding(d_model, freq)
        else:
            self.temporal_embedding = TemporalEmbedding(d_model, embed_type, freq)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, x_mark):
        places = self.position_embedding(x)
        return self.dropout(self.value_embedding(x) + places + self.temporal_embedding(x_mark))


def time_features(dates, freq="h"):
    """Ramps from -1/2 to 1/2, the finest first, ``(features, N)``: Alexandrov et al. 2019."""
    ramps = [
        dates.hour.to_numpy() / 23,
        dates.day_of_week.to_numpy() / 6,
        (dates.day.to_numpy() - 1) / 30,
        (dates.day_of_year.to_numpy() - 1) / 365,
    ]
    if freq == "t":
        ramps.insert(0, dates.minute.to_numpy() / 59)
    return torch.tensor([list(ramp) for ramp in ramps]).numpy() - 0.5


def precompute_freqs_cis(dim, end, theta=10_000.0):
    """Unit complex numbers ``(end, dim / 2)``: Su et al. 2021, section 3.2.1."""
    speeds = theta ** (-torch.arange(0, dim, 2).float() / dim)
    turns = torch.arange(end).float().outer(speeds)
    return torch.polar(torch.ones_like(turns), turns)


def apply_rotary_emb(xq, xk, freqs_cis):
    """Turn ``(B, N, H, D)``, two neighbours as one complex number."""

    def turned(x):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * freqs_cis[:, None]).flatten(-2).type_as(x)

    return turned(xq), turned(xk)
