// Parts of a peak by kind of tensor and by module, from the labels that `tidemark exec --report`
// leaves in a snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/memory/analysis.h"

namespace tidemark {

/// The label of a block. One block may be several tensors: FSDP's flat parameter.
struct BlockLabel {
  MemoryKind kind = MemoryKind::other;
  std::set<std::string> names;
  /// True if its tensors have no more than a type and a shape.
  bool is_unnamed() const;
  /// The module of its tensors: "layers.0.up"; of several "layers.0.{down,up}". Empty for tensors
  /// of the outermost module.
  std::string module() const;
};
/// The labels of a device's allocations, by the allocation in its trace.
using LabelOf = std::unordered_map<const AllocatorEvent*, BlockLabel>;

/// A label belongs to the block that is alive at its address after its number of allocations, which
/// holds where the trace begins with the first allocation. Inputs are blocks that nothing else is
/// known of (part_of gives them no kind): they were filled from the host, or passed to an outermost
/// module. Of such blocks those that an optimizer's step allocates are its temporaries, whatever
/// code runs in it, those that updates of parameters read are add_of_updates', and those that
/// operators outside modules have computed from activations are activations too.
LabelOf labels_of(const Snapshot& snapshot, std::size_t device);

/// The kind of the block of an allocation in the snapshot's trace, as of part_of.
MemoryKind kind_of(const Snapshot& snapshot, const AllocatorEvent& event, const LabelOf& labels);

/// Blocks that nothing else is known of, that are computed from gradients outside modules, and that
/// an operator outside PyTorch's optimizers reads which writes a parameter, or which computes what
/// another such reads. Optimizer state is what updates of several steps read without being
/// overwritten in between. What those of one step read is a temporary where the program frees it,
/// and else stays what it is: that may be state.
void add_of_updates(const Snapshot& snapshot, std::size_t device, LabelOf& labels);

/// Blocks by what holds them.
class Holding {
 public:
  void add(const Holder& holder, std::int64_t bytes);
  void add_unknown() { ++blocks_; }
  /// The holder of most bytes, and of how many blocks where it does not hold all; unknown where
  /// none is known.
  Holder most() const;

 private:
  struct Sum {
    std::int64_t bytes = 0, blocks = 0;
  };
  std::map<Holder, Sum> sums_;
  std::int64_t blocks_ = 0;
};
/// The holders of blocks that a step had left behind, likewise
/// (harness/exec/python/tidemark_growth.py).
using HolderOf = std::unordered_map<const AllocatorEvent*, Holder>;
/// `counts`: whether a label of a block counts; empty: each does that is not of before a step.
HolderOf holders_of(
    const Snapshot& snapshot, std::size_t device,
    const std::function<bool(const AllocatorEvent* block, const HolderLabel&)>& counts = {});

/// What a record says of the use of a block.
struct Use {
  std::int64_t last_read = -1;  // allocations of the device until a read that it notes; -1: none
  bool collected = false;       // Python's collector frees it
  bool in_graph = false;        // a graph of autograd had saved it
};
/// Of a device's allocations, of those that have a use; none where the record does not follow uses.
using UseOf = std::unordered_map<const AllocatorEvent*, Use>;
std::optional<UseOf> uses_of(const Snapshot& snapshot, std::size_t device);

/// A block's kind: its label's; else by what allocated it: optimizer temporaries, sharding buffers
/// (FSDP, DDP, DeepSpeed), activations (in a module's forward), backward (on the autograd engine's
/// threads: no Python frames, or one that names autograd's node), other.
/// `event` is the allocation, in the snapshot's trace. The module is "layers.*.up", or with
/// `numbers` "layers.3.up".
Part part_of(const Snapshot& snapshot, const AllocatorEvent& event, const LabelOf& labels,
             bool numbers = false);

/// "layers.*.mlp.0" of "layers.11.mlp.0": what repeats is one. A number at the end tells parts of
/// one layer apart, unless it is the only one.
std::string without_numbers(const std::string& path);

/// The parts of one kind, and their sum.
struct TensorKind {
  MemoryKind kind = MemoryKind::other;
  std::int64_t bytes = 0;
  std::span<const Part> parts;  // of the list that kinds_of was given
};
/// By kind, in the order of the list, as sum_up makes it.
std::vector<TensorKind> kinds_of(const std::vector<Part>& parts);

/// Equal parts together, kinds by their bytes, and within a kind the largest first.
std::vector<Part> sum_up(const std::vector<Part>& parts);

}  // namespace tidemark
