"""The name of what holds an object of the program: a variable, an attribute, a closure; or a cycle of references, which waits for Python's collector.
Python's referrers are asked while the program runs, and nothing of the program changes."""
import dis
import gc
import itertools
import os
import sys
import types

LEVELS, WIDEST = 12, 200  # of a search
STORES = {"STORE_FAST": 1, "STORE_DEREF": 1, "STORE_NAME": 1, "STORE_GLOBAL": 1, "STORE_FAST_MAYBE_NULL": 1, "STORE_FAST_LOAD_FAST": 1, "STORE_FAST_STORE_FAST": 2}


def is_a(one, kinds):
    """As isinstance, which asks an object for its __class__ too, where a program's own code may answer, or warn, as torch.distributed.reduce_op does."""
    return issubclass(type(one), kinds)


def place(code, line):
    return f"{os.path.basename(code.co_filename)}:{line}"


def variable(name, code):
    """With the last line of the function that assigns it, or where the function begins."""
    lines, line, last = dict(dis.findlinestarts(code)), None, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = lines.get(instruction.offset) or line
        value = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if line and name in value[: STORES.get(instruction.opname, 0)]:
            last = max(last, line)
    return f"`{name}` in {code.co_name} ({place(code, last)})"


def of_variables(frame, choose):
    """The choice of names and values. Python before 3.13 makes a copy of a function's variables, which must not outlive this call."""
    values = frame.f_locals
    chosen = choose(list(values.items()))
    if is_a(values, dict) and frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a function's
        values.clear()
    return chosen


def variables(frame):
    """Names by the ids of their values."""
    return of_variables(frame, lambda items: {id(value): name for name, value in items})


def attribute(holder, referent, key):
    """The name under which an object has what is held, or has it in its own dictionary, which is then what is held."""
    try:
        own = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return ""
    return key if own is referent or not is_a(own, dict) else key_of(own, referent)


def key_of(holder, referent):
    """The key, if it is a string or a number. The text of another one may read the program's values, as a tensor's does."""
    return next((str(name) for name, value in list(holder.items()) if value is referent and is_a(name, (str, int))), "")


def references(objects):
    """The count of references to each object of a list."""
    return [sys.getrefcount(one) for one in objects]


def references_within(objects):
    """Of those, the count of references from the others."""
    counts = dict.fromkeys(map(id, objects), 0)
    for one in objects:
        for other in gc.get_referents(one):
            if id(other) in counts:
                counts[id(other)] += 1
    return list(counts.values())


def is_garbage(objects):
    """True if nothing refers to the objects of a list but they themselves. This is what Python's collector asks."""
    of_list, = references([object()])
    within = references_within(objects)
    return [count - of_list for count in references(objects)] == within


class Holders:
    """A search from an object to what holds it. `others`: folders whose variables count after the program's. `paths`: paths of modules by the ids of the modules."""

    def __init__(self, torch, others, paths):
        self.torch, self.paths, self.own = torch, paths, set()
        self.globals = {id(vars(module)): name for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)}
        self.variables = {}  # code and name, by the id of the value
        self.in_arrays = None  # arrays by the ids of what is in them, once they are asked for
        for frame in sorted(self.frames(), key=lambda frame: frame.f_code.co_filename.startswith(others)):
            for value, name in variables(frame).items():
                self.variables.setdefault(value, (frame.f_code, name))

    def frames(self):
        return [frame for innermost in sys._current_frames().values() for frame in reversed(self.outwards(innermost))]

    def array_with(self, referent):
        """NumPy's array of objects that has the object, or None. Python's collector does not follow arrays, so no referrer is known."""
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return None
        if self.in_arrays is None:
            self.in_arrays = {}
            self.own.add(id(self.in_arrays))
            of_frames = [of_variables(frame, lambda items: [value for _, value in items]) for frame in self.frames()]
            for array in itertools.chain(gc.get_referents(*gc.get_objects()), *of_frames):
                if is_a(array, numpy.ndarray) and array.dtype == object:
                    self.in_arrays.update((id(one), array) for one in array.flat)
        return self.in_arrays.get(id(referent))

    @staticmethod
    def outwards(frame):
        """It and its callers, without those of this search."""
        here, frames = os.path.dirname(__file__), []
        while frame:
            if os.path.dirname(frame.f_code.co_filename) != here:
                frames.append(frame)
            frame = frame.f_back
        return frames

    def lists(self, count):
        """Lists of this search, which hold nothing of the program."""
        sublists = [[] for _ in range(count)]
        self.own.update(map(id, sublists))
        return sublists

    def end_at(self, holder, referent, key):
        """The name, if the search ends here."""
        if is_a(holder, dict) and id(holder) in self.globals:
            return f"`{key}` of module {self.globals[id(holder)]}"
        if is_a(holder, type):
            return f"class {holder.__qualname__}, attribute `{attribute(holder, referent, key)}`"
        frame = holder if is_a(holder, types.FrameType) else getattr(holder, "gi_frame", None) if is_a(holder, types.GeneratorType) else None
        if frame and (name := variables(frame).get(id(referent))):
            return variable(name, frame.f_code) + (", whose frame is kept" if frame is holder else "")
        if is_a(holder, self.torch.nn.Module) and (name := attribute(holder, referent, key)):
            path = self.paths.get(id(holder), b"").decode()
            return f"attribute `{name}` of {f'module {path} (' if path else ''}{type(holder).__name__}{')' if path else ''}"
        return ""

    def through(self, holder, referent, key):
        """What a name says of an object between."""
        name = "" if is_a(holder, (dict, list, tuple, set)) else attribute(holder, referent, key)
        if is_a(holder, types.FunctionType) and not name:
            return f"closure {holder.__name__} ({place(holder.__code__, holder.__code__.co_firstlineno)})"
        return f"attribute `{name}` of {type(holder).__name__}" if name else ""

    def holder(self, start):
        """Kind and name of what holds the object in a list, which is taken out of it: "holder", or "cycle of references" with what is on its way;
        None if it was not found."""
        members, level, after = self.lists(3)
        level.append(start.pop())
        notes, met, between = [("", "")], set(), ""  # of each object of the level: its key in a dictionary, and what is between
        for _ in range(LEVELS):
            met.update(map(id, level))
            members += level
            notes_after = []
            for at, (key, note) in enumerate(notes):
                name = self.end_or_after(level[at], key, note, met, after, notes_after)
                if name:
                    return "holder", name
            between = next((note for _, note in notes_after if note), between)
            level[:], notes = after, notes_after
            after.clear()
            if not level or len(level) > WIDEST:
                break
        if level or not is_garbage(members):
            return None
        return "cycle of references", between

    def end_or_after(self, referent, key, note, met, after, notes):
        """The name where the search ends; else "", and what refers to the object comes after it."""
        if id(referent) in self.variables:
            code, name = self.variables[id(referent)]
            return variable(name, code) + (", " + note if note else "")
        known = len(after)
        for holder in gc.get_referrers(referent):
            if id(holder) in self.own or id(holder) in met or is_a(holder, types.FrameType) and not self.outwards(holder)[:1] == [holder]:
                continue
            own_key = key_of(holder, referent) if is_a(holder, dict) else ""
            own_key = key if own_key in ("_buffers", "_parameters") else own_key
            if name := self.end_at(holder, referent, own_key or key):
                return name + (", " + note if note else "")
            met.add(id(holder))
            after.append(holder)
            notes.append((own_key, note or self.through(holder, referent, key)))
        if len(after) == known and (array := self.array_with(referent)) is not None and id(array) not in met:
            after.append(array)
            notes.append(("", note))
        return ""
