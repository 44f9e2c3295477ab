"""Eight pictures in one: what the kinds of encodings do."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_mm.additive import Sinusoidal
from posenc_mm.bias import ALiBi
from posenc_mm.plots.added import cosines, heat, maps
from posenc_mm.plots.against import heads, lines
from posenc_mm.plots.clocks import day
from posenc_mm.plots.laid import draw
from posenc_mm.plots.logits import asked
from posenc_mm.plots.planar import both, trail
from posenc_mm.plots.reading import DATES, grid_of_tokens, numbers
from posenc_mm.plots.speeds import of_pairs
from posenc_mm.plots.theme import Theme, figure
from posenc_mm.plots.turned import scores
from posenc_mm.positions import grid, sequence
from posenc_mm.rotary import Rotary
from posenc_mm.scaling import YaRN
from posenc_mm.streams import Audio, Image, Layout, Text, Together, Video
from posenc_mm.timestamps import zone_of


def overview(*, theme: str = "light") -> Figure:
    """Draw each kind of picture once, of the encoding that it tells most of.

    Args:
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: ``theme`` is unknown.

    Example:
        >>> len([axes for axes in overview().axes if axes.get_title()])
        8
    """
    with figure(14.4, 6.6, theme, dpi=84) as (made, look):
        panels = made.subplots(2, 4)
        sinusoidal, pictured = panels[0, 0], panels[0, 1]
        image = heat(sinusoidal, look, Sinusoidal(64), sequence(80).double())
        made.colorbar(image, ax=sinusoidal, pad=0.02, label="value (no unit)")
        sinusoidal.set(title="Sinusoidal: added to tokens", xlabel="channel")
        patches, encoding = grid(9, 12).double(), Sinusoidal(64, axes=2, base=100.0)
        layout = grid_of_tokens(patches)
        if layout is not None:
            image = maps(pictured, look, cosines(encoding, patches), layout, 5)
        made.colorbar(image, ax=pictured, pad=0.02, label="cosine (no unit)")
        pictured.set(title="Sinusoidal, 2-D: alike patches")
        _rotary(made, look, panels[0, 2], panels[0, 3])
        _lengths(look, panels[1, 0])
        _bias(made, look, panels[1, 1])
        _clocks(made, look, panels[1, 2])
        _stream(look, panels[1, 3])
        return made


def _rotary(made: Figure, look: Theme, turning: Axes, falling: Axes) -> None:
    token, positions = (1.0, 0.5), sequence(20).double()
    _, turned = both(Rotary(64), positions, token, pair=5, head=0)
    points = trail(turning, look, None, turned)
    made.colorbar(points, ax=turning, pad=0.02, label="position (tokens)")
    turning.set(title="Rotary: a pair of channels turns")
    positions, rotary = sequence(200).double(), Rotary(128)
    away = numbers(positions[-1] - positions[:, 0])
    falling.plot(away, scores(rotary, positions[-1:], positions)[0], color=look.lines[0])
    falling.set(
        title="Rotary: scores of equal vectors",
        xlabel="distance (tokens)",
        ylabel="relative to distance 0 (no unit)",
    )
    falling.grid(True)


def _lengths(look: Theme, axes: Axes) -> None:
    ends = (("trained", 4096, "dashed"), ("wanted", 16_384, "solid"))
    pairs, turns, _ = of_pairs(Rotary(128))
    axes.plot(pairs, turns, "o", color=look.text, markersize=2.5, label="before")
    pairs, turns, _ = of_pairs(Rotary(128, scaling=YaRN(4.0, original_length=4096)))
    axes.plot(pairs, turns, "o", color=look.lines[0], markersize=2.5, label="after YaRN")
    for name, length, style in ends:
        axes.axhline(length, color=look.lines[1], linestyle=style, linewidth=1.2, label=name)
    axes.set(
        title="Rotary, stretched: one turn of each pair",
        xlabel="pair of channels (number)",
        ylabel="wavelength (tokens)",
        yscale="log",
    )
    axes.legend(fontsize=7)


def _clocks(made: Figure, look: Theme, axes: Axes) -> None:
    # Of 2024, from the first moment to the last.
    image = day(axes, look, zone_of("Europe/London"), 1_704_067_200, 1_735_689_600)
    made.colorbar(image, ax=axes, pad=0.02, label="phase of the day (share passed)")
    quarters = DATES.MonthLocator(bymonth=(1, 4, 7, 10))
    axes.xaxis.set_major_locator(quarters)
    axes.xaxis.set_major_formatter(DATES.ConciseDateFormatter(quarters, show_offset=False))
    axes.set_title("Seasons: the day on London's clocks", pad=18.0)
    axes.set_xlabel("date (UTC), 2024")


def _bias(made: Figure, look: Theme, axes: Axes) -> None:
    positions = sequence(65).double()
    away = np.arange(65.0) - 32
    lines(axes, look, away, asked(ALiBi(8), positions[32:33], positions))
    axes.set(
        title="ALiBi: added to the logits",
        xlabel="key less query (tokens)",
        ylabel="bias (no unit)",
        ylim=(-16.5, 0.5),
    )
    heads(made, axes, look)


def _stream(look: Theme, axes: Axes) -> None:
    film = Together(Video([0.0, 0.5, 1.0, 2.5, 3.0], 3, 4), Audio(count=20, rate=5.0))
    row = Layout(scale=(4.0,))(Text(12), Image(4, 6), Text(8), film, Text(10))
    draw(axes, look, row, 0, 0)
    axes.set(
        title="A stream on one clock",
        xlabel="token (number in order)",
        ylabel="time (positions)",
    )
    axes.legend(fontsize=7)
