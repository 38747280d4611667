// The policies of the variants, which differ in where gradients live and when the buckets are
// made, and what the files of the scenario share.
#pragma once

#include <memory>
#include <vector>

#include "harness/scenario.h"

namespace tidemark {
class World;
}

namespace tidemark::ddp_bucket_view {

enum class Gradients {
  separate,     // tensors of their own, copied into their bucket and back
  accumulated,  // views of the bucket from the start: zeroed in place, and autograd adds to them
  copied,       // copied into the bucket as they are computed, and replaced by the view
  unwatched,    // views from the start, which zeroing to None replaces: the bucket goes stale
};

struct Policy {
  Gradients gradients = Gradients::separate;
  /// One bucket at first; from the second step on buckets in the order of the first backward.
  bool rebuilds = false;
  /// The stream waits for all buckets at once, and no step releases the handles.
  bool keeps_handles = false;
};

const VariantTable<Policy>& variants();

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world);

/// Bytes of the model's gradients on paper, in the order in which backward computes them.
std::vector<Bytes> gradient_bytes(const Trial& trial);
/// Bytes of the buckets on paper: a bucket is full once it has bucket_bytes, the first one once it
/// has at most 1 MiB (torch/csrc/distributed/c10d/reducer.cpp).
std::vector<Bytes> bucket_bytes(const Trial& trial);

/// Peaks of a step after the first, in requested, allocated and active bytes. The control that
/// keeps its handles claims what `rebuilt_view` has.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);
std::vector<Symbol> symbols();
/// Peaks and ends of the last step in all four statistics, by the replay of the step's allocations.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);

Oracle oracle(const Trial& trial);

}  // namespace tidemark::ddp_bucket_view
