"""The version of tidemark; CMake and the metadata of the package read it here."""
import re
from importlib import metadata

__version__ = "1.0.0"
DISTRIBUTION = "tidemark-gpu"  # the name of the package that pip installs; the package index has another project named tidemark


def other_distribution() -> str:
    """One line about a distribution named tidemark in this environment, which also has a command `tidemark`; "" without one."""
    try:
        distribution = metadata.distribution("tidemark")
    except metadata.PackageNotFoundError:
        return ""
    return (f"the distribution tidemark {distribution.version} is installed beside {DISTRIBUTION}, and both have a command `tidemark`: run `python -m tidemark`, "
            f"or pip uninstall tidemark and then pip install --force-reinstall --no-deps {DISTRIBUTION}")


def facts_folder() -> str:
    """The folder of this distribution's metadata; "" where the package runs from its sources."""
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
    name = re.sub(r"[-_.]+", "_", DISTRIBUTION)
    return str(distribution.locate_file(f"{name}-{distribution.version}.dist-info"))
