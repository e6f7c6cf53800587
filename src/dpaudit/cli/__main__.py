"""`python -m dpaudit.cli`."""

from dpaudit.cli import main

main()
