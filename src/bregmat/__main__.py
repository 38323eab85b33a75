"""``python -m bregmat``: the command line."""

from bregmat_app.cli import main

if __name__ == "__main__":
    main()
