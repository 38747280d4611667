"""A process that is one rank of many, without its partners."""


def begin(torch, rank, world):
    pass
