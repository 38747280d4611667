"""The name of what holds an object of the program: a variable, an attribute, a closure; or a cycle of references, which waits for Python's collector.
Python's referrers are asked while the program runs, and nothing of the program changes."""
import dis
import gc
import itertools
import os
import sys
import types

LEVELS, WIDEST = 32, 200  # of a search: a module within another is three levels
WITHIN = ("_buffers", "_parameters", "_modules")  # dictionaries of a module, whose keys are attributes too
STORES = {"STORE_FAST": 1, "STORE_DEREF": 1, "STORE_NAME": 1, "STORE_GLOBAL": 1, "STORE_FAST_MAYBE_NULL": 1, "STORE_FAST_LOAD_FAST": 1, "STORE_FAST_STORE_FAST": 2}


def is_a(one, kinds):
    """As isinstance, which asks an object for its __class__ too, where a program's own code may answer, or warn, as torch.distributed.reduce_op does."""
    return issubclass(type(one), kinds)


def type_name(one):
    return type.__dict__["__name__"].__get__(type(one))


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
    if not is_a(values, dict) and type(values).__name__ != "FrameLocalsProxy":  # a metaclass gave the class a namespace of another type
        return choose([])
    chosen = choose(list(dict.items(values) if is_a(values, dict) else values.items()))
    if is_a(values, dict) and frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a function's
        dict.clear(values)
    return chosen


def variables(frame):
    """Names by the ids of their values."""
    return of_variables(frame, lambda items: {id(value): name for name, value in items})


def own_dictionary(holder):
    """The dictionary of an object's attributes, if its class leaves that to Python; else None."""
    for cls in type.__dict__["__mro__"].__get__(type(holder)):
        if "__dict__" in type.__dict__["__dict__"].__get__(cls):
            if type(type.__dict__["__dict__"].__get__(cls)["__dict__"]) is not types.GetSetDescriptorType:
                return None
            break
    try:
        return object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return None


def attribute(holder, referent, key):
    """The name under which an object has what is held, or has it in its own dictionary, which is then what is held."""
    own = own_dictionary(holder)
    if own is None:
        return slot(holder, referent)
    if own is referent or not is_a(own, dict):
        return key
    name = key_of(own, referent)
    return key if name in WITHIN else name or slot(holder, referent)


def slot(holder, referent):
    """The name of the slot that has what is held."""
    for cls in type.__dict__["__mro__"].__get__(type(holder)):
        for name, member in list(type.__dict__["__dict__"].__get__(cls).items()):
            if type(member) is types.MemberDescriptorType and type(holder) is not type:
                try:
                    if member.__get__(holder) is referent:
                        return name
                except (AttributeError, TypeError):
                    continue  # empty, or of Python's own structure
    return ""


def key_of(holder, referent):
    """The key, if it is a string or a number. The text of another one may read the program's values, as a tensor's does."""
    return next((str(name) for name, value in list(dict.items(holder)) if value is referent and type(name) in (str, int)), "")


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


def is_garbage(objects, lists):
    """True if the objects of a list have no references but from each other and from `lists` lists of this search. Python's collector asks the same."""
    of_list, = references([object()])
    within = references_within(objects)
    return [count - of_list - (lists - 1) for count in references(objects)] == within


def is_part(module, name):
    """True of a module's parameter, or of a module within it: these are the module, and what holds them is what holds it."""
    own = own_dictionary(module)
    return is_a(own, dict) and any(dict.__contains__(part, name) for part in (dict.get(own, "_parameters"), dict.get(own, "_modules")) if is_a(part, dict))


class Way:
    """A way of a search through an object, the `member`-th of the search: under the same key, and with the same note. An object with two attributes has two ways.
    `is_named`: a module has been met that has a name for it. What holds the module is looked for all the same, since a module may be garbage.
    `holds` has a bit for each of the blocks that hang on it."""

    def __init__(self, number, member, key="", note="", is_named=False, holds=0):
        self.number, self.member, self.key, self.note, self.is_named, self.holds = number, member, key, note, is_named, holds
        self.held = []  # numbers of the ways to which it leads


