"""Functions that a user names, fingerprints by which a plan is known again, and random streams.

A function of a file is loaded by each process for itself; its digest covers the modules beside it that it imports. A
function in memory is known by its code and constants. Each purpose has a random stream of its own under one seed, so
that no job's randomness depends on another's.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import os
import platform
import re
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import __version__
from dpaudit import _validate as check
from dpaudit._validate import InputError

OWN = "dpaudit"
"""This package: its version stands for its code, wherever it is installed."""


class RunFailed(RuntimeError):
    """A run of the audited system failed. `detail` is its traceback; finished runs are kept in the store."""

    def __init__(self, sentence: str, detail: str = ""):
        self.sentence, self.detail = sentence, detail
        super().__init__(sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sentence, self.detail)


@dataclass(frozen=True)
class FileFunction:
    """A function of a Python file, by name: each process loads the file for itself, with its folder importable.

    `digest` covers the file and the modules beside it that it imports, directly or through one another.
    """

    path: str
    name: str
    digest: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return _loaded(self.path, self.name, self.digest)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def many(self) -> Callable[..., Any]:
        """The function's own `many`, where it has one."""
        found: Callable[..., Any] = self.__wrapped__.many  # type: ignore[attr-defined]
        return found


def load_function(reference: str, *, field: str = "score", folder: str | os.PathLike[str] = ".") -> FileFunction:
    """The function of a "file.py:function" that the user asked to run; the file is relative to `folder`."""
    path, _, name = reference.rpartition(":")
    if not path or not name:
        raise InputError(f"`{field}` must be 'file.py:function', got {reference!r}.")
    file = Path(folder, path).resolve()
    if not file.is_file() or file.suffix != ".py":
        raise InputError(f"`{field}` must name a Python file, and there is no {path!r}.")
    found = FileFunction(str(file), name, _sources_digest(file))
    _ = found.__wrapped__  # fail now, not in a worker
    return found


@lru_cache(maxsize=64)
def _loaded(path: str, name: str, digest: str) -> Callable[..., Any]:
    file = Path(path)
    unique = f"_dpaudit_user_{file.stem}_{digest[:12]}"
    module = sys.modules.get(unique)
    if module is None:
        if _sources_digest(file) != digest:
            raise RunFailed(f"{file.name!r}, or a module that it imports, was changed while its runs were going on.")
        _claim_names(file)
        module = types.ModuleType(unique)
        module.__file__ = path
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        sys.modules[unique] = module
        try:
            exec(compile(file.read_bytes(), path, "exec", dont_inherit=True), module.__dict__)
        except (Exception, SystemExit) as problem:
            del sys.modules[unique]
            raise InputError(f"{file.name!r} could not be loaded ({type(problem).__name__}: {problem}).") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{file.name!r} has no function {name!r}.")
    return found


_NAMES_OF_FOLDERS: dict[str, str] = {}
"""Module names that a loaded score file imports from beside it, and the folder that each belongs to."""


def _claim_names(file: Path) -> None:
    """Refuse a second folder with a module of the same name, and forget old versions of this folder's own: Python
    would hand out the first one's code, or the old one's."""
    for name in {source.relative_to(file.parent).parts[0].removesuffix(".py") for source in _local_sources(file)[1:]}:
        owner = _NAMES_OF_FOLDERS.setdefault(name, str(file.parent))
        if owner != str(file.parent):
            raise InputError(
                f"{file.name!r} imports {name!r} from beside it, and so does a score in {owner!r}.",
                "one process cannot hold both: run the two audits by separate commands.",
            )
        for loaded in [other for other in sys.modules if other == name or other.startswith(f"{name}.")]:
            if str(getattr(sys.modules[loaded], "__file__", None) or "").startswith(f"{file.parent}{os.sep}"):
                del sys.modules[loaded]  # an edited module is imported anew


def _local_sources(file: Path) -> list[Path]:
    """The file, and the Python files beside it that it imports, directly or through one another; read, not run."""
    found, queue = [file], [file]
    while queue:
        for name in _imported_names(queue.pop()):
            for candidate in (file.parent / f"{name}.py", file.parent / name):
                inside = sorted(candidate.rglob("*.py")) if candidate.is_dir() else [candidate]
                fresh = [path for path in inside if path.is_file() and path not in found]
                found += fresh
                queue += fresh
    return found


