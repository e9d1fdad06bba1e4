"""`python -m handful` is `handful`; also what `torchrun -m handful` starts."""

from handful.apps.cli import main

if __name__ == "__main__":
    main()
