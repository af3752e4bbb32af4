"""Make the virtual environment, and install into it with one honest line of progress.

Needs nothing but Python: `install.py --create .venv` makes the environment and brings its pip up to date,
`install.py PIP-ARGUMENTS` runs `pip install` in the environment whose Python runs this file.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

OLDEST = (3, 11)
BEAT = 10.0  # seconds between lines where the output is not a terminal
STEPS = re.compile(r"\s*(Collecting \S+|Downloading \S+(?: \([^)]*\))?|Building \S+ .*|Installing collected packages)")


def main(arguments: list[str]) -> int:
    """Run the command line; the exit code is pip's."""
    if sys.version_info < OLDEST:
        here = ".".join(map(str, sys.version_info[:2]))
        print(f"hermes_nb needs Python 3.11 or newer, and {sys.executable} is {here}: make PYTHON=python3.12 ...")
        return 1
    if arguments[:1] == ["--create"]:
        return create(Path(arguments[1]))
    return install(arguments)


def create(place: Path) -> int:
    """Make the environment at `place`; its pip must know dependency groups (25.1)."""
    if importlib.util.find_spec("ensurepip") is None:
        print(f"{sys.executable} cannot make virtual environments. On Debian: apt-get install python3-venv")
        return 1
    print(f"Making {place} with Python {sys.version.split()[0]}", flush=True)
    venv.create(place, with_pip=True, symlinks=True)
    python = str(place / "bin" / "python")
    return subprocess.call([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1"])


def install(arguments: list[str]) -> int:
    """Run `pip install`, telling how far it is; everything that pip said is shown when it fails."""
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", *arguments]
    started, told, packages, said = time.monotonic(), 0.0, 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            said.append(line)
            packages += line.startswith("Collecting")
            if step := STEPS.match(line):
                told = 0.0 if step[1].startswith("Installing") else told
                told = tell(f"{time.monotonic() - started:4.0f} s, packages: {packages:3d}. {step[1]}", told)
    if pip.returncode:
        print("\n" + "".join(said[-40:]))
    else:
        tell(f"Installed {' '.join(arguments)} in {time.monotonic() - started:.0f} s", 0.0, last=True)
    return pip.returncode


def tell(text: str, told: float, *, last: bool = False) -> float:
    """Show `text`: over the line before on a terminal, else as a line every few seconds; returns when it was told."""
    now = time.monotonic()
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{text[:110]}", end="\n" if last else "", flush=True)
    elif last or now - told >= BEAT:
        print(text[:110], flush=True)
    else:
        return told
    return now


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
