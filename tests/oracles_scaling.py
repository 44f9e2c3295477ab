"""Context extension once more, from the papers: plain loops in float64, nothing of the library."""

from __future__ import annotations

import math


def plain(d, b):
    """Su et al. 2021, https://arxiv.org/abs/2104.09864."""
    return [1.0 / b ** (2 * i / d) for i in range(d // 2)]


def linear(d, b, s):
    """Chen et al. 2023, https://arxiv.org/abs/2306.15595."""
    return [1.0 / b ** (2 * i / d) / s for i in range(d // 2)]


def ntk(d, b, s):
    """The base itself changes: Peng et al. 2023, section 3.1, https://arxiv.org/abs/2309.00071."""
    return plain(d, b * s ** (d / (d - 2)))


def ntk_fixed(d, b, s):
    """Su 2023, https://kexue.fm/archives/9706, equation 6: base times s, and a constant."""
    return [f / s ** (2 / d) for f in plain(d, b * s)]


def ntk_mixed(d, b, s, power):
    """Su 2023, https://kexue.fm/archives/9706, equations 10 to 13."""
    a = math.log(s) / (d / 2) ** power
    return [f / math.exp(a * (i + 1) ** power) for i, f in enumerate(plain(d, b))]


def dynamic_ntk(d, b, s, trained, length):
    """Peng et al. 2023, section 3.3 with NTK, https://arxiv.org/abs/2309.00071."""
    length = max(length, trained)
    return plain(d, b * (s * length / trained - (s - 1)) ** (d / (d - 2)))


def pair_of(turns, d, b, trained):
    """The fractional pair that makes so many turns: b^(2i/d) * 2 pi * turns = trained."""
    return d / 2 * math.log(trained / (2 * math.pi * turns), b)


def rising(i, low, high):
    if i <= low:
        return 0.0
    if i >= high:
        return 1.0
    return (i - low) / (high - low)


def yarn(d, b, s, trained, fast=32.0, slow=1.0, truncate=True, last=None):
    """Peng et al. 2023, section 3.2, https://arxiv.org/abs/2309.00071, bounds as in its code."""
    low, high = pair_of(fast, d, b, trained), pair_of(slow, d, b, trained)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1 if last is None else last)
    out = []
    for i, f in enumerate(plain(d, b)):
        keep = 1.0 - rising(i, low, high)
        out.append(keep * f + (1.0 - keep) * f / s)
    return out


def yarn_log(d, b, s, trained):
    """The same ramp between logarithms of speeds."""
    mixed = yarn(d, b, s, trained)
    out = []
    for f, g in zip(plain(d, b), mixed, strict=True):
        share = (f - g) / (f - f / s)
        out.append(math.exp((1 - share) * math.log(f) + share * math.log(f / s)))
    return out


def by_parts(d, b, s, trained, beta=(1.25, 0.75), gamma=(16.0, 2.0)):
    """The YaRN repository's part-NTK: interpolated, larger base, as trained."""
    out = []
    larger = ntk(d, b, s)
    for i, f in enumerate(plain(d, b)):
        ends = [pair_of(turns, d, b, trained) for turns in (*beta, *gamma)]
        low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), d - 1)
        mask = 1.0 - rising(i, low, high)
        value = f / s * (1 - mask) + larger[i] * mask
        low, high = max(math.floor(ends[2]), 0), min(math.ceil(ends[3]), d - 1)
        mask = 1.0 - rising(i, low, high)
        out.append(value * (1 - mask) + f * mask)
    return out


def llama3(d, b, s, trained, low, high):
    """Llama Team 2024, https://arxiv.org/abs/2407.21783, three cases of wavelength."""
    out = []
    for f in plain(d, b):
        wave = 2 * math.pi / f
        if wave < trained / high:
            out.append(f)
        elif wave > trained / low:
            out.append(f / s)
        else:
            smooth = (trained / wave - low) / (high - low)
            out.append((1 - smooth) * f / s + smooth * f)
    return out


def proportional(d, b, share, s=1.0):
    """Barbero et al. 2024, https://arxiv.org/abs/2410.06205: the slow end stands."""
    turning = int(share * d / 2)
    return [plain(d, b)[i] / s if i < turning else 0.0 for i in range(d // 2)]


def resonance(row):
    """Wang et al. 2024, https://arxiv.org/abs/2403.00071."""
    out = []
    for f in row:
        wave = 2 * math.pi / f
        below = math.floor(wave)
        out.append(2 * math.pi / (below if wave - below < 0.5 else below + 1))
    return out


def riflex(d, b, k, length, margin=0.9):
    """Zhao et al. 2025, https://arxiv.org/abs/2502.15894, equation 8; k counts from 1."""
    row = plain(d, b)
    row[k - 1] = margin * 2 * math.pi / length
    return row


def turned(x, angles, half, amplitude=1.0):
    """One token's channels, pair by pair."""
    out = list(x)
    count = len(angles)
    for i, angle in enumerate(angles):
        a, b = (i, i + count) if half else (2 * i, 2 * i + 1)
        out[a] = amplitude * (x[a] * math.cos(angle) - x[b] * math.sin(angle))
        out[b] = amplitude * (x[a] * math.sin(angle) + x[b] * math.cos(angle))
    return out
