// Fields of the record of a program under `tidemark exec`; fields.h says how they are named.
// harness/exec/python/tidemark_record.py writes those of a process.
#pragma once

#include "harness/record/meaning.h"
#include "harness/record/program.h"
#include "harness/record/rank_fields.h"

namespace tidemark {

void visit(DeviceRecord& x, auto& f) {
  f.title("program_device", "peaks of PyTorch's caching allocator, over the whole process");
  f("device", x.device, meaning::count);
  f("allocated", x.allocated, meaning::bytes);
  f("active", x.active, meaning::bytes);
  f("reserved", x.reserved, meaning::bytes);
  f("requested", x.requested, meaning::bytes);
  f("retries", x.retries, meaning::count);
  f("ooms", x.ooms, meaning::count);
  f.optional("outside", x.outside, meaning::bytes,
             "highest that the process had of the device outside PyTorch's allocator, by the "
             "driver's books");
  f.optional("taken", x.taken, meaning::bytes, "highest of reserved and outside together");
  f.optional("refused", x.refused, meaning::bytes,
             "the last request outside the allocator for which the device had no room");
  f.optional("refused_left", x.refused_left, meaning::bytes, "what the device had left then");
  f.optional("limit", x.limit, meaning::bytes,
             "that the process may have: its memory fraction of the device");
}

void visit(CollectiveCalls& x, auto& f) {
  f.title("collective_calls",
          "NCCL calls of one function on one communicator; the bytes of a call are those of the "
          "larger of its two buffers");
  f("communicator", x.communicator);
  f("ranks", x.ranks, meaning::count);
  f("function", x.function, meaning::name);
  f("calls", x.calls, meaning::count);
  f("bytes", x.bytes, meaning::bytes);
}

void visit(UnknownValue& x, auto& f) {
  f.title("unknown_value",
          "a place where the program asked for a value that is not known, and what it was told; "
          "decides: it branched by the answer; line: empty in the backward");
  f("operation", x.operation, meaning::name);
  f("answer", x.answer);
  f("line", x.line);
  f("decides", x.decides);
  f("count", x.count, meaning::count);
}

void visit(ProcessRecord& x, auto& f) {
  f.title("process",
          "ended: by itself; else its peaks are those up to its last allocation, and last says "
          "where that was; the rest is then of at most half a second before; "
          "stood_in: collectives that took the rank's own values for those of absent partners");
  f("rank", x.rank);
  f("pid", x.pid);
  f("ended", x.ended);
  f.optional("last", x.last);
  f("devices", x.devices);
  f("races", x.races);
  f("collectives", x.collectives);
  f("events", x.unknown);
  f("stood_in", x.stood_in, meaning::count);
  f.optional("host", x.host, meaning::none, "in the file of a process alone, as the next three");
  f.optional("gpus", x.gpus, meaning::none, "names of the GPUs that it sees");
  f.optional("begin_ns", x.begin_ns, meaning::ns);
  f.optional("end_ns", x.end_ns, meaning::ns);
}

void visit(SharedGpu& x, auto& f) {
  f.title("shared_gpu", "a GPU that several processes used at the same time");
  f("gpu", x.gpu, meaning::none, "as CUDA_VISIBLE_DEVICES has it");
  f("places", x.places);
  f("bytes", x.bytes, meaning::bytes,
    "at most: the sum of their peaks, and a context for each but the first");
}

void visit(AlivePart& x, auto& f) {
  f.title("alive_part", "blocks of one kind of tensor, allocated in one module and at one line");
  f("kind", x.kind, meaning::memory_kind);
  f("module", x.module);
  f("line", x.site);
  f("count", x.count, meaning::count);
  f("bytes", x.bytes, meaning::bytes, "as requested");
  f.optional("source", x.source, meaning::none, "the text of the line, where its file was there");
}

void visit(AliveAtPeak& x, auto& f) {
  f.title("alive_at_peak", "of the process with the highest peak; the parts sum to active");
  f("where", x.where);
  f("active", x.active, meaning::bytes, "as requested");
  f("reserved", x.reserved, meaning::bytes);
  f("parts", x.parts);
  f.check(
      [&] {
        Bytes sum = 0;
        for (const AlivePart& part : x.parts) sum += part.bytes;
        return sum == x.active;
      },
      "its parts do not sum to what is active");
}

void visit(MemoryNeed& x, auto& f) {
  f.title("need",
          "the highest peaks of a program that ran out of memory, in a second run with room to "
          "spare; until: how that run ended before its steps repeated");
  f("allocated", x.allocated, meaning::bytes);
  f("reserved", x.reserved, meaning::bytes);
  f.optional("until", x.until);
}

void visit(Finding& x, auto& f) {
  f.title("finding", "the outcome of a program in one sentence that begins with its script");
  f("kind", x.kind);
  f("text", x.text);
}

void visit(ProgramRecord& x, auto& f) {
  f.title("program", "a program under tidemark exec, under one schedule of the virtual device");
  f("program", x.words, meaning::none, "the words by which it was started");
  f("exit_code", x.exit_code, meaning::none, "the program's own");
  f("ranks", x.processes, meaning::none, "its processes, by rank");
  f.optional("needs", x.needs);
  f.optional("shared", x.shared);
  f.optional("finding", x.finding);
  f.optional("findings", x.findings, meaning::none,
             "what the finding rests on, in sentences: out of memory, grows, fits");
}

}  // namespace tidemark
