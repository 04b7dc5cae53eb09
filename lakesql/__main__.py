"""`python -m lakesql`."""

from lakesql.cli.main import main

main()
