#!/usr/bin/env python3
"""Holds the rule `linux` (harness/virtual/device/placement.h) against the addresses of the recordings linux_hopper_* and of
from_zero_attention, which begins with no memory:

    python3 reports/measured/addresses.py

Every recorded segment begins either in a chunk that is there or in a new one; the rule says which, and where in the chunk. Where a new
chunk lies cannot be told, since the mappings of the host between the chunks are not recorded, so it is taken from the recording. What was
taken before the recording is not known either: a gap in a chunk from before it that the rule would take, and that no segment ever lies in,
counts as taken by something else, and is printed. Exit code 1 where a segment is unexplained beyond the number given (--allowed)."""
import argparse
import gzip
import itertools
import json
import pathlib
import sys

MIB, CHUNK = 1 << 20, 32
HERE = pathlib.Path(__file__).parent


def rounded(size):
    return -(-size // CHUNK) * CHUNK


def load(path):
    with gzip.open(path) as packed:
        data = json.load(packed)
    names = [name for name in data["actions"]]
    events = [(names[a], size // MIB, address // MIB) for a, size, address in
              zip(data["events"]["action"], data["events"]["size"], data["events"]["address"]) if names[a].startswith("segment")]
    segments = {s["address"] // MIB: s["size"] // MIB for s in data["segments_at_end"]}
    for action, size, address in reversed(events):
        if action == "segment_alloc":
            del segments[address]
        else:
            segments[address] = size
    return segments, events


class Chunks:
    """Address ranges [begin, end) with what is taken of them, oldest first."""

    def __init__(self, segments, ever, sizes):
        self.chunks, self.taken_by_others, self.ever = [], 0, ever
        for address, size in sorted(segments.items()):
            home = self.home(address)
            before = (address - home["begin"],) if home else self.freed_before(address, size, sizes)
            begin = address - sum(before)
            end = begin + max(rounded(sum(before) + size), rounded(before[0]) if before else 0)
            taken = {address: size}
            while self.chunks and self.chunks[-1]["end"] > begin:  # what seemed chunks of their own lies in the same one
                other = self.chunks.pop()
                begin, end = min(begin, other["begin"]), max(end, other["end"])
                taken |= other["taken"]
            self.chunks.append({"begin": begin, "end": end, "taken": taken, "old": True})
        self.chunks.reverse()  # downwards: the lowest is the newest

    @staticmethod
    def freed_before(address, size, sizes):
        """Memory that was between the beginning of its chunk and this segment, and is freed by now: the fewest and largest segments of recorded
        sizes that fit, with room in the chunk that the first of them makes."""
        for count in range(4):
            for before in itertools.product(sizes, repeat=count):
                if (address - sum(before)) % CHUNK == 0 and (not before or sum(before) + size <= rounded(before[0])):
                    return before
        raise SystemExit(f"nothing fits before the segment at {address} MiB")

    def add(self, begin, size):
        self.chunks.append({"begin": begin, "end": begin + size, "taken": {}, "old": False})
        return self.chunks[-1]

    def home(self, address):
        return next((c for c in self.chunks if c["begin"] <= address < c["end"]), None)

    def gaps(self, chunk):
        at = chunk["begin"]
        for begin, size in sorted(chunk["taken"].items()):
            if begin > at:
                yield at, begin - at
            at = max(at, begin + size)
        if at < chunk["end"]:
            yield at, chunk["end"] - at

    def choose(self, size):
        for chunk in reversed(self.chunks):
            fitting = sorted((length, at) for at, length in self.gaps(chunk) if length >= size)
            for length, at in fitting:
                if chunk["old"] and not any(at <= address < at + length for address in self.ever):
                    chunk["taken"][at] = length
                    self.taken_by_others += 1
                    continue
                return at
        return None

    def take(self, address, size):
        chunk = self.home(address) or self.add(address // CHUNK * CHUNK, rounded(size))
        chunk["taken"][address] = size

    def give(self, address):
        chunk = self.home(address)
        del chunk["taken"][address]
        if not chunk["taken"]:
            self.chunks.remove(chunk)


def explained(path):
    segments, events = load(path)
    sizes = sorted({*segments.values(), *(size for _, size, _ in events)}, reverse=True)
    chunks = Chunks(segments, {address for action, _, address in events if action == "segment_alloc"}, sizes)
    right = wrong = 0
    for action, size, address in events:
        if action == "segment_free":
            chunks.give(address)
            continue
        said = chunks.choose(size)
        here = address if chunks.home(address) else None
        right += said == here and (here is not None or address % CHUNK == 0)
        wrong += not (said == here and (here is not None or address % CHUNK == 0))
        chunks.take(address, size)
    return right, wrong, chunks.taken_by_others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allowed", type=int, default=0)
    allowed = parser.parse_args().allowed
    total = [0, 0, 0]
    for path in sorted([*HERE.glob("linux_hopper_*.json.gz"), *HERE.glob("from_zero_*.json.gz")]):
        counts = explained(path)
        print(f"{path.name}: {counts[0]} of {counts[0] + counts[1]} segments where the rule says, {counts[2]} gaps taken by something else")
        total = [a + b for a, b in zip(total, counts)]
    print(f"all: {total[0]} of {total[0] + total[1]} segments, {total[2]} gaps taken by something else")
    return 1 if total[1] > allowed or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
