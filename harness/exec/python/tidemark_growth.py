"""Memory that grows from step to step: the blocks that a step leaves behind get labels of the kind "holder" or "cycle of references", with the name of what holds them in the
program. The record says which blocks these are at the end; this says who holds them, which only a program that runs can say."""
import ctypes
import gc
import os
import sys

import tidemark_collector
import tidemark_imported
from tidemark_holders import Holders, own_dictionary

SETTLED = 1  # the step that begins with all that the first one leaves for good: state of the optimizer
FIRST = 4  # the step that begins with the first search; each search waits for twice as many
MOST = 64  # a search begins at so many objects
EVALUATIONS = 16  # searches in forwards without backwards
SMALL = 64  # the part of what is allocated that is not looked at before an optimizer's step
LARGEST = 1 << 18  # nodes of graphs
ADDRESS = (1 << 64) - 1  # of a block's number: Growth.block_at


class Begins:
    """The begins of the steps of a kind, and what was allocated at the last search."""

    def __init__(self):
        self.count, self.wanted, self.allocated = -1, FIRST, 0
        self.before, self.made, self.last = {}, {}, {}  # bytes by block_at
        tidemark_collector.own.untrack(self)


class Growth:
    def __init__(self, torch, layer, paths, libraries):
        self.torch, self.layer, self.paths = torch, layer, paths
        self.waits_for_watchdog = libraries.tidemark_device_waits_for_watchdog
        self.waits_for_watchdog.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self.others = (os.path.dirname(torch.__file__) + os.sep,)
        self.step, self.searches = 0, False
        self.evaluations = self.steps = self.graphs = 0
        tensor = torch._C.TensorBase  # a class of the program's may have other attributes of these names
        self.grad_fn = tensor.grad_fn.__get__
        self.address, self.saved_address, self.is_saved = map(layer.tidemark_record_builtin, (b"storage", b"saved_storage", b"is_saved"))
        self.kinds = {}  # of what begins a step
        self.note_frames, self.drop_frames = map(layer.tidemark_record_builtin, (b"note_frames", b"drop_frames"))
        self.held = {}  # blocks of which a search has said what holds them: what does may have changed when the next one comes
        self.saved = {}  # what asks nodes of a type for what they save
        self.finds_saved = self.knows_saved()

    def knows_saved(self):
        """Whether the recorder finds a tensor that a graph has saved: an object that Python makes of it lives as long as the tensor, and a hook of the program may compute it."""
        one = self.torch.ones(1, requires_grad=True)
        node = (one * one).grad_fn
        known = self.is_saved(node._raw_saved_self, one)
        if not known:
            print(f"tidemark: --report: torch {self.torch.__version__} keeps what graphs save in a place that was not found: no holder is named of it", file=sys.stderr, flush=True)
        return known

    def begun(self, phase, step):
        """A phase begins. Without an optimizer each backward begins a step; without one each forward."""
        kinds = ["step"] if step > self.step else []
        if step <= 1 and (phase == "backward" or phase == "forward" and "backward" not in self.kinds):
            kinds.append(phase)
        elif phase == "forward" and self.evaluations < EVALUATIONS:
            kinds.append("evaluation")
        elif phase in ("backward", "optimizer"):
            self.kinds.pop("evaluation", None)  # the next forwards without backwards begin again
        elif phase != "forward" and step <= 1 and self.kinds.keys().isdisjoint(("backward", "forward")):
            kinds.append(phase)  # a range of the program
        self.step = step
        if kinds:
            self.searched(self.look_at_begins, kinds)

    def look_at_begins(self, kinds):
        for kind in kinds:
            self.evaluations += self.look(self.kinds.setdefault(kind, Begins())) and kind == "evaluation"

    def searched(self, look, *words):
        if self.torch.cuda.is_initialized() and not self.searches:
            self.searches = True
            self.note_frames()
            try:
                look(*words)
            except Exception as error:  # whatever the program's objects do
                print(f"tidemark: --report: what holds the memory that grows was not found: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                self.drop_frames()
                self.searches = False

    def look(self, begins):
        """A search is for blocks of the steps since the one before, and only where more is allocated than then. True where there was one."""
        searched = False
        begins.count += 1
        if begins.count == begins.wanted - 2:
            begins.made = {block: size for block, size in self.born_blocks().items() if block not in begins.before}
        elif begins.count == begins.wanted - 1:
            begins.last = self.born_blocks()
        elif begins.count in (SETTLED, begins.wanted):
            allocated, alive = self.layer.tidemark_record_allocated(), self.born_blocks()
            if begins.count == begins.wanted:
                begins.wanted *= 2
                searched = allocated > begins.allocated
                if searched:
                    left = {block & ADDRESS: size for block, size in begins.made.items() if block in begins.last and block in alive}
                    sizes = set(begins.before.values())  # else blocks give way to larger ones
                    left = left or {block & ADDRESS: size for block, size in alive.items() if block not in begins.before and size not in sizes}
                    self.held = {block: size for block, size in self.held.items() if block in alive}
                    self.name(left | {block & ADDRESS: size for block, size in self.held.items()})
            begins.allocated, begins.before = allocated, alive
        return searched

    def before_step(self):
        """Before an optimizer's step: who holds what is there of the forward, for the second time, the fourth, the eighth, ..."""
        self.steps += 1
        if self.steps > 1 and self.steps & self.steps - 1 == 0:
            self.searched(self.look_at_rest)

    def look_at_rest(self):
        rest = {address: size for address, size in self.blocks().items() if not self.layer.tidemark_record_is_labelled(address)}
        if sum(rest.values()) * SMALL > self.layer.tidemark_record_allocated():
            self.name(rest, "holder before a step")

    def tell_graphs(self):
        """After a backward that makes a graph: blocks that graphs have saved, for the first time, the second, the fourth, ..."""
        self.graphs += 1
        if self.graphs & self.graphs - 1 == 0:
            self.searched(self.look_at_graphs)

    def look_at_graphs(self):
        with self.torch._C.DisableTorchFunctionSubclass():
            nodes, inner = {}, set()
            functions = self.torch._C._functorch
            for one in gc.get_objects():
                if not issubclass(type(one), self.torch.Tensor):
                    continue
                while one is not None:
                    node = self.of_graph(one)
                    if node is not None:
                        self.walk(node, nodes, inner)
                    one = functions.get_unwrapped(one) if functions.is_functorch_wrapped_tensor(one) else None
            met = set()
            for begin in list(nodes):
                for address in self.saved_by(begin, nodes, met):
                    self.layer.tidemark_record_in_graph(address)

    def born_blocks(self):
        """An address may be that of another block since. The collector looks at no dictionary that has numbers alone."""
        return {self.block_at(address): size for address, size in self.blocks().items()}

    def block_at(self, address):
        return self.layer.tidemark_record_born(address) << 64 | address

    def blocks(self):
        sizes = {}
        for segment in self.torch.cuda.memory_snapshot():
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    sizes[address] = block["size"]
                address += block["size"]
        return sizes

    def name(self, left, word="holder"):
        """Labels the blocks that are left with their holders, of this kind if they are objects."""
        tidemark_imported.join()  # a module of torch may be what holds a block
        with self.torch._C.DisableTorchFunctionSubclass():
            self.label(left, word)

    def label(self, left, word):
        holds, objects = self.holding(left)
        held = set().union(*holds)
        search = Holders(self.torch, self.others, self.paths)
        search.own.add(id(objects))
        order = sorted(range(len(objects)), key=lambda at: -sum(left[address] for address in holds[at]))
        order = order[:: max(len(order) // MOST, 1)][:MOST]  # of all sizes
        starts, = search.lists(1)
        starts += [objects[at] for at in order]
        objects.clear()
        addresses = sorted(set().union(*(holds[at] for at in order)))
        bits = {address: 1 << number for number, address in enumerate(addresses)}
        found = search.holders(starts, [sum(bits[address] for address in holds[at]) for at in order], [left[address] for address in addresses])
        for number, (kind, name) in found.items():
            self.layer.tidemark_record_label(addresses[number], (word if kind == "holder" else kind).encode(), name.encode())
        if word == "holder":
            self.hold({addresses[number] for number in found}, set(addresses) | left.keys() - held, left)
        # Before a step a block may belong to PyTorch's own buckets as well, which no reference of Python's tells.
        for address in left.keys() - {addresses[number] for number in found} if word == "holder" else ():
            if self.waits_for_watchdog(address, left[address]):
                self.layer.tidemark_record_label(address, b"work of a process group", b"")

    def hold(self, found, searched, sizes):
        """Blocks whose holder is known from now on. What an earlier search has said of the others that this one has looked at is no longer so."""
        for block in list(self.held):
            if block & ADDRESS in searched and block & ADDRESS not in found:
                self.layer.tidemark_record_label(block & ADDRESS, b"holder", b"")
                del self.held[block]
        self.held.update((self.block_at(address), sizes[address]) for address in found)

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

    def of_graph(self, tensor):
        try:
            return self.grad_fn(tensor)
        except RuntimeError:
            return None

    def walk(self, begin, nodes, inner):
        """Nodes by their ids; `inner` are those to which others lead."""
        after = [begin]
        while after and len(nodes) < LARGEST:
            node = after.pop()
            if id(node) in nodes:
                continue
            nodes[id(node)] = node
            following = self.after(node)
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
            after += map(id, self.after(nodes[at]))
            addresses.update(self.saved_in(nodes[at]))
        return addresses

    def saved_in(self, node):
        """Addresses of what a node keeps as attributes, and of what autograd has saved, which is asked for without a call of the program's hooks."""
        for value in list((own_dictionary(node) or {}).values()):
            for one in value if type(value) in (tuple, list) else (value,):
                if issubclass(type(one), self.torch.Tensor):
                    yield self.address(one)
        getters = self.saved.get(type(node))
        if getters is None:
            own = self.torch._C._FunctionBase
            kind, names = (own, ("_raw_saved_tensors",)) if issubclass(type(node), own) else (type(node), [name for name in dir(type(node)) if name.startswith("_raw_saved_") or name == "variable"])
            getters = self.saved[type(node)] = [getattr(kind, name).__get__ for name in names if self.finds_saved]
        for get in getters:
            try:
                value = get(node)
            except RuntimeError:  # freed
                continue
            for one in value if type(value) in (tuple, list) else (value,):
                if type(one) is self.torch._C._autograd.SavedTensor:
                    yield self.saved_address(one)
                elif issubclass(type(one), self.torch.Tensor):
                    yield self.address(one)

    def after(self, node):
        """The nodes that follow. A node of a program's own class may have other attributes of that name."""
        own = self.torch._C._FunctionBase
        pairs = own.next_functions.__get__(node) if issubclass(type(node), own) else node.next_functions
        return [one for one, _ in pairs if one is not None]
