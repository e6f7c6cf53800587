"""What the README shows is what its commands print."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_printed_output_is_the_examples():
    found = subprocess.run(
        [sys.executable, ROOT / "examples" / "first_audit.py"], capture_output=True, text=True, check=True
    )
    assert found.stderr == ""
    assert found.stdout.strip() in README


def test_code_is_the_examples():
    code = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    example = (ROOT / "examples" / "first_audit.py").read_text()
    for line in code.splitlines():
        call = line.split("  #")[0].strip()
        assert call in example or call.startswith("da."), line
    exec(compile(code, "README.md", "exec"), {})


def test_two_commands_do_everything():
    makefile = (ROOT / "Makefile").read_text()
    block = re.search(r"## Two commands.*?```\n(.*?)```", README, re.S).group(1)
    commands = [line.split("#")[0].strip() for line in block.splitlines()]
    assert commands == ["make demo", "make test"]
    for command in commands:
        assert f"\n{command.split()[1]}:" in makefile


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
