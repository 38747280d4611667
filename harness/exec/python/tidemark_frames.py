"""Where Python keeps its frames: places of fields in its structures, which differ between its releases. A thread that stands still
shows them, since its frames and code are known. The recorder needs them (../../virtual/recorder/python_frames.h)."""
import ctypes
import os
import re
import struct
import sys
import threading

WORD = struct.calcsize("P")
POOLS = (os.path.join("concurrent", "futures", "thread.py"), os.path.join("multiprocessing", "pool.py"))  # their threads work for other lines than the first


class Memory:
    """This process's memory; zeros where there is none."""

    def __init__(self):
        self.file = os.open("/proc/self/mem", os.O_RDONLY)

    def read(self, address, size):
        try:
            data = os.pread(self.file, size, address) if 4096 <= address < 1 << 63 else b""
        except OSError:
            data = b""
        return data.ljust(size, b"\0")

    def words(self, address, count):
        return struct.unpack(f"{count}P", self.read(address, count * WORD))

    def integers(self, address, count):
        return struct.unpack(f"{count}i", self.read(address, count * 4))


def only(places, what):
    for place in places:
        return place
    raise LookupError(f"Python {sys.version.split()[0]} keeps {what} in a place that was not found")


def in_code(memory, codes, text, what):
    """The offset of a field that points to `text(code)` in every code object."""
    known = [memory.words(id(code), 40) for code in codes]
    return only((at * WORD for at in range(2, 40) if all(words[at] == id(text(code)) for words, code in zip(known, codes))), what)


def lines_in_code(memory, codes):
    known = [memory.integers(id(code), 80) for code in codes]
    return only((at * 4 for at in range(4, 80) if all(numbers[at] == code.co_firstlineno for numbers, code in zip(known, codes))), "lines of code")


def frames_from(memory, address, codes):
    """(the addresses of the frames of these codes, the offsets of the code and of the frame before) if the first frame is at the address."""
    words = memory.words(address, 16)
    for code in (at for at, word in enumerate(words) if word & ~7 == id(codes[0])):
        for back in range(16):
            chain = [address]
            for wanted in codes[1:]:
                chain.append(memory.words(chain[-1], 16)[back])
                if memory.words(chain[-1], 16)[code] & ~7 != id(wanted):
                    break
            else:
                return chain, code * WORD, back * WORD
    return None


def in_thread(memory, state, codes):
    """Where a thread's state names its innermost frame: (offset, offset in a structure between or -1), and frames_from there."""
    for at, word in enumerate(memory.words(state, 64)):
        for inner, pointer in ((-1, word), *enumerate(memory.words(word, 8))):
            frames = frames_from(memory, pointer, codes)
            if frames:
                return (at * WORD, inner * WORD if inner >= 0 else -1), frames
    return only((), "frames")


def instruction_in(memory, chain, frames):
    """(offset in a frame, bytes of code a unit, 0): the field is an index; or (offset, 0, where the code begins in its object): it is a pointer."""
    for at in range(16):
        begins = {memory.words(place, 16)[at] - frame.f_lasti - id(frame.f_code) for place, frame in zip(chain, frames)}
        if len(begins) == 1 and 0 < min(begins) < 1024:
            return at * WORD, 0, begins.pop()
    fits = ((at * 4, scale, 0) for scale in (1, 2) for at in range(32)
            if all(memory.integers(place, 32)[at] * scale == frame.f_lasti for place, frame in zip(chain, frames)))
    return only(fits, "instructions")


def pointer_in(places, objects):
    """The offset of a field that points to the object in each of the frames, or -1."""
    return next((at * WORD for at in range(len(places[0])) if all(words[at] == id(one) for words, one in zip(places, objects))), -1)


class Standing(threading.Thread):
    """A thread that stands still in three calls."""

    def __init__(self):
        super().__init__(name="tidemark", daemon=True)
        self.stands, self.go_on, self.state = threading.Event(), threading.Lock(), None

    def run(self):
        get = ctypes.pythonapi.PyThreadState_Get
        get.restype = ctypes.c_void_p
        self.state = get()
        self.middle()

    def middle(self):
        for _ in range(1):
            self.inner()

    def inner(self):
        self.stands.set()
        with self.go_on:
            pass


def layout():
    """The fields of PythonLayout. Raises LookupError."""
    memory, thread = Memory(), Standing()
    thread.go_on.acquire()
    thread.start()
    try:
        thread.stands.wait()
        frames = []
        while len(frames) < 3 or frames[0].f_code is not Standing.inner.__code__:  # or it is still in set()
            frame, frames = sys._current_frames()[thread.ident], []
            while frame:
                frames.append(frame)
                frame = frame.f_back
        frames = frames[:3]
        codes = [frame.f_code for frame in frames]
        (state, between), (chain, code, back) = in_thread(memory, thread.state, codes)
        instruction, scale, begin = instruction_in(memory, chain, frames)
        places = [memory.words(address, 24) for address in chain]
        frame_object = pointer_in(places, frames) if chain != list(map(id, frames)) else -1
        of_frames = [frame.f_locals for frame in frames]
        variables = pointer_in([memory.words(address, 24) for address in chain], of_frames)
        codes += [os.path.join.__code__, os.makedirs.__code__, layout.__code__]
        return [state, between, code, back, instruction, scale, begin, in_code(memory, codes, lambda code: code.co_filename, "names of files"),
                in_code(memory, codes, lambda code: code.co_name, "names of functions"), lines_in_code(memory, codes),
                in_code(memory, codes, lambda code: code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab, "tables of lines"),
                frame_object, variables]
    finally:
        thread.go_on.release()
        thread.join()
        os.close(memory.file)


def tell(layer):
    """Tells the recorder. Raises LookupError where what it reads with that is not this thread's stack."""
    fields = layout()
    if layer.tidemark_record_python((ctypes.c_int64 * len(fields))(*fields), ctypes.c_size_t(len(fields))) != 0:
        raise LookupError("this process has no Python that can be asked for its frames")
    layer.tidemark_record_stack.restype = ctypes.c_size_t
    text, wanted, frame = ctypes.create_string_buffer(1 << 20), [], sys._getframe()
    length = layer.tidemark_record_stack(text, ctypes.c_size_t(len(text)))
    while frame:
        wanted.append(f"{frame.f_code.co_name} {frame.f_code.co_filename}")
        frame = frame.f_back
    told = text.raw[:length].decode(errors="replace")
    form = "".join(re.escape(place) + r":\d+\n" for place in wanted)  # the name of a file may have line breaks
    if not re.fullmatch(form, told):
        raise LookupError(f"the stack of Python {sys.version.split()[0]} was not read as it is: {told.splitlines()[:3]}, not {wanted[:3]}")


def follow_threads(layer):
    """What has no line of the program's in a thread is at the line that started it, as the replicas of DataParallel are."""
    start, run = threading.Thread.start, threading.Thread._bootstrap_inner

    def starts(thread):
        if not sys._getframe(1).f_code.co_filename.endswith(POOLS):
            thread._tidemark_stack = layer.tidemark_record_here()
        return start(thread)

    def runs(thread):
        layer.tidemark_record_thread(getattr(thread, "_tidemark_stack", 0))
        return run(thread)

    threading.Thread.start, threading.Thread._bootstrap_inner = starts, runs
