"""What is shipped, and what importing it costs."""

import re
import subprocess
import sys
import zipfile
from email.parser import Parser

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it there

HEAVY = ["timm", "lightning", "torchvision", "matplotlib", "pandas", "transformers", "sklearn"]


def python(code, cwd=None):
    """Runs code in a fresh interpreter and returns what it printed."""
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, root]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_the_library_alone(wheel, root):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = (root / "posenc_mm").rglob("*.py")
    evidence = (root / "posenc_mm" / "choosing" / "evidence").glob("*.csv")
    expected = {path.relative_to(root).as_posix() for path in (*sources, *evidence)}
    expected |= {"posenc_mm/py.typed"}
    assert shipped == expected


def test_the_wheel_carries_the_licence(wheel, metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    (name,) = [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
    text = wheel.read(name).decode()
    assert "Apache License" in text and "the posenc_mm authors" in text


def test_requirements(metadata):
    assert metadata["Requires-Python"] == ">=3.10"
    required = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(required) == ["einops>=0.7", "torch>=2.6"]
    extras = {"timm", "transformers", "train", "plot", "lightning", "holidays", "dev", "bench"}
    assert set(metadata.get_all("Provides-Extra")) == extras


def test_one_version_everywhere(metadata, root):
    version = python("import posenc_mm; print(posenc_mm.__version__)", cwd=root)
    assert metadata["Version"] == version
    citation = (root / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [version]
    newest = re.search(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text(), re.M)
    assert newest and newest[1] == version
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert "version" not in project and project["dynamic"] == ["version"]


def test_import_loads_torch_and_einops_alone(root):
    code = "import sys, posenc_mm; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = set(python(code, cwd=root).split())
    assert {"posenc_mm", "torch"} <= loaded
    assert loaded.isdisjoint(HEAVY)
    # Nothing at all that torch and einops do not load themselves, but for the standard library.
    alone = python(code.replace("posenc_mm", "torch, einops"), cwd=root).split()
    assert loaded - set(alone) - set(sys.stdlib_module_names) == {"posenc_mm"}


def test_every_module_imports(root):
    for path in sorted((root / "posenc_mm").rglob("*.py")):
        name = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
        __import__(name.removesuffix(".__init__"))


def test_public_names_are_stated_and_exist():
    import posenc_mm

    assert len(set(posenc_mm.__all__)) == len(posenc_mm.__all__)
    missing = [name for name in posenc_mm.__all__ if not hasattr(posenc_mm, name)]
    assert not missing


def test_import_time(root):
    clock = "from time import perf_counter as now; t = now(); import {}; print(now() - t)"

    def seconds(module):
        return float(python(clock.format(module), cwd=root))

    python("import posenc_mm", cwd=root)  # writes the byte code and fills the disk cache
    torch_times, our_times = [], []
    # The best of interleaved runs is what an import costs; the rest is what else the machine does.
    for turn in range(15):
        torch_times.append(seconds("torch"))
        our_times.append(seconds("posenc_mm"))
        if turn >= 2 and min(our_times) <= 1.15 * min(torch_times):
            return
    pytest.fail(f"importing takes {min(our_times):.2f} s, torch alone {min(torch_times):.2f} s")
