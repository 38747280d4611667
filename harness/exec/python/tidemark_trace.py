"""A process's trace for Perfetto: what occupies each stream of the virtual device in the last training step, the host's waits, and the step's
phases; on the device's clock."""
import ctypes
import gzip
import io
import json
import os
import threading

import tidemark_files

MOST = 200_000  # operations that are kept of a very long step: about 40 MB
KINDS = ("op", "collective", "copy", "wait")
HOST = 2**32 - 1  # TIDEMARK_HOST_LANE


class Span(ctypes.Structure):
    """tidemark_span of harness/virtual/device/control.h"""

    _fields_ = [("op", ctypes.c_char_p), ("name", ctypes.c_char_p), ("stream", ctypes.c_uint32), ("kind", ctypes.c_int32),
                ("enqueued", ctypes.c_int64), ("begin", ctypes.c_int64), ("end", ctypes.c_int64), ("place", ctypes.c_uint64)]


class Trace:
    def __init__(self, libraries, layer):
        self.libraries, self.lock, self.now = libraries, threading.Lock(), layer.tidemark_record_builtin(b"device_now")
        libraries.tidemark_device_spans.restype = libraries.tidemark_device_lane_name.restype = ctypes.c_size_t
        libraries.tidemark_device_trace_left_out.restype = ctypes.c_uint64
        self.step, self.open = 1, {}
        self.ranges = []  # name, begin, end
        libraries.tidemark_device_trace_at_most(ctypes.c_size_t(MOST))
        libraries.tidemark_device_trace(1)

    def begun(self, name, step):
        with self.lock:
            if step != self.step:  # the step before is forgotten
                self.step, self.ranges = step, []
                self.libraries.tidemark_device_trace(1)
            self.open.setdefault(name, []).append(self.now())

    def ended(self, name):
        with self.lock:
            if self.open.get(name):
                self.ranges.append((name, self.open[name].pop(), self.now()))

    def count(self):
        return self.libraries.tidemark_device_spans(None, ctypes.c_size_t(0))

    def left_out(self):
        return self.libraries.tidemark_device_trace_left_out()

    def length(self):
        """Nanoseconds from the first to the last work of the device in this step; 0: not known."""
        with self.lock:
            spans = (Span * self.count())()
            self.libraries.tidemark_device_spans(spans, ctypes.c_size_t(len(spans)))
            work = [(span.begin, span.end) for span in spans if span.stream != HOST]
            return max(end for _, end in work) - min(begin for begin, _ in work) if work and not self.left_out() else 0

    def lane(self, stream):
        if stream == HOST:
            return "host waits"
        name = ctypes.create_string_buffer(100)
        self.libraries.tidemark_device_lane_name(ctypes.c_uint32(stream), name, ctypes.c_size_t(len(name)))
        return name.value.decode()

    def write(self, place, process):
        """The file `place`.trace.json.gz, whole or not at all."""
        with self.lock:
            spans = (Span * self.count())()
            self.libraries.tidemark_device_spans(spans, ctypes.c_size_t(len(spans)))
            begin = min([span.enqueued for span in spans] + [begin for _, begin, _ in self.ranges], default=0)
            lanes = {stream: number for number, stream in enumerate(sorted({span.stream for span in spans}), 1)}
            events = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": f"{process}, the last step, the virtual device's clock"}},
                      {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "phases"}}]
            for stream, number in lanes.items():
                events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": self.lane(stream)}})
            for name, start, end in self.ranges:
                events.append({"name": name, "cat": "phase", "ph": "X", "pid": 0, "tid": 0, "ts": (start - begin) / 1000, "dur": (end - start) / 1000})
            for span in spans:
                events.append({"name": (span.op or span.name).decode(errors="replace"), "cat": KINDS[span.kind], "ph": "X", "pid": 0,
                               "tid": lanes[span.stream], "ts": (span.begin - begin) / 1000, "dur": (span.end - span.begin) / 1000,
                               "args": {"ahead_ns": span.begin - span.enqueued}})
            document = {"displayTimeUnit": "ns", "otherData": {"clock": "virtual", "left_out": self.left_out()}, "traceEvents": events}
        with tidemark_files.create(place + ".new", binary=True) as whole, gzip.GzipFile(fileobj=whole, mode="wb", compresslevel=4) as packed, io.TextIOWrapper(packed, encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
        os.replace(place + ".new", place + ".trace.json.gz")
