"""Progress of runs: a bar in notebooks and on terminals, or a function of the user."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional, Union

ProgressLike = Union[bool, None, Callable[[int, int], None]]
"""True for a bar, False for none, None for a bar where someone watches, or `f(done, total)`."""


def is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Bar:
    """A line that is written again: HTML in a notebook, text on a terminal."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.handle: Any = None
        self.notebook = is_notebook()

    def __call__(self, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.begun
        rest = f", {elapsed * (total - done) / done:.0f} s to go" if done else ""
        line = f"{done} of {total} runs, {elapsed:.0f} s{rest if done < total else ''}"
        if self.notebook:
            from IPython.display import HTML, display  # type: ignore[import-not-found]

            page = HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {line}')
            if self.handle is None:
                self.handle = display(page, display_id=True)
            else:
                self.handle.update(page)
        else:
            end = "\n" if done == total else ""
            print(f"\r{line}\x1b[K", end=end, file=sys.stderr, flush=True)


def progress(given: ProgressLike) -> Optional[Callable[[int, int], None]]:
    if callable(given):
        return given
    if given is None:
        given = is_notebook() or sys.stderr.isatty()
    return Bar() if given else None
