"""Resizing once more, in plain loops over Python floats: nothing of the library or of torch."""

import math


def cubic(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def triangle(x):
    return max(0.0, 1 - abs(x))


def weights(n, m, kernel, antialias=False, align_corners=False, offset=0.0):
    """For each of m new entries, {old entry: weight} over the n that there are."""
    rows = []
    for i in range(m):
        row = dict.fromkeys(range(n), 0.0)
        if kernel == "area":
            first, last = math.floor(i * n / m + 1e-9), math.ceil((i + 1) * n / m - 1e-9)
            for j in range(first, last):
                row[j] = 1 / (last - first)
        elif kernel == "nearest":
            row[math.floor((i + 0.5) * n / m + 1e-9)] = 1.0
        elif antialias:
            step = n / (m + offset)
            wide, centre = max(step, 1.0), (i + 0.5) * step
            raw = {}
            for j in range(n):
                x = (j + 0.5 - centre) / wide
                raw[j] = cubic(x, -0.5) if kernel == "cubic" else triangle(x)
            total = sum(raw.values())
            row = {j: w / total for j, w in raw.items()}
        else:
            if align_corners:
                at = i * (n - 1) / (m - 1) if m > 1 else 0.0
            else:
                at = (i + 0.5) * n / (m + offset) - 0.5
            reach = range(-1, 3) if kernel == "cubic" else range(2)
            for shift in reach:
                near = math.floor(at) + shift
                w = cubic(at - near, -0.75) if kernel == "cubic" else triangle(at - near)
                row[min(max(near, 0), n - 1)] += w
        rows.append(row)
    return rows


def resize_grid(grid, height, width, *rule, **options):
    """A grid of numbers, a list of rows, at another height and width."""
    down = weights(len(grid), height, *rule, **options)
    across = weights(len(grid[0]), width, *rule, **options)
    out = []
    for row in down:
        out.append([])
        for column in across:
            pairs = ((row[y] * column[x], grid[y][x]) for y in row for x in column)
            out[-1].append(sum(weight * value for weight, value in pairs))
    return out


def geometric_places(window, target):
    """Where the offsets of a window are put so that they reach those of another."""
    low, high = 1.01, 1.5
    while high - low > 1e-6:
        q = (low + high) / 2
        if sum(q**k for k in range(window - 1)) > target - 1:
            high = q
        else:
            low = q
    right = [0.0]
    for k in range(window - 1):
        right.append(right[-1] + q**k)
    return [-x for x in right[:0:-1]] + right


def read_line(places, values, at):
    """The value at a place, on the line between the two around it, or the outermost."""
    if at <= places[0]:
        return values[0]
    for k in range(len(places) - 1):
        if at <= places[k + 1]:
            share = (at - places[k]) / (places[k + 1] - places[k])
            return (1 - share) * values[k] + share * values[k + 1]
    return values[-1]


def geometric(table, window, target):
    """Offsets of a window, a grid of (2h-1) x (2w-1) numbers, for another window."""
    tall, wide = (geometric_places(n, m) for n, m in zip(window, target, strict=True))
    columns = range(1 - target[1], target[1])
    across = [[read_line(wide, row, x) for x in columns] for row in table]
    return [
        [read_line(tall, [row[x] for row in across], y) for x in range(len(columns))]
        for y in range(1 - target[0], target[0])
    ]
