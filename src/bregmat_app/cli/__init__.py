"""The command `bregmat`. It is imported by the command only, never by `import bregmat`."""

import logging
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command `bregmat`; its entry point."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f'the command bregmat needs {error.name}: pip install "bregmat[cli,plot]"\n')
        sys.exit(2)
    from bregmat_app.cli.app import app

    # without a home folder, matplotlib would log where it keeps its list of fonts
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    app(prog_name="bregmat")
