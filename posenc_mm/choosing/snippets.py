"""Options as lines that run: Python on the library alone, YAML for an application."""

from collections.abc import Mapping

from posenc_mm.choosing.describing import as_yaml
from posenc_mm.choosing.options import DIM, GROWTH, HEAD_DIM, HEADS, SIZES, Option
from posenc_mm.choosing.situation import Situation

# Applications whose configs hold the three slots.
FILLED = {"text": "text", "images": "vision", "series": "timeseries"}
STAMPS = {
    "regular": '[f"2024-03-{day}T{hour:02d}:00" for day in (30, 31) for hour in (6, 12, 18)]',
    "irregular": '["2024-03-30T08:00", "2024-03-30T08:12", "2024-03-31T08:01", "2024-04-02T17:30"]',
}
TIMES = {"regular": "[0.0, 0.5, 1.0]", "irregular": "[0.0, 0.4, 2.25]"}
_LAYOUTS = {
    "layout": "Layout(scale=(25.0,), clock=0.0)  # positions per second, on one clock",
    "mrope": "Layout()  # M-RoPE as Qwen2-VL was trained",
    "order": "Layout(scale=(25.0,), clock=0.0)",
}
_ORDERED = """order = stream.sort("time")[1].argsort(dim=1)  # the token's number in order of time
positions = torch.cat((order[..., None].to(stream.coords), stream.coords[..., 1:]), dim=-1)"""


def python(one: Option, situation: Situation) -> str:
    """Write a program that makes the encoding, runs it, and shows what the situation asks of it.

    Args:
        one: the option.
        situation: what it is for.
    """
    parts = one.parts(situation)
    names: dict[str, set[str]] = {"posenc_mm": {"Transformer"}}
    for part in parts.values():
        for module, name in part.imports():
            names.setdefault(module, set()).add(name)
    words = [f"dim={DIM}, depth=2, heads={HEADS}"]
    words += [f"{slot}={part.python(4)}" for slot, part in parts.items()]
    words += [f"{name}={value!r}" for name, value in one.host.items()]
    words += ["causal=True"] if situation.causal else []
    body = ["model = Transformer(", *(f"    {word}," for word in words), ")"]
    body += _places(one, situation, names)
    body += [f"tokens = torch.randn(1, positions.shape[-2], {DIM})"]
    body += ["print(model(tokens, positions).shape)"]
    body += _larger(one, situation, names)
    if situation.kv_cache:
        names["posenc_mm"].add("KVCache")
        body += [
            "",
            "cache = KVCache()  # all but the last token, then that one",
            "model(tokens[:, :-1], positions[..., :-1, :], cache=cache)",
            "print(model(tokens[:, -1:], positions[..., -1:, :], cache=cache).shape)",
        ]
    body += _kernel(one, situation, parts, names)
    imports = [
        f"from {module} import {', '.join(sorted(found, key=_by_case))}"
        for module, found in sorted(names.items())
    ]
    return "\n".join(["import torch", "", *imports, "", *body]) + "\n"


def _by_case(name: str) -> tuple[bool, str]:
    return name.islower(), name


def _places(one: Option, situation: Situation, names: dict[str, set[str]]) -> list[str]:
    """Lines that say where the tokens are."""
    own, sizes = names["posenc_mm"], SIZES[situation.modality]
    if one.reads == "seconds":
        own.add("TimeAxis")
        return [
            f"stamps = {STAMPS[situation.times]}",
            'positions = TimeAxis(stamps, tz="Europe/Berlin").positions("s")',
        ]
    if one.reads in _LAYOUTS and situation.modality == "stream":
        return _stream(one, situation, names, 1)
    if one.reads == "frames":
        times = f"times = 2.0 * torch.tensor({TIMES[situation.times]})  # 2 positions per second"
        return [times, *_frames("positions", "times", *sizes[1:])]
    if len(sizes) == 1:
        own.add("sequence")
        return [f"positions = sequence({sizes[0]})"]
    own.add("grid")
    return [f"positions = grid({_listed(sizes)})"]


def _frames(name: str, times: str, rows: int, columns: int) -> list[str]:
    return [
        f"rows, columns = torch.arange({rows}.0), torch.arange({columns}.0)",
        f"{name} = torch.cartesian_prod({times}, rows, columns)",
    ]


def _stream(one: Option, situation: Situation, names: dict[str, set[str]], times: int) -> list[str]:
    names["posenc_mm.streams"] = {"Audio", "Layout", "Text", "Together", "Video"}
    grown = 2 if situation.grid == "changes" and times > 1 else 1
    text = 4 * (times if situation.length == "growing" else 1)
    film = f"Together(Video({TIMES[situation.times]}, {2 * grown}, {3 * grown}), "
    row = f"stream = rule(Text({text}), {film}Audio(count=6, rate=5.0)), Text(2))"
    rule = [f"rule = {_LAYOUTS[one.reads]}"] if times == 1 else []
    end = _ORDERED.splitlines() if one.reads == "order" else ["positions = stream.coords"]
    if times > 1:
        end = [line.replace("positions =", "larger =") for line in end]
    return [*rule, row, *end]


