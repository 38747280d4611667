"""Settings that `tidemark exec` gives its processes: one JSON object in one variable (../settings.h)."""
import json
import os

VARIABLE = "TIDEMARK_EXEC_SETTINGS"


def settings():
    return json.loads(os.environ[VARIABLE])
