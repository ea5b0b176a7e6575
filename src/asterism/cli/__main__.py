"""Run ``asterism`` as ``python -m asterism.cli``."""

from __future__ import annotations

import sys

from asterism.cli import main

if __name__ == "__main__":
    sys.exit(main())
