"""``python -m posenc_mm plot`` as people type it, and its page."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import torch
from matplotlib import image

import posenc_mm as pm
from posenc_mm import plots
from posenc_mm.__main__ import main
from posenc_mm.catalogue.finding import entries
from posenc_mm.plots import command, fitting, words
from posenc_mm.scaling import YaRN

ROOT = Path(__file__).resolve().parents[1]
NAMES = [each.full_name for each in entries() if each.acts_on != "neighbours"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(capsys, *typed):
    try:
        code = main(["plot", *typed])
    except SystemExit as done:  # argparse's own
        code = done.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", [*NAMES, "overview", "seasons", "streams"])
def test_everything_in_the_list_has_a_picture(name, monkeypatch, capsys):
    drawn = []
    figure = command.__dict__["_drawn"]
    monkeypatch.setattr(command, "_drawn", lambda *given: drawn.append(figure(*given)) or drawn[-1])
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    monkeypatch.setattr(command, "_fewer_colours", lambda path: None)
    code, out, err = said(capsys, name)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("The picture is at ")
    assert drawn[0][0].axes


def test_a_picture_is_written_where_it_says(capsys, tmp_path):
    code, out, _ = said(capsys, "sinusoidal", "--dim", "6", "--length", "5", "--theme", "dark")
    assert code == 0 and out.splitlines()[-1] == "The picture is at Sinusoidal.png"
    pixels = image.imread("Sinusoidal.png")
    assert pixels[0, 0, :3].max() < 0.15
    assert out.startswith("heatmap of Sinusoidal(dim=6")
    code, out, _ = said(capsys, "ALiBi", "--heads", "3", "--out", "new/folder/bias.svg")
    assert code == 0 and (tmp_path / "new/folder/bias.svg").read_text().startswith("<?xml")


def test_where_the_picture_is_said_to_be_it_is(capsys, tmp_path):
    (tmp_path / "folder").mkdir()
    for out, wanted in (("folder", "folder/ALiBi.png"), ("new/plain", "new/plain.png")):
        assert said(capsys, "ALiBi", "--out", out)[1].endswith(f"The picture is at {wanted}\n")
        assert (tmp_path / wanted).is_file()
    (tmp_path / "file").touch()
    code, _, err = said(capsys, "ALiBi", "--out", "file/x.png")
    assert code == 2 and "cannot be written" in err and "give another --out" in err


def test_what_is_drawn_is_told(capsys, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    out = said(capsys, "streams.mrope_i")[1]
    assert out.splitlines()[0] == "stream of mrope_i", "no numbers of a tensor"
    assert "Untrained: what it learns is as it starts" in said(capsys, "Learned")[1]
    assert "Untrained" not in said(capsys, "Sinusoidal")[1]
    assert said(capsys, "Rotary", "--trained", "512")[1].startswith("wavelengths of Rotary")
    long = said(capsys, "presets.dinov3")[1].splitlines()[0]
    assert long.endswith(" ...") and len(long) < 220


def test_a_scaling_that_moves_is_drawn_moved_and_a_design_has_its_name(monkeypatch):
    drawn = command.__dict__["_drawn"]

    def figure(name, *typed):
        entry = command.__dict__["_one"](name)
        return drawn(name, entry, command.__dict__["_parser"](name, entry).parse_args(typed))[0]

    before, after = (each.get_ydata() for each in figure("RIFLEx").axes[0].get_lines()[:2])
    assert after[1] > 2 * before[1], "the pair that it slows"
    longer = figure("RIFLEx", "--length", "512").axes[0].get_lines()[1].get_ydata()
    assert longer[1] == pytest.approx(4 * after[1])
    assert figure("mrope_i").get_suptitle() == "mrope_i: where the tokens of a stream are"


def test_since_is_in_utc_unless_it_says_otherwise():
    hour = pm.Seasonal({"day": 1})
    for since, wanted in (("1970-01-02", 86_400), ("1970-01-02T00:00+02:00", 79_200)):
        assert fitting.subject(hour, length=2, since=since).positions[0, 0] == wanted


def test_options_are_the_constructors_own(capsys):
    def made(*typed):
        parsed = command.__dict__["_parser"](typed[0], found := command.__dict__["_one"](typed[0]))
        given = command.__dict__["_given"](found, parsed.parse_args(typed[1:]), words.value)
        return fitting.make(found, given)

    assert repr(made("Rotary")) == repr(pm.Rotary(64))
    one = made("rotary", "--head-dim", "128", "--scaling", "YaRN(4.0, 4096)", "--base", "1e6")
    assert repr(one) == repr(pm.Rotary(128, scaling=YaRN(4.0, 4096), base=1e6))
    assert made("Seasonal", "--periods", "day=2", "year=1").periods == {"day": 2, "year": 1}
    assert made("Calendar", "--fields", "hour").dim == 2
    assert made("Learned", "--sizes", "14", "10", "--joint", "False").sizes == (14, 10)
    assert made("Fourier", "--bands", "linear").bands == "linear"  # a word, not our function
    assert made("T5Bias").heads == 8
    assert made("ERPE", "--size", "9").size == 9
    code, out, _ = said(capsys, "Rotary", "--help")
    assert code == 0
    for name in inspect.signature(pm.Rotary).parameters:
        assert name == "length" or f"--{name} " in out


def test_a_line_of_python_is_a_name(capsys):
    code, out, _ = said(capsys, "Rotary(32, axes=2, base=100.0)", "--size", "5", "7")
    assert code == 0 and out.startswith("decay of Rotary(head_dim=32, axes=2")
    assert out.endswith("The picture is at Rotary.png\n")
    code, _, err = said(capsys, "__import__('os').getcwd()")
    assert code == 2 and "must be" in err
    code, _, err = said(capsys, "Rotary(32, heads=2)")
    assert code == 2 and "heads" in err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["rotery"], "near it: Rotary"),
        (["flux2"], "presets.flux2, streams.flux2"),
        (["Conditional"], "depends on the tokens"),
        (["sequence(8)"], "it is no encoding"),
        (["Rotary", "--picture", "bias"], "must be one that fits Rotary: decay, plane"),
        (["Rotary", "--picture", "pie"], "invalid choice"),
        (["Rotary", "--hed_dim", "4"], "unrecognized arguments: --hed_dim 4; near: --head_dim"),
        (["BiasSum([ALiBi(2),", "T5Bias(2)])"], "unrecognized arguments: T5Bias(2)])"),
        (["Rotary(64"], "must be a name or one line of Python, got 'Rotary(64'"),
        (["Sinusoidal", "--length", "0"], "length must be a whole number of at least 1"),
        (["Sinusoidal", "--length", "-3"], "length must be a whole number of at least 1"),
        (["Sinusoidal", "--length", "1000000000"], "at most"),
        (["ALiBi", "--size", "0", "4"], "size must be a whole number of at least 1"),
        (["Sinusoidal", "--length", "5000", "--picture", "similarity"], "4,096 at most"),
        (["Seasonal", "--since", "yesterday"], "since must be an ISO date, such as 2024-03-30"),
        (["overview", "--picture", "heatmap"], "overview is a picture itself"),
        (["ALiBi", "--trained", "5"], "trained and wanted are for wavelengths"),
        ([], "arguments are required: NAME\n"),
        (["Rotary", "--out", "x.foo"], "Format 'foo' is not supported"),
        (["Rotary", "--head_dim", "7"], "head_dim must be"),
        (["Rotary", "--size", "2", "3", "4"], "no positions fit"),
        (["seasons", "--zone", "Mars/North"], "tz must be the IANA name"),
        (["Rotary", "--scaling", "Yarn(4)"], "'Yarn'"),
    ],
)
def test_what_cannot_be_drawn_says_why_and_leaves_no_file(typed, message, capsys, tmp_path):
    code, _, err = said(capsys, *typed)
    assert code == 2 and message in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_words_are_literals_calls_or_text():
    assert words.value([]) is True
    assert words.value(["-1.5"]) == -1.5 and words.value(["(2, 6)"]) == (2, 6)
    assert words.value(["2024-01-01"]) == "2024-01-01" and words.value(["geometric"]) == "geometric"
    assert words.value(["Europe/London"]) == "Europe/London"
    assert words.value(["{'day': 2}"]) == {"day": 2} and words.value(["1h", "1D"]) == ["1h", "1D"]
    parts = words.value(["[Sinusoidal(4), Horizon(context=3)]"])
    assert [each.dim for each in parts] == [4, 2]
    for wrong in ("[x for x in (1,)]", "Rotary(4).forward(1)", "YaRN(*[4.0, 8])", "f(2)"):
        with pytest.raises(ValueError, match="must be|does not fit|values must"):
            words.value([wrong])


def test_learned_numbers_are_the_same_each_time(capsys):
    for seed, name in enumerate(("one", "two")):
        torch.manual_seed(seed)
        assert said(capsys, "T5Bias", "--out", f"{name}.png")[0] == 0
    assert Path("one.png").read_bytes() == Path("two.png").read_bytes()


def program(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


def test_help_needs_no_matplotlib_and_plot_says_where_to_get_it():
    blocked = "import sys; sys.modules['matplotlib'] = None\n"
    helped = program(f"{blocked}from posenc_mm.__main__ import main\nmain([])")
    assert helped.returncode == 0 and "plot" in helped.stdout, helped.stderr
    drawn = program(
        f"{blocked}from posenc_mm.__main__ import main\nsys.exit(main(['plot', 'ALiBi']))"
    )
    assert drawn.returncode == 2 and 'pip install "posenc_mm[plot]"' in drawn.stderr
    taken = program(f"{blocked}from posenc_mm.plots import heatmap")
    assert "ImportError: posenc_mm.plots needs matplotlib: pip install" in taken.stderr


def test_the_page_runs_and_its_picture_is_small(capsys, tmp_path):
    page = (ROOT / "docs" / "plots.md").read_text(encoding="utf-8")
    for body in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        exec(compile(body, "docs/plots.md", "exec"), {"__name__": "docs/plots.md"})
    for name in plots.__all__:
        assert f"`{name}(" in page
    assert (ROOT / "docs" / "encodings.png").stat().st_size < 150_000
    kinds = sorted(each for each in command.PICTURES)
    assert sorted({*plots.__all__} - {"overview"}) == kinds, "the overview has one of each"
    assert len([axes for axes in plots.overview().axes if axes.get_title()]) == len(kinds)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for text in (page, readme):
        assert re.search(r"!\[Eight pictures.*\]\(.*encodings.png\)", text)
    commands = re.findall(r"^python -m posenc_mm plot (.*)$", page, re.M)
    import shlex

    for typed in commands:
        assert said(capsys, *shlex.split(typed))[0] == 0, typed
