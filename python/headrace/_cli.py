"""The command ``headrace``: the command line tool, a program of its own, lies beside this module."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program."""
    program = Path(__file__).with_name("headrace")
    if not program.exists():
        sys.exit("headrace: this package was built without the command line tool, as CLI11, libcrypto or xxHash was missing: install a wheel from PyPI")
    os.execv(program, ["headrace", *sys.argv[1:]])
