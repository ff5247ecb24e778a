"""`python -m chaos` is the command `chaos`."""

from chaos.cli import main

if __name__ == "__main__":
    main()
