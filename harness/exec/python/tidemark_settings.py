"""What `tidemark exec` tells its processes: one JSON object in one variable (../settings.h)."""
import json
import os

VARIABLE = "TIDEMARK_EXEC_SETTINGS"


def settings(environment=os.environ):
    return json.loads(environment[VARIABLE])
