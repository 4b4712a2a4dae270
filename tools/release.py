"""`make release`: build sdist and wheel into dist/, and try the wheel where there is no checkout.

The wheel is built from the sdist. `twine check` reads both. The wheel is installed into a new
environment with the pinned versions; there the README's Python examples and `erase demo` run, from
an empty folder and without PYTHONPATH. Nothing is uploaded: a tag does that, see
.github/workflows/release.yml. Exit status 1 if something fails.
"""

import argparse
import os
import re
import runpy
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_BYTES = 3_000_000  # of the wheel
TOOLS = ["build", "twine"]


def version() -> str:
    """Return the version in the source."""
    return str(runpy.run_path(str(ROOT / "src" / "erase" / "version.py"))["__version__"])


def examples() -> str:
    """Return the README's Python examples as one script."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def environment(place: Path) -> Path:
    """Make an empty virtual environment; return its folder of programs."""
    venv.create(place, with_pip=True)
    return place / ("Scripts" if os.name == "nt" else "bin")


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command without what the caller's environment adds; return what it prints."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "ERASE_DATA")}
    print("$", *words, flush=True)
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=kept, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}\nstatus {done.returncode}: {words[0]}")
    return done.stdout


def build(dist: Path, place: Path) -> tuple[Path, Path]:
    """Build an sdist, and a wheel from it; check both; return the two files."""
    programs = environment(place / "tools")
    run(programs / "python", "-m", "pip", "install", "--quiet", *TOOLS, cwd=place)
    run(programs / "python", "-m", "build", "--outdir", dist, ROOT, cwd=place)
    name = f"graph_erase-{version()}"
    sdist, wheel = dist / f"{name}.tar.gz", dist / f"{name}-py3-none-any.whl"
    run(programs / "python", "-m", "twine", "check", "--strict", sdist, wheel, cwd=place)
    for file in (sdist, wheel):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    if wheel.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{wheel.name} has more than {MOST_BYTES / 1e6:.0f} MB")
    return sdist, wheel


def try_wheel(wheel: Path, torch: str, place: Path) -> None:
    """Install the wheel into a new environment, and use it from an empty folder."""
    programs, empty = environment(place / "clean"), place / "empty"
    empty.mkdir()
    pip: list[str | Path] = [
        programs / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "-c",
        ROOT / "constraints.txt",
    ]
    run(*pip, f"torch=={torch}", cwd=empty)
    run(*pip, wheel, cwd=empty)
    where = run(programs / "python", "-c", "import erase; print(erase.__file__)", cwd=empty)
    if not Path(where.strip()).is_relative_to(place):
        raise SystemExit(f"erase is imported from {where.strip()}, not from the wheel")
    if run(programs / "erase", "--version", cwd=empty).split() != ["erase", version()]:
        raise SystemExit("the installed command has another version")
    run(programs / "python", "-c", examples(), cwd=empty)
    print(run(programs / "erase", "demo", "--out", "demo", cwd=empty).strip())
    for name in ("report.html", "debian.safetensors", "demo/report.html"):
        if not (empty / name).stat().st_size:
            raise SystemExit(f"{name} is empty")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, metavar="VERSION", help="to try the wheel with")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    asked.dist.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="erase-release-") as folder:
        place = Path(folder).resolve()
        _, wheel = build(asked.dist.resolve(), place)
        try_wheel(wheel, asked.torch, place)
    print(f"{version()} is ready in {asked.dist}.")


if __name__ == "__main__":
    main()
