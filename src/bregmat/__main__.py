"""``python -m bregmat``: the command line."""

from bregmat.cli import main

if __name__ == "__main__":
    main()
