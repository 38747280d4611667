"""`python -m tidemark`: the same as the command `tidemark`."""
from tidemark.command import main

if __name__ == "__main__":
    main()
