"""Writes reference.md: every public name with the first line of its docstring, and every command with its options.

Run `python docs/make_reference.py`; a test fails while the page on disk differs from what this prints.
"""

import importlib
import inspect
from pathlib import Path

import typer.main

import dpaudit
from dpaudit.cli import app

PAGE = Path(__file__).parent / "reference.md"
EXIT_CODES = (
    "Exit codes: 0 nothing contradicted, 1 a claim is contradicted (or `fail_if` holds), 2 misuse or bad input, "
    "3 a run failed, 4 nothing could be judged. Shell completion: `dpaudit --install-completion`."
)


def first_line(found) -> str:
    if not (inspect.isclass(found) or inspect.isfunction(found) or inspect.ismodule(found)):
        return "A constant, described where it stands."
    return (inspect.getdoc(found) or "").strip().splitlines()[0].replace("|", "\\|")


def own_names(module) -> list[str]:
    listed = getattr(module, "__all__", None)
    return sorted(
        listed
        or (n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__)
    )


def table(owner, names) -> list[str]:
    rows = [f"| `{name}` | {first_line(getattr(owner, name))} |" for name in names]
    return ["| name | what it is |", "|---|---|", *rows, ""]


def commands(command, path) -> list[str]:
    if getattr(command, "commands", None):
        return [
            line for name in sorted(command.commands) for line in commands(command.commands[name], f"{path} {name}")
        ]
    options = [p for p in command.params if p.name != "help"]
    lines = [
        f"### `{path}`",
        "",
        *(command.help or "").splitlines(),
        "",
        "| option | meaning | default |",
        "|---|---|---|",
    ]
    for option in options:
        flag = option.opts[-1] if option.opts[-1].startswith("-") else f"{option.name.upper()}..."
        silent = option.default is None or option.default is False
        default = "required" if option.required else "" if silent else f"{option.default}"
        lines.append(f"| `{flag}` | {option.help or ''} | {default} |")
    return [*lines, ""]


def render() -> str:
    lines = ["# Reference", "", "Made by `python docs/make_reference.py` from the docstrings.", "", "## `dpaudit`", ""]
    lines += table(dpaudit, sorted(dpaudit.__all__))
    modules = (
        "estimators",
        "accounting",
        "mechanisms",
        "mechanisms.dpsgd",
        "mechanisms.private_prediction",
        "games",
        "attacks",
        "proxies",
        "propensity",
        "generators",
        "views",
        "models",
        "opacus",
        "auditing",
        "reporting",
        "reporting.plot",
        "testing",
        "execution",
        "tradeoff",
        "divergences",
        "papers",
        "data",
    )
    for name in modules:
        module = importlib.import_module(f"dpaudit.{name}")
        lines += [f"## `dpaudit.{name}`", "", *table(module, own_names(module))]
    lines += ["## Command line", "", EXIT_CODES, ""]
    lines += commands(typer.main.get_command(app), "dpaudit")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
