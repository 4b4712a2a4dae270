"""``python -m erase`` is ``erase``."""

from erase.cli import run

if __name__ == "__main__":
    run()