def _larger(one: Option, situation: Situation, names: dict[str, set[str]]) -> list[str]:
    """Lines that read more, or another size, than was trained."""
    if not situation.beyond:
        return []
    own, sizes = names["posenc_mm"], SIZES[situation.modality]
    grown = tuple(
        size * GROWTH if _grows(axis, situation, len(sizes)) else size
        for axis, size in enumerate(sizes)
    )
    cells = f"grid({_listed(grown)})" if len(grown) > 1 else f"sequence({grown[0]})"
    if one.reads == "kept":
        return ["# Larger pictures have larger patches: as many as before, at the same positions."]
    if one.reads == "seconds":
        lines = ["larger = torch.cat([positions, positions + 7 * 86_400])  # a week later"]
    elif one.reads in _LAYOUTS and situation.modality == "stream":
        lines = _stream(one, situation, names, GROWTH)
    elif one.reads == "frames":
        longer = "torch.cat([times, times + 6.0])" if situation.length == "growing" else "times"
        lines = _frames("larger", longer, *grown[1:])
    elif one.reads == "table":
        own.update(("grid", "rescale"))
        lines = [f"larger = rescale({cells}, {grown}, {sizes})  # in cells of the trained grid"]
    else:
        lines = [f"larger = {cells}"]
        if one.name == "rope":
            names["posenc_mm.scaling"] = {"YaRN"}
            yarn = f"YaRN({GROWTH}.0, original_length={sizes[0]})"
            lines.insert(0, f"model.rotary = Rotary(head_dim={HEAD_DIM}, scaling={yarn})")
        if one.reads == "resized":
            own.add("resized")
            slot = "additive" if "additive" in one.parts(situation) else "bias"
            lines.insert(0, f"model.{slot} = resized(model.{slot}, {grown})")
    more = f"print(model(torch.randn(1, larger.shape[-2], {DIM}), larger).shape)"
    return ["", "# larger than trained", *lines, more]


def _grows(axis: int, situation: Situation, axes: int) -> bool:
    if axes == 1:  # of a stream, too: a table of its tokens, whatever there are more of
        return situation.beyond
    along_time = axis == 0 and axes != 2
    return situation.length == "growing" if along_time else situation.grid == "changes"


def _kernel(
    one: Option, situation: Situation, parts: Mapping[str, object], names: dict[str, set[str]]
) -> list[str]:
    """Lines that ask the attention itself whether it runs as the situation wants it."""
    if situation.kernel == "any" or one.refusal(situation):
        return []
    names["posenc_mm.attention"] = {"explain"}
    said = ["q, q, q"]
    said += ["rotation=model.rotary(positions)"] if "rotary" in parts else []
    said += ["bias=model.bias, q_positions=positions"] if "bias" in parts else []
    said += [f"window={one.host['window']}"] if "window" in one.host else []
    said += ["causal=True, ordered=True"] if situation.causal else []
    way = "flex" if situation.kernel == "flex" else "factors" if "bias" in parts else "sdpa"
    return [
        "",
        "# attend takes the same arguments; an error says what cannot run so",
        f"q = torch.randn(1, {HEADS}, positions.shape[-2], {HEAD_DIM})",
        "with torch.no_grad():",
        "    how = explain(",
        *(f"        {word}," for word in [*said, f'backend="{way}"']),
        "    )",
        "print(how.backend, how.reason)",
    ]


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def yaml(one: Option, situation: Situation) -> str:
    """Write what LightningCLI reads, for the application of the modality where there is one.

    Args:
        one: the option.
        situation: what it is for.
    """
    app = FILLED.get(situation.modality)
    note = f"# in a file, given to python -m {app} fit by -c\n"
    if app == "timeseries":
        note += "# after -c configs/timeseries/networks/patches.yaml, which has slots for it\n"
    if not app:
        note = "# no application trains this by YAML: widths are those of the Python\n"
    if "window" in one.host:
        note += "# the window is an argument of the model, in Python only\n"
    if situation.modality == "text" and situation.pretrained != "no":
        note += "# fit trains anew; a trained model is read by python -m text extend\n"
    config = dict(one.config)
    if situation.modality == "images" and situation.pretrained != "no":
        note += "# its own encoding stays; other sizes: python -m vision resize\n"
        config |= {"network_args": "{pretrained: true}", "keep_native": True}
        return note + as_yaml({}, True, config)
    return note + as_yaml(one.parts(situation), app is not None, config)
