"""How many files and functions of the package one audit walks through, from its file to its page.

`walked(audit file)` reads the file as `dpaudit run` does, conducts the audit, and renders its text and its page, in a
process of its own under `sys.setprofile`. Counted are functions and methods of `src/dpaudit` that were entered by a
call, and the files that they stand in, the template of the page among them. Not counted: the code of a module or a
class body (importing is no walk), methods that a dataclass writes itself, lambdas, comprehensions and generator
expressions (they belong to the function around them, and newer Pythons enter no frame for some of them).

    PYTHONPATH=src python -m tests.walk examples/zero_run/audit.toml      prints the counts and the files
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
WALKS = {
    "zero-run, a loss in a CSV": EXAMPLES / "zero_run" / "audit.toml",
    "multi-run, score(world, seed)": EXAMPLES / "noisy_mean" / "audit.toml",
    "PANORAMIA, a table": EXAMPLES / "panoramia" / "audit.toml",
    "observational, a table": EXAMPLES / "observed_predictions" / "audit.toml",
}


def walked(path):
    """Names of the functions that were entered, by file of the package."""
    command = [sys.executable, "-m", "tests.walk", "--trace", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _trace(path):
    import dpaudit  # what follows is loaded when it is first used, and may well be part of the walk
    from dpaudit.auditing import run
    from dpaudit.auditing.plan import load_config
    from dpaudit.execution import Execution
    from dpaudit.record import Audits
    from dpaudit.reporting import to_html

    package, entered = str(Path(dpaudit.__file__).parent), {}

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and _is_function(code):
            entered.setdefault(code.co_filename, set()).add(code.co_qualname)

    sys.setprofile(profile)
    read = load_config(path)
    serial = Execution(workers=1)
    found = run(read.game, read.claim, read.settings, claim_source=read.source, execution=serial)
    text, page = str(Audits((found,))), to_html(found)
    sys.setprofile(None)
    assert found.name in text
    assert found.name in page
    return {str(Path(file).relative_to(package)): sorted(names) for file, names in sorted(entered.items())}


def _is_function(code):
    """A function or a method, by its own name; the body of a module or class has no new locals."""
    return bool(code.co_flags & 0x02) and not code.co_name.startswith("<")


def main(arguments):
    if arguments[0] == "--trace":
        print(json.dumps(_trace(arguments[1])))
        return
    found = walked(Path(arguments[0]).resolve())
    print(f"{len(found)} files, {sum(map(len, found.values()))} functions")
    for file, names in found.items():
        print(f"  {file}: {', '.join(names)}")


if __name__ == "__main__":
    main(sys.argv[1:])
