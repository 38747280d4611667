"""Memory that grows from step to step: the blocks that a step leaves behind get labels of the kind "holder" or "cycle of references", with the name of what holds them in the
program. The record says which blocks these are at the end; this says who holds them, which only a program that runs can say."""
import ctypes
import gc
import os
import sys

import tidemark_imported
from tidemark_holders import Holders

SETTLED = 1  # the step that begins with all that the first one leaves for good: state of the optimizer
FIRST = 4  # the step that begins with the first search; each search waits for twice as many
MOST = 8  # searches for holders at a time
LARGEST = 1 << 18  # nodes of graphs


class Searching(Exception):
    """A saved tensor that a hook of the program would make again."""


class Begins:
    """The begins of the steps of a kind, and what was allocated at the last search."""

    def __init__(self):
        self.count, self.wanted, self.allocated = -1, FIRST, 0
        self.before, self.made, self.last = {}, {}, {}  # blocks: bytes by address


class Growth:
    def __init__(self, torch, layer, paths, libraries):
        self.torch, self.layer, self.paths = torch, layer, paths
        self.waits_for_watchdog = libraries.tidemark_device_waits_for_watchdog
        self.waits_for_watchdog.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self.others = (os.path.dirname(torch.__file__) + os.sep,)
        self.step, self.searches = 0, False
        self.kinds = {}  # of what begins a step
        self.saved = {}  # names of what nodes of a type save
        self.guard()

    def guard(self):
        """Hooks of saved tensors may compute: a search does not call them."""
        hooks = self.torch.autograd.graph.saved_tensors_hooks
        begin = hooks.__init__

        def guarded(own, pack, unpack):
            def unpacked(packed):
                if self.searches:
                    raise Searching
                return unpack(packed)

            begin(own, pack, unpacked)

        hooks.__init__ = guarded

    def begun(self, phase, step):
        """A phase begins. Without an optimizer each backward begins a step; without one each forward."""
        kinds = ["step"] if step > self.step else []
        if step <= 1 and (phase == "backward" or phase == "forward" and "backward" not in self.kinds):
            kinds.append(phase)
        self.step = step
        if kinds and self.torch.cuda.is_initialized() and not self.searches:
            self.searches = True
            try:
                for kind in kinds:
                    self.look(self.kinds.setdefault(kind, Begins()))
            except Exception as error:  # whatever the program's objects do
                print(f"tidemark: --report: what holds the memory that grows was not found: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                self.searches = False

    def look(self, begins):
        """A search is for blocks of the steps since the one before, and only where more is allocated than then."""
        begins.count += 1
        if begins.count == begins.wanted - 2:
            begins.made = {address: size for address, size in self.blocks().items() if address not in begins.before}
        elif begins.count == begins.wanted - 1:
            begins.last = self.blocks()
        elif begins.count in (SETTLED, begins.wanted):
            allocated, alive = self.layer.tidemark_record_allocated(), self.blocks()
            if begins.count == begins.wanted:
                begins.wanted *= 2
                if allocated > begins.allocated:
                    left = {address: size for address, size in begins.made.items() if address in begins.last and address in alive}
                    self.name(left or {address: size for address, size in alive.items() if begins.before.get(address) != size})  # else blocks give way to larger ones
            begins.allocated, begins.before = allocated, alive

    def blocks(self):
        sizes = {}
        for segment in self.torch.cuda.memory_snapshot():
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    sizes[address] = block["size"]
                address += block["size"]
        return sizes

    def name(self, left):
        """Labels the blocks that are left with their holders."""
        collects = gc.isenabled()
        gc.disable()
        tidemark_imported.join()  # a module of torch may be what holds a block
        try:
            with self.torch._C.DisableTorchFunctionSubclass():
                self.label(left)
        finally:
            if collects:
                gc.enable()

    def label(self, left):
        holds, objects = self.holding(left)
        search = Holders(self.torch, self.others, self.paths)
        search.own.add(id(objects))
        searches, named = 0, set()
        for at in sorted(range(len(objects)), key=lambda at: -sum(left[address] for address in holds[at])):
            start, = search.lists(1)
            start.append(objects[at])
            objects[at] = None
            if searches == MOST or holds[at] <= named:
                continue
            searches += 1
            holder = search.holder(start)
            if holder is None:
                continue
            for address in holds[at] - named:
                self.layer.tidemark_record_label(address, *(word.encode() for word in holder))
            named |= holds[at]
        for address in left.keys() - named:
            if self.waits_for_watchdog(address, left[address]):
                self.layer.tidemark_record_label(address, b"work of a process group", b"")

    def holding(self, left):
        """Tensors, and the addresses of the blocks that each of them holds: its own, and those of its graph."""
        objects = [one for one in gc.get_objects() if issubclass(type(one), self.torch.Tensor)]
        holds = [{self.address(one)} & left.keys() for one in objects]
        nodes, inner, begins = {}, set(), []
        for at, one in enumerate(objects):
            node = self.of_graph(one)
            if node is not None:
                begins.append((at, id(node)))
                self.walk(node, nodes, inner)
        met = set()
        for at, begin in begins:
            if begin not in inner:
                holds[at] |= self.saved_by(begin, nodes, met) & left.keys()
        kept = [at for at, addresses in enumerate(holds) if addresses]
        return [holds[at] for at in kept], [objects[at] for at in kept]

    def address(self, tensor):
        try:
            return tensor.untyped_storage().data_ptr() if tensor.is_cuda else 0
        except Exception:  # as its class likes
            return 0  # a tensor without memory of its own

    def of_graph(self, tensor):
        try:
            return tensor.grad_fn
        except RuntimeError:
            return None

    @staticmethod
    def walk(begin, nodes, inner):
        """Nodes by their ids; `inner` are those to which others lead."""
        after = [begin]
        while after and len(nodes) < LARGEST:
            node = after.pop()
            if id(node) in nodes:
                continue
            nodes[id(node)] = node
            following = [one for one, _ in node.next_functions if one is not None]
            inner.update(map(id, following))
            after += following

    def saved_by(self, begin, nodes, met):
        """Addresses of the tensors that a graph saves, without the nodes that were met before."""
        after, addresses = [begin], set()
        while after:
            at = after.pop()
            if at in met or at not in nodes:
                continue
            met.add(at)
            after += [id(one) for one, _ in nodes[at].next_functions if one is not None]
            for value in self.saved_in(nodes[at]):
                for one in value if isinstance(value, (tuple, list)) else (value,):
                    if isinstance(one, self.torch.Tensor):
                        addresses.add(self.address(one))
        return addresses

    def saved_in(self, node):
        names = self.saved.get(type(node))
        if names is None:
            names = [name for name in dir(type(node)) if name.startswith("_saved_") or name == "saved_tensors"]
            self.saved[type(node)] = names
        yield from list(getattr(node, "__dict__", {}).values())
        for name in names:
            try:
                yield getattr(node, name)
            except (RuntimeError, Searching):
                continue  # freed, changed since, or a hook's
