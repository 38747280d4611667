"""Programs that stand in for others, for the tests of ci."""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path
