"""Writes reference.md: public names, each with the first line of its docstring, settings of audit files, and commands.

Run `python docs/make_reference.py`; a test fails while the page on disk differs from what this prints.
"""

import importlib
import inspect
import json
from pathlib import Path

import typer.main

import dpaudit
from dpaudit.auditing.plan import MAKERS, Claim, Settings, described, settings_of
from dpaudit.bounds import Outcome
from dpaudit.cli import app
from dpaudit.evidence import types as evidence
from dpaudit.execution import Execution
from dpaudit.record import files as records
from dpaudit.record.values import EXIT_CODES
from dpaudit.reporting.text import WORDS

PAGE = Path(__file__).parent / "reference.md"
FILES = """The tables of an audit file, which are also what `--set` takes and `--explain` prints: the parameters of what
makes them, and what their docstrings say. Where a game reads no table, its `relation` and `unit` are those of the
claim, and `runs` follow from `audit.detects`, unless the file says otherwise."""
COMPLETION = "Shell completion: `dpaudit --install-completion`."


def cell(text) -> str:
    """A text inside of a table."""
    return text.replace("|", "\\|")


def first_line(found) -> str:
    if not (inspect.isclass(found) or inspect.isfunction(found) or inspect.ismodule(found)):
        return "A constant, described where it stands."
    return cell((inspect.getdoc(found) or "").strip().splitlines()[0])


def own_names(module) -> list[str]:
    listed = getattr(module, "__all__", None)
    return sorted(
        listed
        or (n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__)
    )


def table(owner, names) -> list[str]:
    rows = [f"| `{name}` | {first_line(getattr(owner, name))} |" for name in names]
    return ["| name | what it is |", "|---|---|", *rows, ""]


def written(default) -> str:
    """A default as a file would say it; nothing where it stands for something else, or for none."""
    if default is inspect.Parameter.empty:
        return "required"
    return "" if default is None or default == () else f"`{json.dumps(default)}`"


def settings_table(name, maker, parameters) -> list[str]:
    """One table of an audit file: a row a key."""
    meaning = described(maker)
    rows = [f"| `{key}` | {written(one.default)} | {cell(meaning[key])} |" for key, one in parameters.items()]
    return [f"### `[{name}]`", "", "| key | default | meaning |", "|---|---|---|", *rows, ""]


def audit_files() -> list[str]:
    """Every table of an audit file, from the signatures."""
    values = {"claim": Claim, "audit": Settings, "execution": Execution}
    lines = ["## Audit files", "", *FILES.splitlines(), ""]
    for name, made in values.items():
        lines += settings_table(name, made, inspect.signature(made).parameters)
    for key, maker in MAKERS.items():
        lines += settings_table(f"game.{key}", maker, settings_of(maker))
    return lines


def tables_of_the_tool() -> list[str]:
    """Outcomes, exit codes and formats of files, each from the one place that decides them."""
    outcomes = [f"| `{outcome}` | {WORDS[outcome]} |" for outcome in Outcome]
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    formats = [
        f"| {name} | {owner.FORMAT} | {', '.join(map(str, owner.FORMATS))} |"
        for name, owner in (("record (JSON)", records), ("evidence (Parquet)", evidence))
    ]
    return [
        *("## Outcomes", "", "| outcome | what a table calls it |", "|---|---|", *outcomes, ""),
        *("## Exit codes", "", "| code | what it says |", "|---|---|", *codes, ""),
        *("## Formats of files", "", "| file | written as | read |", "|---|---|---|", *formats, ""),
    ]


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
        silent = option.default is None or option.default is False or option.default == ()
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
        "counterfactuals",
        "fitted.propensity",
        "fitted.generators",
        "fitted.encoders",
        "inputs.models",
        "integrations.opacus",
        "auditing",
        "reporting",
        "reporting.plot",
        "testing",
        "testing.ground_truth",
        "testing.broken.mechanisms",
        "testing.broken.attacks",
        "execution",
        "tradeoff",
    )
    for name in modules:
        module = importlib.import_module(f"dpaudit.{name}")
        lines += [f"## `dpaudit.{name}`", "", *table(module, own_names(module))]
    lines += audit_files()
    lines += tables_of_the_tool()
    lines += ["## Command line", "", COMPLETION, ""]
    lines += commands(typer.main.get_command(app), "dpaudit")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
