"""Published position designs once more, in plain loops: nothing of ours is imported.

A row is a list of parts: ``("text", n)``, ``("grid", times, rows, columns)`` with one number per
time step in units of position, counted from the block's start, and ``("line", times)``. A design
returns its tokens as lists of three numbers and the position of the next text token.
"""

from __future__ import annotations

import math


def cells(times, rows, columns):
    return [(t, i, j) for t in times for i in range(rows) for j in range(columns)]


def mrope(row, spatial_only=False):
    """Qwen2-VL: all axes from the start of the block; text one past the largest of all."""
    tokens, start = [], 0
    for kind, *rest in row:
        if kind == "text":
            tokens += [[start + k] * 3 for k in range(rest[0])]
            start += rest[0]
        elif kind == "line":
            tokens += [[start + t] * 3 for t in rest[0]]
            start += max(rest[0]) + 1
        else:
            block = [[start + t, start + i, start + j] for t, i, j in cells(*rest)]
            tokens += block
            largest = max(max(token) for token in block)
            start = start + max(rest[1], rest[2]) if spatial_only else largest + 1
    return tokens, start


def diagonal(row, step):
    """VideoRoPE: rows and columns around the time of their frame; text one past the last time."""
    tokens, start = [], 0
    for kind, *rest in row:
        if kind == "text":
            tokens += [[start + k] * 3 for k in range(rest[0])]
            start += rest[0]
            continue
        times, rows, columns = rest
        for t, i, j in cells(times, rows, columns):
            now = start + step * t
            tokens.append([now, now + i - (rows - 1) // 2, now + j - (columns - 1) // 2])
        start = start + step * max(times) + 1
    return tokens, start


def reset(row, step):
    """MRoPE-I with spatial reset: time alone from the start of the block."""
    tokens, start = [], 0
    for kind, *rest in row:
        if kind == "text":
            tokens += [[start + k] * 3 for k in range(rest[0])]
            start += rest[0]
            continue
        times, rows, columns = rest
        tokens += [[start + step * t, i, j] for t, i, j in cells(times, rows, columns)]
        start += max(step * max(times) + 1, rows, columns)
    return tokens, start


def scaled(row, scale):
    """MM-RoPE: every axis in units of pixels and frames."""
    tokens, start = [], 0
    for kind, *rest in row:
        if kind == "text":
            tokens += [[start + k] * 3 for k in range(rest[0])]
            start += rest[0]
            continue
        block = [[start + s * c for s, c in zip(scale, cell, strict=True)] for cell in cells(*rest)]
        tokens += block
        start = max(max(token) for token in block) + 1
    return tokens, start


def spanned(row, span):
    """V2PE: a block's tokens share a few positions of one axis, the last of them whole."""
    tokens, last = [], -1
    for kind, *rest in row:
        if kind == "text":
            tokens += [[last + 1 + k] for k in range(rest[0])]
            last += rest[0]
            continue
        count = len(rest[0]) * rest[1] * rest[2]
        tokens += [[last + (k + 1) * span / count] for k in range(count)]
        last = math.ceil(last + span)
    return tokens, last + 1


def merged(start, video, audio, chunk=None):
    """TMRoPE: video and audio from one start, by time, video first at equal times.

    With a chunk, all video of the first so many positions, then all audio of them, and so on.
    """
    frames = [[start + t, start + i, start + j] for t, i, j in cells(*video)]
    sounds = [[start + t] * 3 for t in audio]
    if chunk is None:
        tokens = []
        while frames or sounds:
            first = frames if frames and (not sounds or frames[0][0] <= sounds[0][0]) else sounds
            tokens.append(first.pop(0))
        return tokens
    tokens, end = [], start + chunk
    while frames or sounds:
        for queue in (frames, sounds):
            while queue and queue[0][0] < end:
                tokens.append(queue.pop(0))
        end += chunk
    return tokens


def turned(x, angles):
    """Half layout, one vector of 2 F channels at a time: channels (k, k + F) turn by angle k."""
    half = len(x) // 2
    first = [x[k] * math.cos(a) - x[k + half] * math.sin(a) for k, a in enumerate(angles)]
    second = [x[k] * math.sin(a) + x[k + half] * math.cos(a) for k, a in enumerate(angles)]
    return first + second


def ladder(pairs, base=10_000.0):
    return [base ** (-k / pairs) for k in range(pairs)]


def sectioned(position, counts, base=10_000.0):
    """M-RoPE's angles: slices of one ladder, axis after axis."""
    speeds, angles, k = ladder(sum(counts), base), [], 0
    for axis, count in enumerate(counts):
        for _ in range(count):
            angles.append(position[axis] * speeds[k])
            k += 1
    return angles
