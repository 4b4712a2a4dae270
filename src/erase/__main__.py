"""``python -m erase`` is ``erase``."""

from erase.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
