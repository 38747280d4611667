// Fields of the record of `tidemark fit`; fields.h says how they are named.
#pragma once

#include "harness/record/fields.h"
#include "harness/record/fit.h"

namespace tidemark {

void visit(FitGpu& x, auto& f) {
  f.title("fit_gpu", "a GPU: total less context, and less nccl, is left for PyTorch's allocator");
  f("name", x.name, meaning::name);
  f("total_bytes", x.total, meaning::bytes);
  f("context_bytes", x.context, meaning::bytes);
  f("nccl_bytes", x.nccl, meaning::bytes);
  f("total_source", x.total_source);
  f("context_source", x.context_source);
  f("nccl_source", x.nccl_source);
  f.optional("price", x.price);
}

void visit(FitVariable& x, auto& f) {
  f.title("fit_variable");
  f("name", x.name, meaning::name);
  f("searched", x.searched);
  f("values", x.values);
}

void visit(FitRun& x, auto& f) {
  f.title("fit_run", "one run of the program; bytes are those of its worst GPU");
  f("values", x.values);
  f("gpu", x.gpu, meaning::name);
  f("capacity_bytes", x.capacity, meaning::bytes);
  f("room", x.room);
  f("exit_code", x.exit_code);
  f("steady", x.steady);
  f("nccl", x.nccl);
  f("stepped", x.stepped);
  f.optional("last", x.last);
  f.optional("unknown", x.unknown);
  f.optional("changed", x.changed);
  f("worst", x.worst);
  f("allocated", x.allocated, meaning::bytes);
  f("active", x.active, meaning::bytes);
  f("reserved", x.reserved, meaning::bytes);
  f.optional("outside", x.outside, meaning::bytes,
             "of the GPU, outside PyTorch's allocator: reserved has it too");
  f.optional("limit", x.limit, meaning::bytes,
             "that a process may have: its memory fraction of the GPU");
  f.optional("shared", x.shared);
  f("retries", x.retries, meaning::count);
  f("ooms", x.ooms, meaning::count);
  f("step_ns", x.step_ns, meaning::ns, "of the virtual clock; 0: not measured");
  f.optional("tokens", x.tokens, meaning::count,
             "that an nn.Embedding got in a step of one process");
  f.optional("logits", x.logits, meaning::count, "elements of the largest input of cross_entropy");
  f.optional("states", x.states, meaning::count, "elements of optimizer states of 32 bits");
  f.optional("shards", x.shards, meaning::count, "ranks over which FSDP shards");
  f("collectives", x.collectives, meaning::count, "calls of NCCL in a step of one process");
  f("seconds", x.seconds);
  f("cached", x.cached);
  f.optional("alive", x.alive);
}

void visit(FitAnswer& x, auto& f) {
  f.title("fit_answer", "a combination of the listed values on a GPU");
  f("values", x.values);
  f("gpu", x.gpu, meaning::name);
  f("room_gpu", x.room, meaning::name,
    "profile of the runs with room to spare that count for this GPU");
  f("capacity_bytes", x.capacity, meaning::bytes);
  f.optional("limit", x.limit, meaning::bytes, "that the program allows itself: memory fraction");
  f("verdict", x.verdict, meaning::name);
  f.optional("largest", x.largest);
  f.optional("next", x.next);
  f.optional("missing_bytes", x.missing, meaning::bytes);
  f.optional("because", x.because);
  f.optional("why", x.why);
  f.optional("run", x.run);
}

void visit(AdviceRow& x, auto& f) {
  f.title("advice_row", "a change of the program; saved bytes are those of the worst GPU");
  f("change", x.change, meaning::name);
  f("how", x.how, meaning::name, "exact: the program ran so; computed: from the record");
  f("outcome", x.outcome, meaning::name);
  f.optional("values", x.values);
  f.optional("fits", x.fits);
  f.optional("why", x.why);
  f("reserved_saved_bytes", x.reserved_saved, meaning::bytes);
  f("allocated_saved_bytes", x.allocated_saved, meaning::bytes);
  f.optional("run", x.run);
}

void visit(Advice& x, auto& f) {
  f.title("advice", "what would help a program to fit a GPU");
  f("values", x.values);
  f("gpu", x.gpu, meaning::name);
  f("capacity_bytes", x.capacity, meaning::bytes);
  f("run", x.run);
  f.optional("fits", x.fits);
  f("rows", x.rows);
}

void visit(FitRecord& x, auto& f) {
  f.title("fit");
  f("program", x.program);
  f("run", x.run);
  f("gpus", x.gpus);
  f("variables", x.variables);
  f("answers", x.answers);
  f("runs", x.runs);
  f("notes", x.notes);
  f.optional("advice", x.advice);
}

}  // namespace tidemark
