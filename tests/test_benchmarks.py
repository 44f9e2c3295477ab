"""Every subject of the benchmarks runs, leaves JSON of one form, and fills its README block."""

import json
import re
import shlex

import pytest
import torch

from benchmarks import __main__ as cli
from benchmarks import importing, reporting
from benchmarks.attached import Case, model_of
from benchmarks.comparing import Row, Table, Way
from benchmarks.measuring import spread

LEAST = {
    "rotary": ["--no-compile", "--lengths", "8", "16", "--tokens", "12"],
    "attention": ["--no-compile", "--tokens", "40", "--t5-tokens", "30", "--lengths", "16", "32"],
    "additive": ["--tokens", "20", "--lengths", "8", "16"],
    "timm": [],
    "import": ["--only", "posenc_mm", "--rounds", "1"],
    "time": ["--stamps", "50", "--lengths", "20", "40"],
}
ROW = {field for field in Row.__dataclass_fields__}


def run(capsys, tmp_path, *words):
    cli.main([*words, "--json", "--out", str(tmp_path)])
    said = capsys.readouterr()
    return json.loads(said.out), said.err


@pytest.mark.parametrize("subject", list(cli.SUBJECTS))
def test_every_subject_runs_and_leaves_json_of_one_form(subject, capsys, tmp_path):
    if subject == "timm":
        pytest.importorskip("timm")
    words = [subject, "--small", "--rounds", "2", *LEAST[subject]]
    found, progress = run(capsys, tmp_path, *words)
    path = tmp_path / f"{subject}.json"
    assert json.loads(path.read_text()) == found
    assert progress.rstrip().endswith(f"results: {path}")
    assert set(found) == {
        "schema", "subject", "command", "environment", "options", "tables", "growth"
    }  # fmt: skip
    assert found["command"] == shlex.join(["python", "-m", "benchmarks", *words])
    assert found["environment"]["threads"] == 1 and found["environment"]["torch"]
    for table in found["tables"]:
        assert set(table) == {"title", "unit", "rows", "fastest", "unit_bytes"}
        for row in table["rows"]:
            assert set(row) == ROW
            measured = row["status"] == "measured"
            assert measured == (row["seconds"] is not None)
            assert measured or row["note"], "a row without numbers says why"
            if measured:
                low, middle, high = (row["seconds"][k] for k in ("low", "median", "high"))
                assert 0 < low <= middle <= high
        ours = [row for row in table["rows"] if row["kind"] == "ours"]
        assert all(row["status"] == "measured" for row in ours)
        assert all(row["verdict"] in ("same", None) for row in ours)
        assert not [row for row in table["rows"] if row["status"] == "failed"]
        others = {row["name"] for row in table["rows"] if row["verdict"] == "other"}
        assert others <= {"tutorial module, given (B, N, D)"}
    assert reporting.markdown(found).count("| way |") >= len(found["tables"])


def test_without_json_tables_are_printed_and_the_last_line_says_where_results_are(capsys, tmp_path):
    words = ["additive", "--small", "--rounds", "1", *LEAST["additive"]]
    cli.main([*words, "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"results: {tmp_path / 'additive.json'}"
    assert any(line.startswith("| **posenc_mm") for line in lines)


def test_a_package_that_cannot_be_imported_is_missing_from_the_imports(monkeypatch):
    gone = importing.Import("gone", "gone", "a-package-that-nobody-has")
    monkeypatch.setattr(importing, "IMPORTS", (*importing.IMPORTS[:2], gone))
    monkeypatch.setattr(importing, "imported", lambda module, after: (1.0, 2, 3))
    options = cli.parsed(["import", "--rounds", "1"])
    options.only = ["posenc_mm", "gone"]
    (table,), _ = importing.run(options, lambda line: None)
    assert [row.status for row in table.rows] == ["measured", "measured", "missing"]
    with pytest.raises(RuntimeError, match="no_such"):
        monkeypatch.undo()
        importing.imported("no_such", "")


def test_the_check_of_timm_would_see_a_missing_rotation():
    pytest.importorskip("timm")
    from posenc_mm.timm import attach

    options = cli.parsed(["timm", "--small"])
    case = Case(options, backward=False)
    mine = Way("ours", "ours", lambda: None, "rotary model")
    model = model_of(options.rotary_model, "same", options).eval()
    with torch.no_grad():
        assert case.check(mine, model(case.images)).verdict == "same"
        bare = attach(model_of(options.rotary_model, "", options)).eval()
        assert case.check(mine, bare(case.images)).verdict != "same"


def made_up(subject):
    rows = [
        Row("copy", "base", "u", seconds=spread([2.0]), ratio=spread([1.0]), peak_bytes=8),
        Row("ours", "ours", "g", seconds=spread([3e-3]), ratio=spread([1.5]), peak_bytes=12),
    ]
    table = Table("a thing", "copy", rows, [], 8)
    grew = reporting.grown("longer", [1, 2, 4], [table] * 3)
    words = f"python -m benchmarks {subject}"
    return reporting.document(subject, words, reporting.environment("cpu"), {}, [table], grew)


def test_the_readme_has_one_block_for_each_subject_whose_command_exists():
    text = reporting.README.read_text(encoding="utf-8")
    names = re.findall(r"<!-- results: (\w+) -->", text)
    assert sorted(names) == sorted(cli.SUBJECTS)
    for name in names:
        body = re.search(rf"<!-- results: {name} -->(.*?)<!-- end: {name} -->", text, re.S)[1]
        command = re.search(r"```bash\npython -m benchmarks (.+?)\n```", body)[1]
        assert cli.parsed(shlex.split(command)).subject == name


def test_a_run_rewrites_its_own_block_and_nothing_else():
    text = reporting.README.read_text(encoding="utf-8")
    once = reporting.rewritten(text, made_up("additive"))
    assert "| **ours** | 3 ms | 1.50 |" in once and "exponent" in once
    assert once.count("<!-- results:") == once.count("<!-- end:") == len(cli.SUBJECTS)
    start, end = text.index("<!-- results: additive"), text.index("<!-- end: additive -->")
    assert once.startswith(text[:start]) and once.endswith(text[end:])
    assert reporting.rewritten(once, made_up("additive")) == once
    with pytest.raises(ValueError, match="nothing"):
        reporting.rewritten(text, made_up("nothing"))


def test_the_command_in_the_results_makes_the_same_numbers():
    words = ["rotary", "--json", "--tokens", "8", "--out", "there", "--write", "--threads", "2"]
    assert cli._command(words) == "python -m benchmarks rotary --tokens 8 --threads 2"


def test_all_runs_each_subject_in_a_process_of_its_own(monkeypatch):
    commands = []

    class Done:
        returncode = 0

    def started(command, check):
        commands.append(command[2:])
        Done.returncode = int(command[3] == "timm")
        return Done

    monkeypatch.setattr(cli.subprocess, "run", started)
    with pytest.raises(SystemExit, match="failed: timm"):
        cli.main(["all", "--small", "--write"])
    assert commands == [["benchmarks", name, "--small", "--write"] for name in cli.SUBJECTS]


def test_a_subject_has_the_sizes_of_its_page_unless_told():
    assert cli.parsed(["rotary"]).tokens == 2048
    assert cli.parsed(["rotary", "--tokens", "16"]).tokens == 16
