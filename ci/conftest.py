import os
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import executable


@pytest.fixture
def upstream(tmp_path):
    """ci/upstream on a stand-in for tidemark that runs the program alone: its exit code and its output."""
    executable(tmp_path / "tidemark", '#!/bin/sh\n[ "$1" != report ] || exit 0\nwhile [ "$1" != -- ]; do shift; done\nshift\n'
               '[ "$3" != torch.distributed.run ] || { python=$1; shift 5; exec "$python" "$@"; }\nexec "$@"\n')

    def upstream(*words):
        done = subprocess.run([sys.executable, Path(__file__).with_name("upstream"), *words], capture_output=True, text=True, check=False, cwd=tmp_path,
                              env={**os.environ, "TIDEMARK_BIN": str(tmp_path / "tidemark"), "TIDEMARK_WHEELS": str(tmp_path / "wheels")})
        return done.returncode, done.stdout + done.stderr

    return upstream
