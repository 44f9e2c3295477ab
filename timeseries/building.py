"""Networks by name, with encodings that fit them."""

from inspect import signature
from typing import Any

from posenc_mm import AdditiveEncoding, AttentionBias, Learned, Projected, RotaryEncoding
from posenc_mm.timestamps import Zone
from timeseries.networks import NETWORKS, Linear, Network, Shape

SLOTS = ("additive", "rotary", "bias")


def create(
    network: str,
    arguments: dict[str, Any] | None,
    clock: str,
    shape: Shape,
    additive: AdditiveEncoding | None,
    rotary: RotaryEncoding | None,
    bias: AttentionBias | None,
) -> Network:
    """Create a forecasting network.

    Args:
        network: a name in ``NETWORKS``.
        arguments: any keyword of it, of which ``linear`` is true or false and ``variate``
            ``"learned"`` or None.
        clock: what positions are.
        shape: what to fit.
        additive: added to the tokens, projected to their width if it has another.
        rotary: turns queries and keys.
        bias: added to the logits.

    Returns:
        The network.

    Raises:
        ValueError: the name is unknown, the network does not take an argument, or cannot host an
            encoding.
    """
    if network not in NETWORKS:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got network={network!r}")
    slots = dict(zip(SLOTS, (additive, rotary, bias), strict=True))
    parameters = signature(NETWORKS[network]).parameters
    lacking = [name for name, one in slots.items() if one is not None and name not in parameters]
    lacking += ["a clock of rows"] if clock != "time" and "clock" not in parameters else []
    if lacking:
        raise ValueError(
            f"network={network!r} has no place for {', '.join(lacking)}: use network='patches', as "
            f"in configs/timeseries/networks/patches.yaml"
        )
    given = dict(arguments or {})
    known = parameters.keys() - {"shape", "clock", *slots}
    if given.keys() - known:
        raise ValueError(
            f"network_args of {network!r} must be some of {sorted(known)}, got {given}"
        )
    if network == "linear":
        return Linear(shape, additive)
    dim = given.get("dim", parameters["dim"].default)
    if given.get("variate") is not None:
        if given["variate"] != "learned":
            raise ValueError(f"variate must be 'learned' or null, got {given['variate']!r}")
        tokens = shape.variates + (shape.known if network == "variates" else 0)
        given["variate"] = Learned(dim, tokens)
    if given.get("linear"):
        given["linear"] = _linear(additive, clock)
    if additive is not None and additive.dim != dim:
        slots["additive"] = Projected(dim, additive)
    if "clock" in parameters:
        given["clock"] = clock
    return NETWORKS[network](shape, **slots, **given)


def other_clocks(network: Network, zone: str | None) -> list[str]:
    """Say which encodings go by other clocks than the series: that is seldom meant.

    Args:
        network: with its encodings.
        zone: of the series, None if their stamps have none.

    Returns:
        A sentence per zone that is not theirs.
    """
    own, others = zone or "UTC", dict[str, set[str]]()
    for part in network.modules():
        clock = getattr(part, "zone", None)
        if isinstance(clock, Zone) and clock.name != own:
            others.setdefault(clock.name, set()).add(type(part).__name__)
    series = f"those of {zone}" if zone else "none of their own and are read as of UTC"
    return [
        f"encodings ({', '.join(sorted(names))}) go by the clocks of {name}, but the series "
        f"have {series}: 'zone: auto' has them go by the same"
        for name, names in others.items()
    ]


def _linear(additive: AdditiveEncoding | None, clock: str) -> AdditiveEncoding | bool:
    """What a linear network beside knows of future rows: moments, with nothing to learn."""
    features = additive.features if isinstance(additive, Projected) else additive
    if features is None or clock != "time" or any(True for _ in features.parameters()):
        return True
    return features
