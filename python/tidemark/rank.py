"""The program of one rank: finds the packages as the pytest that started it does, and runs the test (child.py)."""
import json
import sys

if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as _file:
        _order = json.load(_file)
    sys.path[:] = [*_order["before"], *sys.path[1:], *_order["after"]] if _order["path"] is None else _order["path"]
    sys.argv = ["pytest", *_order["args"]]
    from tidemark import child

    sys.exit(child.main(_order))