def _imported_names(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # loading it says why
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _sources_digest(file: Path) -> str:
    contents = [
        (str(source.relative_to(file.parent)), hashlib.sha256(source.read_bytes()).hexdigest())
        for source in _local_sources(file)
    ]
    return hashlib.sha256(json.dumps(sorted(contents)).encode()).hexdigest()


def file_names(files: Any, folder: str | os.PathLike[str] = ".") -> tuple[str, ...]:
    """Names of files that are there, seen from a folder."""
    names = [files] if isinstance(files, str) else files
    if not isinstance(names, list | tuple) or not all(isinstance(name, str | os.PathLike) for name in names):
        raise InputError(f"`files` must be a list of file names, got {files!r}.")
    for name in names:
        if not Path(folder, name).is_file():
            raise InputError(f"`files` must name files, and there is no {str(name)!r}.")
    return tuple(str(Path(folder, name)) for name in names)


def file_digests(files: tuple[str, ...]) -> list[list[str]]:
    """Names and content of files that belong to a plan."""
    return [[Path(name).name, hashlib.sha256(Path(name).read_bytes()).hexdigest()] for name in files]


def call_name(function: Any) -> str:
    """How a score is named in a record."""
    if isinstance(function, FileFunction):
        return f"{Path(function.path).name}:{function.name}"
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__
    return str(name)


def takes(function: Any, *names: str) -> bool:
    """Whether a callable can be called with these arguments by position; unknown signatures pass."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        return False
    except ValueError:  # built in C, without a signature
        return True
    return True


def fingerprint(value: Any) -> str:
    """SHA-256 of a plan: dataclasses by their fields, arrays by content, functions by code. A changed plan is another.

    Of a function in memory everything that it reaches by name is seen: its code, defaults and closure, the globals that
    it uses, the functions and classes that it calls, unless they belong to an installed package. Files that it reads
    are not.
    """
    text = json.dumps([_environment(), _described(value, ())], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _environment() -> list[str]:
    return [platform.python_version(), np.__version__, __version__]


def _described(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, FileFunction):
        return ["file", Path(value.path).name, value.name, value.digest]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if id(value) in above:
        return "itself"
    below = (*above, id(value))
    if isinstance(value, dict):
        return {str(name): _described(entry, below) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_described(entry, below) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_described(entry, below), sort_keys=True) for entry in value)
    if isinstance(value, types.FunctionType):
        return ["function", value.__qualname__, *(_function_parts(value, below) if _users_own(value) else [])]
    if isinstance(value, types.MethodType):
        return [_described(value.__self__, below), _described(value.__func__, below)]
    if isinstance(value, functools.partial):
        return ["partial", *(_described(part, below) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, type):
        return ["class", value.__qualname__, _methods(value, below)]
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return value.__name__
    return _described_object(value, below)


def _described_object(value: Any, above: tuple[int, ...]) -> Any:
    """An instance: of a class of the user's own by its methods and fields, of a package's by its content."""
    kind = type(value)
    if _users_own(kind) or is_dataclass(value):
        named = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else vars(value)
        return [kind.__qualname__, _methods(kind, above), _described(named, above)]
    import joblib

    if kind.__module__.split(".")[0] == "torch":  # tensors pickle differently in every process
        if hasattr(value, "detach"):
            plain = value.detach().cpu()
            return [kind.__qualname__, joblib.hash((plain.double() if plain.is_floating_point() else plain).numpy())]
        if hasattr(value, "__dict__"):
            return [kind.__qualname__, _described(vars(value), above)]
        return [kind.__qualname__, re.sub(r" at 0x[0-9a-f]+", "", str(value))]
    try:
        return [kind.__qualname__, joblib.hash(value)]
    except Exception:  # whatever cannot be pickled: its text, without addresses
        return [kind.__qualname__, re.sub(r" at 0x[0-9a-f]+", "", str(value))]


def _users_own(value: Any) -> bool:
    """Whether a function or class belongs to somebody's script or project, not to Python or an installed package."""
    name = (getattr(value, "__module__", None) or "").split(".")[0]
    if name == OWN or (name in sys.stdlib_module_names and name != "__main__"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or "site-packages" not in str(file)


def _methods(kind: type, above: tuple[int, ...]) -> dict[str, Any]:
    return {
        name: _function_parts(member, above)
        for base in reversed(kind.__mro__)
        if _users_own(base)
        for name, member in vars(base).items()
        if isinstance(member, types.FunctionType) and id(member) not in above
    }


def _function_parts(function: types.FunctionType, above: tuple[int, ...]) -> list[Any]:
    below = (*above, id(function))
    cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
    reached = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    parts = [cells, function.__defaults__, function.__kwdefaults__, reached]
    return [_code(function.__code__), *(_described(part, below) for part in parts)]


def _names(code: types.CodeType) -> Iterator[str]:
    """Every name that a function uses, also in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _code(code: types.CodeType) -> list[Any]:
    constants = [_code(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names)]


def _constant(value: Any) -> str:
    """A constant as text; the order of a set differs from process to process."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def stream(seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one purpose under one seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()),)))


def distinct_seeds(seed: int, purpose: str, count: int) -> list[int]:
    """`count` different seeds below 2^32, which every library takes; more of them begin with the same ones.

    >>> distinct_seeds(7, "runs", 2) == distinct_seeds(7, "runs", 5)[:2]
    True
    """
    rng, found = stream(seed, purpose), dict[int, None]()
    while len(found) < count:
        found.update(dict.fromkeys(rng.integers(0, 2**32, size=4096).tolist()))
    return list(found)[:count]


def fair_coins(seed: int, purpose: str, count: int) -> NDArray[np.bool_]:
    """Fair and independent, a function of the seed alone."""
    return stream(check.count("seed", seed), purpose).random(count) < 0.5


def paired_worlds(seed: int, purpose: str, pairs: int) -> NDArray[np.bool_]:
    """Worlds of runs: of every two one is with the record, and a fair coin says which."""
    first = fair_coins(seed, purpose, pairs)
    return np.stack([first, ~first], axis=1).ravel()
