"""The command ``headrace``: runs the command line tool, a separate program installed next to this module."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process with the command line tool."""
    program = Path(__file__).with_name("headrace")
    if not program.exists():
        sys.exit("headrace: this package was built without the command line tool, as CLI11, libcrypto or xxHash was missing: install a wheel from PyPI")
    os.execv(program, ["headrace", *sys.argv[1:]])
