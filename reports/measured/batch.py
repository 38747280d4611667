"""Programs of this folder, each in a process of its own that has imported torch already."""
import os
import sys


def main(run):
    """Calls `run` with the words of the command line; after --batch, with those of every line of standard input, each in a fork. Returns the exit
    code: 3 if one of these has failed, and the lines after it are not run."""
    if sys.argv[1:] != ["--batch"]:
        run(sys.argv[1:])
        return 0
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(line.split())
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            return 3
    return 0
