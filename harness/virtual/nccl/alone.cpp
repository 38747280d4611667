#include "harness/virtual/nccl/alone.h"

#include <atomic>
#include <cstring>

#include "harness/virtual/nccl/reduction.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/transport.h"

namespace tidemark::nccl {
namespace {

std::atomic<std::uint64_t> stood_in{0};

// `ranks` times the same part, by squaring: a sum of W is not W additions.
Payload combined(const Operation& op, const std::byte* part) {
  const auto with = [&](const Payload& a, const Payload& b, Reduction how, int ranks) {
    Payload out = Payload::allocate(op.bytes());
    std::vector<Input> inputs{{a.data.get(), op.words[0]}};
    if (b.size > 0) inputs.push_back({b.data.get(), op.words[0]});
    reduce(out.data.get(), inputs, op.call.count, op.call.type, how, ranks);
    return out;
  };
  Payload power = Payload::copy_of(part, op.bytes());
  Reduction how = op.call.reduction;
  if (how == Reduction::premul_sum) {
    power = with(power, {}, how, 1);
    how = Reduction::sum;
  }
  if (how != Reduction::sum && how != Reduction::prod) return power;  // avg, min, max
  Payload total;
  for (int left = op.comm->size; left > 0; left /= 2) {
    if (left % 2 == 1) total = total.size > 0 ? with(total, power, how, 2) : power;
    if (left > 1) power = with(power, power, how, 2);
  }
  return total;
}

}  // namespace

void stand_in(const Operation& op) {
  const Parts parts = parts_of(op);
  const std::size_t bytes = op.bytes();
  if (parts.received == 0 || bytes == 0) return;
  const auto all = static_cast<std::size_t>(op.comm->size);
  const auto* from = static_cast<const std::byte*>(op.send);
  auto* to = static_cast<std::byte*>(op.recv);
  const bool of_partner = op.call.function == Function::recv ||
                          (op.call.function == Function::scatter && parts.sent == 0);
  if (op.call.function == Function::broadcast && from == nullptr) from = to;
  // From a buffer with a part for every rank, each partner sends the part for this rank.
  if (from && parts.sent == all && all > 1) from += static_cast<std::size_t>(op.comm->rank) * bytes;
  const bool known = op.call.moves_data && !of_partner && bytes_known(from, bytes);
  if (known) {
    const Payload part =
        op.call.reduction != Reduction::none ? combined(op, from) : Payload::copy_of(from, bytes);
    for (std::size_t i = 0; i < parts.received; ++i) copy_to(to, i * bytes, part);
    ++stood_in;
  }
  mark_bytes(to, parts.received * bytes, known);
}

}  // namespace tidemark::nccl

/// Number of times that this process's own values have stood for those of absent partners.
extern "C" [[gnu::visibility("default")]] std::uint64_t tidemark_nccl_stood_in() {
  return tidemark::nccl::stood_in;
}
