"""`python -m bancada`."""

from bancada.cli import main

if __name__ == "__main__":
    main()
