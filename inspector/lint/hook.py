#!/usr/bin/env python3
"""Lint requests from another repository's pre-commit: `lint` from this checkout, whatever the working directory.

It needs a Python that has requirements.txt; it changes no file.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's own folder first, where report.py and base.py would shadow other modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from inspector.cli import app

    app(["lint", *sys.argv[1:]])