class Holders:
    """A search from objects to what holds them. `others`: folders whose variables count after the program's. `paths`: paths of modules by the ids of the modules."""

    def __init__(self, torch, others, paths):
        self.torch, self.paths, self.own = torch, paths, set()
        self.globals = {id(types.ModuleType.__dict__["__dict__"].__get__(module)): name for name, module in list(sys.modules.items()) if is_a(module, types.ModuleType)}
        self.variables = {}  # code and name, by the id of the value
        self.numpy = sys.modules.get("numpy")
        self.unseen = None  # what the collector does not know, by the ids of what is in it, once it is asked for
        for frame in sorted(self.frames(), key=lambda frame: frame.f_code.co_filename.startswith(others)):
            for value, name in variables(frame).items():
                self.variables.setdefault(value, (frame.f_code, name))

    def frames(self):
        return [frame for innermost in sys._current_frames().values() for frame in reversed(self.outwards(innermost))]

    def unseen_holder(self, referent):
        """What has the object and is not known to Python's collector, or None: a NumPy array of objects, which the collector does not follow, or a dictionary or tuple
        that has nothing but such arrays, which it does not look at: also that of an object, once it was asked for."""
        if self.unseen is None:
            self.unseen, met = {}, {}
            self.own.update((id(self.unseen), id(met)))
            of_frames = [of_variables(frame, lambda items: [value for _, value in items]) for frame in self.frames()]
            after = list(filter(self.is_unseen, itertools.chain(gc.get_referents(*gc.get_objects()), *of_frames)))
            while after:
                holder = after.pop()
                if id(holder) in met:
                    continue
                met[id(holder)] = holder
                is_container = type(holder) in (dict, tuple)
                inside = list(filter(self.is_unseen, gc.get_referents(holder))) if is_container else self.numpy.ndarray.flat.__get__(holder)
                self.unseen.update((id(one), holder) for one in inside)
                after += inside if is_container else filter(self.is_unseen, inside)
        return self.unseen.get(id(referent))

    def is_unseen(self, one):
        if type(one) in (dict, tuple):
            return not gc.is_tracked(one) and id(one) not in self.own
        array = self.numpy and self.numpy.ndarray
        return array is not None and is_a(one, array) and array.dtype.__get__(one).hasobject and array.dtype.__get__(one) == object

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
            return f"class {type.__dict__['__qualname__'].__get__(holder)}, attribute `{attribute(holder, referent, key)}`"
        frame = holder if is_a(holder, types.FrameType) else holder.gi_frame if type(holder) is types.GeneratorType else None
        if frame and (name := variables(frame).get(id(referent))):
            return variable(name, frame.f_code) + (", whose frame is kept" if frame is holder else "")
        if is_a(holder, self.torch.nn.Module) and (name := attribute(holder, referent, key)) and not is_part(holder, name):
            path = self.paths.get(id(holder), b"").decode()
            return f"attribute `{name}` of {f'module {path} (' if path else ''}{type_name(holder)}{')' if path else ''}"
        return ""

    def through(self, holder, referent, key):
        """What a name says of an object between."""
        name = "" if is_a(holder, (dict, list, tuple, set)) else attribute(holder, referent, key)
        if is_a(holder, self.torch.nn.Module) and is_part(holder, name):
            return ""
        if is_a(holder, types.FunctionType) and name in ("", "__closure__"):
            return f"closure {holder.__name__} ({place(holder.__code__, holder.__code__.co_firstlineno)})"
        return f"attribute `{name}` of {type_name(holder)}" if name else ""

    def holders(self, starts, holds, weights):
        """For each block the kind and the name of what holds it: "holder", or "cycle of references" with what is on its way. Blocks without a known holder are left out.
        `starts`: a list of objects, of which the list is emptied; `holds`: the blocks of each, as bits; `weights`: the bytes of each block.
        The holder of a block is the one on which most bytes of all these blocks hang, and of equal ones the one that is nearest."""
        members, level = self.lists(2)  # all objects of the search; those whose holders are looked for
        members += starts
        ways = [Way(at, at, holds=bits) for at, bits in enumerate(holds)]
        starts.clear()
        numbers = {id(one): {("", "", False): at} for at, one in enumerate(members)}  # of ways, by key, note, and whether they are named
        ends = []  # name without and with its note, the number of the way that leads to it, and whether it is a module's
        begin, is_whole = 0, False
        for distance in range(LEVELS):
            new = [way for way in ways[begin:] if not self.ends_with_variable(members[way.member], way, distance, ends)]
            level += [members[at] for at in dict.fromkeys(way.member for way in new)]
            begin = len(ways)
            if not level or len(level) > WIDEST:
                is_whole = not level
                break
            self.climb(level, {way.number for way in new}, members, ways, numbers, ends)
            level.clear()
        level.clear()
        self.settle(ways)
        return self.choose(members, ways, ends, len(holds), weights, is_whole)

    def ends_with_variable(self, one, way, distance, ends):
        """True if the object is a variable of a function that runs: the search ends there, unless it begins there, since something else may hold it for longer."""
        if id(one) not in self.variables:
            return False
        if not way.is_named:
            code, name = self.variables[id(one)]
            text = variable(name, code)
            ends.append((text, text + (", " + way.note if way.note else ""), way.number, False))
        return distance > 0

    def climb(self, level, new, members, ways, numbers, ends):
        """The objects that refer to those of the level, to which these new ways have come, come to the members; ends of the search to the ends."""
        of_level = {id(one): one for one in level}
        asked = tuple(level)  # Python 3.13 reports the tuple of the arguments too
        referrers = gc.get_referrers(*asked)
        self.own.update((id(asked), id(referrers), id(of_level)))
        found = set()
        for holder in referrers:
            if id(holder) in self.own or is_a(holder, types.FrameType) and not self.outwards(holder)[:1] == [holder]:
                continue
            held = {id(one): one for one in gc.get_referents(holder) if id(one) in of_level}
            found.update(held)
            for referent in held.values():
                self.meet(holder, referent, new, members, ways, numbers, ends)
            held.clear()
        for referent in of_level.values() if self.numpy and of_level.keys() - found else ():  # of all: an array may hold those as well that something else holds
            holder = self.unseen_holder(referent)
            if holder is not None:
                self.meet(holder, referent, new, members, ways, numbers, ends)
        referrers.clear()
        of_level.clear()
        self.own.difference_update((id(asked), id(referrers), id(of_level)))  # an object of the program may come to lie there

    def meet(self, holder, referent, new, members, ways, numbers, ends):
        own_key = key_of(holder, referent) if is_a(holder, dict) else ""
        for way in [ways[number] for number in numbers[id(referent)].values() if number in new]:
            is_kept = own_key not in WITHIN
            key = own_key if own_key and is_kept else way.key
            name, is_module = self.end_at(holder, referent, key), is_a(holder, self.torch.nn.Module)
            if name and not way.is_named:
                ends.append((name, name + (", " + way.note if way.note else ""), way.number, is_module))
            if name and not is_module:
                continue
            identity = own_key if is_kept else way.key, way.note or self.through(holder, referent, key), way.is_named or bool(name)
            if id(holder) not in numbers:
                members.append(holder)
                numbers[id(holder)] = {}
            of_holder = numbers[id(holder)]
            if identity not in of_holder:
                member = ways[next(iter(of_holder.values()))].member if of_holder else len(members) - 1
                of_holder[identity] = len(ways)
                ways.append(Way(len(ways), member, *identity))
            ways[of_holder[identity]].held.append(way.number)

    @staticmethod
    def settle(ways):
        """Blocks that hang on an object hang on what refers to it."""
        changed = True
        while changed:
            changed = False
            for way in ways:
                before = way.holds
                for number in way.held:
                    way.holds |= ways[number].holds
                changed = changed or way.holds != before

    def choose(self, members, ways, ends, starts, weights, is_whole):
        holds, texts, order, modules = {}, {}, {}, set()
        for name, text, number, is_module in ends:
            holds[name] = holds.get(name, 0) | ways[number].holds
            texts.setdefault(name, []).append((text, ways[number].holds))
            order.setdefault(name, len(order))
            modules.update((name,) * is_module)
        weight = {name: sum(one for at, one in enumerate(weights) if bits >> at & 1) for name, bits in holds.items()}
        best = sorted(holds, key=lambda name: (-weight[name], order[name]))
        out, sure = {}, set()
        for block in range(len(weights)):
            name = next((one for one in best if holds[one] >> block & 1), None)
            if name is not None:
                out[block] = "holder", next(text for text, bits in texts[name] if bits >> block & 1)
                sure.update((block,) * (name not in modules))
        if not is_whole:
            return out
        held_by = {}  # numbers of objects that refer to each
        for way in ways:
            for number in way.held:
                held_by.setdefault(number, []).append(way.number)
        for start in range(starts):
            blocks = [block for block in range(len(weights)) if ways[start].holds >> block & 1 and block not in sure]
            if not blocks:
                continue
            closure, after = {start: None}, [start]
            while after:
                for number in held_by.get(after.pop(), ()):
                    if number not in closure:
                        closure[number] = None
                        after.append(number)
            objects, = self.lists(1)
            objects += [members[at] for at in dict.fromkeys(ways[number].member for number in closure)]
            if is_garbage(objects, 2):
                note = next((ways[number].note for number in closure if ways[number].note), "")
                out.update(dict.fromkeys(blocks, ("cycle of references", note)))
            objects.clear()
        return out
