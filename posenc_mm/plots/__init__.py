"""Pictures of encodings, as matplotlib figures (extra: plot).

Each function takes an encoding and positions, and returns a :class:`matplotlib.figure.Figure` that
pyplot knows nothing of: a notebook shows it, a logger takes it, ``savefig`` writes it. All take
``theme="light"`` or ``"dark"``, and have colours that the colour-blind tell apart.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc_mm.plots.added import heatmap, similarity
    from posenc_mm.plots.clocks import seasons
    from posenc_mm.plots.laid import stream
    from posenc_mm.plots.logits import bias
    from posenc_mm.plots.overviewing import overview
    from posenc_mm.plots.planar import plane
    from posenc_mm.plots.speeds import wavelengths
    from posenc_mm.plots.turned import decay

__all__ = [
    "bias",
    "decay",
    "heatmap",
    "overview",
    "plane",
    "seasons",
    "similarity",
    "stream",
    "wavelengths",
]

_FILES = {
    "bias": "logits",
    "decay": "turned",
    "heatmap": "added",
    "overview": "overviewing",
    "plane": "planar",
    "seasons": "clocks",
    "similarity": "added",
    "stream": "laid",
    "wavelengths": "speeds",
}


def __getattr__(name: str) -> Any:
    # The command line lists its commands without matplotlib.
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("matplotlib", "numpy"):
            raise
        raise ImportError('posenc_mm.plots needs matplotlib: pip install "posenc_mm[plot]"') from (
            missing
        )
