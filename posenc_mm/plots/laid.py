"""Where the tokens of a stream are, axis by axis, coloured by what they are of."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_mm.plots.reading import Numbers, axis_names, numbers
from posenc_mm.plots.theme import Theme, figure
from posenc_mm.streams import Modality, Stream

_MARKS = {
    Modality.TEXT: "o",
    Modality.IMAGE: "s",
    Modality.VIDEO: "D",
    Modality.AUDIO: "^",
    Modality.SERIES: "v",
    Modality.POINTS: "P",
}


def stream(
    stream: Stream,
    *,
    row: int = 0,
    unit: str | None = None,
    title: str = "Where the tokens of a stream are",
    theme: str = "light",
) -> Figure:
    """Draw the coordinates of a stream's tokens: one panel per axis, a colour per modality.

    The dashed line is the cursor, where the next text token will be; dotted lines are between the
    documents of a packed row. Padding is left out.

    References:
        Wang et al.: Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
        Resolution (2024), figure 3, https://arxiv.org/abs/2409.12191

    Args:
        stream: what a :class:`posenc_mm.streams.Layout` returns.
        row: of the batch.
        unit: what coordinates count, for the label; positions unless given.
        title: of the figure, such as the name of the design, which a stream does not know.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: something else than a stream, no such row, no token in it, or ``theme`` unknown.

    Example:
        >>> from posenc_mm.streams import Image, Text, layout
        >>> made = stream(layout(Text(2), Image(2, 3), Text(1)))
        >>> [axes.get_ylabel() for axes in made.axes]
        ['time (positions)', 'row (positions)', 'column (positions)']
    """
    if not isinstance(stream, Stream):
        raise ValueError(
            f"stream is for what a Layout returns, such as layout(Text(2), Image(2, 3)), got "
            f"{type(stream).__name__}"
        )
    if not 0 <= row < stream.shape[0]:
        raise ValueError(f"row must be below {stream.shape[0]}, the rows of the stream, got {row}")
    if not stream.mask[row].any():
        raise ValueError(f"row {row} has no token")
    count = stream.coords.shape[-1]
    names = ("time", "row", "column")[:count] if 1 < count <= 3 else axis_names(count)
    with figure(8.0, 1.2 + 1.7 * count, theme) as (made, look):
        panels = made.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for axis, (panel, name) in enumerate(zip(panels, names, strict=True)):
            draw(panel, look, stream, row, axis)
            panel.set_ylabel(f"{name} ({unit or 'positions'})")
        panels[-1].set_xlabel("token (number in order)")
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
        made.suptitle(title)
        return made


def draw(axes: Axes, look: Theme, stream: Stream, row: int, axis: int) -> None:
    """Draw one axis on a panel."""
    kept = stream.mask[row]
    at = numbers(stream.coords[row, kept, axis])
    kinds = numbers(stream.modality[row, kept])
    for index, (kind, mark) in enumerate(_MARKS.items()):
        mine: Numbers = (kinds == kind).nonzero()[0].astype(float)
        if len(mine):
            axes.plot(
                mine,
                at[kinds == kind],
                marker=mark,
                markersize=3.5,
                linestyle="none",
                color=look.lines[index % len(look.lines)],
                label=kind.name.lower(),
            )
    documents = numbers(stream.segment[row, kept])
    for border in (documents[1:] != documents[:-1]).nonzero()[0]:
        axes.axvline(border + 0.5, color=look.text, linewidth=0.8, linestyle=":")
    axes.axhline(
        float(stream.cursor[row]),
        color=look.text,
        linewidth=0.8,
        linestyle="dashed",
        label="cursor",
    )
    axes.grid(True)
