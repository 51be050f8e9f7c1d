"""`python -m tilesmith ...`: the same program as the commands `tune` and `tilesmith`."""

from .tuner.cli.main import main

if __name__ == "__main__":
    main()
