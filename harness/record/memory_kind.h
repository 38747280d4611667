// Kinds of memory: what a block is for. The one list of them, for the scenarios (CategoryScope in
// harness/measure/recorder.h), for the labels and parts of programs, for what must be gone when a
// step has ended, and for the pages (reports/page/kinds.py makes its list of this file).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace tidemark {

/// From the bottom of a stack to its top: what stays long lies below.
enum class MemoryKind {
  parameters,
  buffers,             // of modules: running means
  gradients,           // of parameters
  optimizer_state,     // moments
  workspaces,          // of cuBLAS
  persistent_buffers,  // of communication, kept between steps: DDP's buckets
  inputs,              // batches and targets: made outside modules, and there when a forward begins
  outputs,             // of the model
  activations,         // made in the forward
  gathered_activations,        // of tensor parallelism, from all ranks
  receive_buffers,             // of a pipeline
  sharding_buffers,            // flat buffers of FSDP and ZeRO: copied from or to parameters
  gathered_parameters,         // unsharded: whole ones that are made of their shards
  gathered_frozen_parameters,  // likewise, which have no gradient
  autocast_copies,             // of weights, which autocast keeps until its context ends
  backward,                    // made in the backward, and no gradient of a parameter
  optimizer_temporaries,       // within an optimizer's step
  other,
  before,   // allocated before the record began
  waiting,  // freed by the program, and held until another stream is done with it
};

/// The words of reports and pages, in their order.
constexpr auto words(MemoryKind) {
  return std::array{"parameters",
                    "buffers",
                    "gradients",
                    "optimizer state",
                    "cuBLAS workspaces",
                    "persistent buffers",
                    "inputs",
                    "outputs",
                    "activations",
                    "gathered activations",
                    "receive buffers",
                    "sharding buffers",
                    "gathered parameters",
                    "gathered frozen parameters",
                    "autocast copies",
                    "backward",
                    "optimizer temporaries",
                    "other",
                    "from before",
                    "freed, held for another stream"};
}
inline constexpr std::size_t kMemoryKinds = words(MemoryKind()).size();
static_assert(static_cast<std::size_t>(MemoryKind::waiting) + 1 == kMemoryKinds,
              "each kind has a word");

/// Kinds of which a scenario's step leaves nothing behind. Of the others some variants keep blocks
/// by design: receive buffers that are allocated once, frozen parameters that stay gathered.
inline constexpr std::array kGoneAfterStep{
    MemoryKind::activations, MemoryKind::gathered_activations, MemoryKind::sharding_buffers,
    MemoryKind::gathered_parameters, MemoryKind::optimizer_temporaries};

/// The kind of a word, also of one that reports up to 3.0 have for a scenario's.
constexpr std::optional<MemoryKind> memory_kind(std::string_view word) {
  constexpr auto all = words(MemoryKind());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (word == all[i]) return static_cast<MemoryKind>(i);
  constexpr std::pair<std::string_view, MemoryKind> kFormer[] = {
      {"unsharded", MemoryKind::gathered_parameters},
      {"frozen", MemoryKind::gathered_frozen_parameters},
      {"gathered", MemoryKind::gathered_activations},
      {"communication", MemoryKind::sharding_buffers},
      {"temporaries", MemoryKind::optimizer_temporaries},
      {"workspaces", MemoryKind::workspaces},
      {"before", MemoryKind::before},
      {"rounding", MemoryKind::other},
  };
  for (const auto& [former, kind] : kFormer)
    if (word == former) return kind;
  return {};
}

}  // namespace tidemark
