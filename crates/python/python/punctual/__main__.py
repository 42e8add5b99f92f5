"""The `punctual` command: `python -m punctual`."""

import sys

from . import _native


def main() -> None:
    sys.exit(_native.command(["punctual", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
