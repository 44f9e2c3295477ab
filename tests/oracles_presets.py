"""The published presets again, from papers and codes: float64, plain loops, nothing of ours."""

import math

import torch


def table(rows):
    return torch.tensor(rows, dtype=torch.float64)


def cells(*sizes):
    """Index of every cell, the last axis fastest."""
    points = [()]
    for size in sizes:
        points = [(*point, i) for point in points for i in range(size)]
    return points


def ladder(count, base):
    return [base ** (-i / count) for i in range(count)]


def sines_then_cosines(at, row):
    return [math.sin(at * f) for f in row] + [math.cos(at * f) for f in row]


def mae(height, width, dim, base=10_000.0):
    row = ladder(dim // 4, base)
    return table(
        [
            sines_then_cosines(x, row) + sines_then_cosines(y, row)
            for y in range(height)
            for x in range(width)
        ]
    )


def moco_v3(height, width, dim, base=10_000.0):
    row = ladder(dim // 4, base)
    return table(
        [
            sines_then_cosines(y, row) + sines_then_cosines(x, row)
            for y in range(height)
            for x in range(width)
        ]
    )


def big_vision(height, width, dim, base=10_000.0):
    count = dim // 4
    row = [1 / base ** (i / (count - 1)) for i in range(count)]
    return table(
        [
            sines_then_cosines(x, row) + sines_then_cosines(y, row)
            for y in range(height)
            for x in range(width)
        ]
    )


def timm(height, width, dim, base=10_000.0):
    row = ladder(dim // 4, base)
    rows = []
    for y in range(height):
        for x in range(width):
            both = [at * f for at in (y, x) for f in row]
            rows.append([math.sin(a) for a in both] + [math.cos(a) for a in both])
    return table(rows)


def detr(height, width, dim, offset=1.0, base=10_000.0):
    row = ladder(dim // 4, base)
    rows = []
    for y in range(height):
        for x in range(width):
            code = []
            for i, n in ((y, height), (x, width)):
                at = (i + offset) / (n + 1e-6) * 2 * math.pi
                for f in row:
                    code += [math.sin(at * f), math.cos(at * f)]
            rows.append(code)
    return table(rows)


def pixart(height, width, dim, reference, scale):
    row = ladder(dim // 4, 10_000.0)
    return table(
        [
            sines_then_cosines(x / (width / reference) / scale, row)
            + sines_then_cosines(y / (height / reference) / scale, row)
            for y in range(height)
            for x in range(width)
        ]
    )


def vjepa(sizes, dim, uniform):
    widths = [2 * math.ceil(dim / 6)] * 3 if uniform else [dim // 2, dim // 4, dim // 4]
    rows = []
    for point in cells(*sizes):
        code = []
        for at, width in zip(point, widths, strict=True):
            code += sines_then_cosines(at, ladder(width // 2, 10_000.0))
        rows.append(code[:dim])
    return table(rows)


def cogvideox_sincos(sizes, dim, spatial, temporal):
    time, space = ladder(dim // 8, 10_000.0), ladder(3 * dim // 16, 10_000.0)
    return table(
        [
            sines_then_cosines(t / temporal, time)
            + sines_then_cosines(x / spatial, space)
            + sines_then_cosines(y / spatial, space)
            for t, y, x in cells(*sizes)
        ]
    )


# ------------------------------------------------------------ angles, pair by pair


def eva02(height, width, head_dim, reference=None, base=10_000.0):
    rows = []
    for y, x in cells(height, width):
        if reference:
            y, x = y / height * reference[0], x / width * reference[1]
        rows.append([at * f for at in (y, x) for f in ladder(head_dim // 4, base)])
    return table(rows)


def column_first(height, width, head_dim, base, offset=0):
    row = ladder(head_dim // 4, base)
    return table(
        [[(at + offset) * f for at in (x, y) for f in row] for y, x in cells(height, width)]
    )


def pixtral(height, width, head_dim, base=10_000.0):
    whole = ladder(head_dim // 2, base)
    return table(
        [
            [y * f for f in whole[0::2]] + [x * f for f in whole[1::2]]
            for y, x in cells(height, width)
        ]
    )


def pixel(height, width, head_dim, resolution, log):
    count = head_dim // 4
    row = []
    for i in range(count):
        part = i / (count - 1)
        if log:
            row.append(math.pi * 2 ** (part * (math.log2(resolution) - 1)))
        else:
            row.append(math.pi * (1 + part * (resolution / 2 - 1)))
    rows = []
    for y, x in cells(height, width):
        ends = [-1 + 2 * i / (n - 1) for i, n in ((y, height), (x, width))]
        rows.append([at * f for at in ends for f in row])
    return table(rows)


def dinov3(height, width, head_dim, by="axis", base=100.0, periods=None):
    count = head_dim // 4
    if periods:
        low, high = periods
        lengths = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    else:
        lengths = [base ** (2 * i / (head_dim / 2)) for i in range(count)]
    divisors = {"axis": (height, width), "min": (min(height, width),) * 2}
    divisors["max"] = (max(height, width),) * 2
    rows = []
    for y, x in cells(height, width):
        centres = [2 * (i + 0.5) / n - 1 for i, n in zip((y, x), divisors[by], strict=True)]
        rows.append([2 * math.pi * at / length for at in centres for length in lengths])
    return table(rows)


def fit(height, width, head_dim, scales, rule):
    dim = head_dim // 2
    rows = []
    for point in cells(height, width):
        angles = []
        for at, scale in zip(point, scales, strict=True):
            for j in range(0, dim, 2):
                if rule == "linear":
                    angles.append(at / (scale * 10_000.0 ** (j / dim)))
                else:
                    angles.append(at / (10_000.0 * scale ** (dim / (dim - 2))) ** (j / dim))
        rows.append(angles)
    return table(rows)


def video(sizes, widths, coordinates=None, base=10_000.0):
    """Angles of blocks for time, row and column; coordinates per axis unless indices."""
    rows = []
    for point in cells(*sizes):
        at = (
            point
            if coordinates is None
            else [c[i] for c, i in zip(coordinates, point, strict=True)]
        )
        rows.append(
            [a * f for a, width in zip(at, widths, strict=True) for f in ladder(width // 2, base)]
        )
    return table(rows)


def turned(x, angles, layout):
    """Turns x (..., N, D) pair by pair; what no pair claims passes."""
    out = x.clone()
    pairs = angles.shape[-1]
    for n in range(angles.shape[0]):
        for i in range(pairs):
            quarter, within = pairs // 2, i % (pairs // 2)
            members = {
                "interleaved": (2 * i, 2 * i + 1),
                "half": (i, i + pairs),
                "axis_half": (2 * (i - within) + within, 2 * (i - within) + within + quarter),
            }
            a, b = members[layout]
            c, s = math.cos(angles[n, i]), math.sin(angles[n, i])
            out[..., n, a] = x[..., n, a] * c - x[..., n, b] * s
            out[..., n, b] = x[..., n, a] * s + x[..., n, b] * c
    return out


def vjepa2(x, sizes, base=10_000.0):
    """What V-JEPA 2's code does to x (..., N, D): neighbours mixed by angles of another order."""
    part = 2 * (x.shape[-1] // 3 // 2)
    row = ladder(part // 2, base)
    out = x.clone()
    for n, point in enumerate(cells(*sizes)):
        for axis, at in enumerate(point):
            for j in range(part):
                channel = axis * part + j
                partner = channel + 1 if j % 2 == 0 else channel - 1
                sign = -1 if j % 2 == 0 else 1
                angle = at * row[j % (part // 2)]
                first, second = x[..., n, channel], x[..., n, partner]
                out[..., n, channel] = first * math.cos(angle) + sign * second * math.sin(angle)
    return out
