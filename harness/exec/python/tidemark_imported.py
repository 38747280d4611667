"""The objects of the imports of a process that forks programs (tidemark_server.py), some 250,000. In a copy Python's collector passes over them until it
goes through all objects of the process, and once the program has ended: a walk over them takes 0.2 s and copies their pages. Collections of young objects
never visit them, and a collection of all objects finds them in their place, so the collector runs when it runs in a process that has imported torch
itself, and frees the same."""
import atexit
import gc
import sys

apart = 0  # how many objects are out of the collector's sight


def begin():
    """Called before the imports. Their objects stay, and collecting them takes a quarter of the import's time."""
    gc.disable()


def set_apart():
    """Called once, after the imports and before the first copy. In a process that is a copy itself the objects of the first imports stay apart."""
    global apart
    end()
    gc.collect()
    gc.enable()
    if sys.version_info >= (3, 14):  # its collections visit some of the old objects each, and would come to the same objects sooner
        return
    gc.freeze()
    apart = gc.get_freeze_count()


def begin_in_copy():
    if apart:
        gc.callbacks.append(before_collection)
        atexit.register(end)


def before_collection(phase, collection):
    if phase == "start" and collection["generation"] == 2:
        join()


def join():
    """The collector sees all objects again, in gc.get_objects and gc.get_referrers too."""
    global apart
    if 0 < gc.get_freeze_count() <= apart:  # more: the program has frozen its own
        gc.unfreeze()
    apart = 0


def end():
    """Collections leave the objects of the imports apart: the program has ended, and none from here on frees what it measures."""
    if before_collection in gc.callbacks:
        gc.callbacks.remove(before_collection)
