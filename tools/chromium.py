"""See to it that there is a Chromium for the panel's tests: from Debian's packages when this is root, else say how."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Find or install it; 0 also where it cannot be had, since the tests then say that they were skipped."""
    if any(map(shutil.which, BROWSERS)):
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print("No Chromium here, so the browser tests will be skipped. On Debian: apt-get install chromium (as root).")
        return 0
    print("Installing Debian's chromium for the panel's tests", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", "-qq", *command], env=quiet, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
