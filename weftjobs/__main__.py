"""`python -m weftjobs`, and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from weftjobs import cli
    except ImportError as error:
        # Whose import failed, the command line or a library of the extra, is in the name.
        if error.name is None or error.name.partition(".")[0] not in (
            "typer",
            "rich",
            "cron_descriptor",
        ):
            raise
        sys.exit(f"weftjobs: {error.name} is not installed: pip install 'weftjobs[cli]'")
    cli.main()


if __name__ == "__main__":
    main()
