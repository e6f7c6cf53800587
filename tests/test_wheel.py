"""What is installed: the library's wheel has no experiment and no test in it, and everything that the library needs."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def files_of(project, tmp_path):
    """The files of a project's wheel, built from a copy of its sources."""
    copy = tmp_path / "copy"
    shutil.copytree(project / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (project / name).exists():
            shutil.copy(project / name, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(copy)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize(("project", "package"), [(ROOT, "dpaudit"), (ROOT / "experiments", "dpaudit_experiments")])
def test_a_wheel_holds_its_package_and_nothing_else(project, package, tmp_path):
    held = {name for name in files_of(project, tmp_path) if ".dist-info/" not in name}
    sources = [path for path in (project / "src" / package).rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(project / "src")) for path in sources if path.suffix != ".pyc"}
    assert held == wanted
    assert {name.split("/")[0] for name in held} == {package}
    assert not [name for name in held if Path(name).name.startswith(("test_", "conftest")) or "/papers/" in name]
