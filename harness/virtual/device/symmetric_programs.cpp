#include "harness/virtual/device/symmetric_programs.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"

namespace tidemark::device {
namespace {

using Group = SymmetricProgram::Group;
using Part = SymmetricProgram::Part;

// --- Arguments ---------------------------------------------------------------------------------

template <class T>
T argument(void** arguments, std::size_t index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

/// An array of addresses in device memory, one for each rank. False: it has no values here.
bool addresses(std::uintptr_t array, std::size_t ranks, std::vector<std::uintptr_t>& to) {
  const void* const at = reinterpret_cast<const void*>(array);
  const std::size_t bytes = ranks * sizeof(std::uintptr_t);
  if (device_of(at) < 0 || !(data_moves() || (follows_known() && is_known(at, bytes))))
    return false;
  to.resize(ranks);
  std::memcpy(to.data(), at, bytes);
  return true;
}

std::vector<std::size_t> ranks_but(std::size_t size, std::size_t excluded) {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < size; ++i)
    if (i != excluded) ranks.push_back(i);
  return ranks;
}

/// Waits for all ranks, its own included, as sync_remote_blocks does. All blocks of a kernel do so
/// with words of their own; here the first one stands for them.
Part sync(const Group& group, std::function<void()> then = {}) {
  const std::vector<std::size_t> all = ranks_but(group.size(), group.size());
  return {all, all, std::move(then)};
}

// --- Reductions --------------------------------------------------------------------------------

float add(float a, float b) { return a + b; }
__nv_bfloat16 add(__nv_bfloat16 a, __nv_bfloat16 b) {  // as __hadd2 rounds
  return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}

/// The buffers of all ranks from the element at which the kernel begins.
struct Buffers {
  std::vector<std::uintptr_t> of;
  std::size_t element = 4;  // bytes
  bool bf16 = false;

  void* at(std::size_t rank, std::size_t index) const {
    return reinterpret_cast<void*>(of[rank] + index * element);
  }
};

void mark(void* to, std::size_t bytes, bool known) {
  if (follows_known()) mark_known(to, bytes, known);
}

/// `count` elements from `index` on, summed over the ranks in their order.
template <class T>
void sum_of(const Buffers& in, std::size_t index, std::size_t count, T* out) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = static_cast<const T*>(in.at(0, index))[i];
    for (std::size_t rank = 1; rank < in.of.size(); ++rank)
      sum = add(sum, static_cast<const T*>(in.at(rank, index))[i]);
    out[i] = sum;
  }
}

/// Into all of `to`, of which some may be where the sums come from.
void reduce(const Buffers& in, std::size_t index, std::size_t count, const std::vector<void*>& to) {
  const std::size_t bytes = count * in.element;
  bool known = true;
  for (std::size_t rank = 0; follows_known() && rank < in.of.size(); ++rank)
    known = known && is_known(in.at(rank, index), bytes);
  std::vector<std::byte> sums(known ? bytes : 0);
  if (known && in.bf16)
    sum_of(in, index, count, reinterpret_cast<__nv_bfloat16*>(sums.data()));
  else if (known)
    sum_of(in, index, count, reinterpret_cast<float*>(sums.data()));
  for (void* const one : to) {
    if (known) std::memcpy(one, sums.data(), bytes);
    mark(one, bytes, known);
  }
}

void copy_elements(void* to, const void* from, std::size_t bytes) {
  const bool known = !follows_known() || is_known(from, bytes);
  if (known) std::memmove(to, from, bytes);
  mark(to, bytes, known);
}

// --- Kernels -----------------------------------------------------------------------------------

using Read = std::optional<SymmetricProgram> (*)(const std::string& name, void** arguments);

/// The arguments (pads, [partner,] channel, rank, ranks, milliseconds).
struct SignalArguments {
  Group group;
  std::size_t partner = 0;

  static std::optional<SignalArguments> read(void** a, bool has_partner) {
    SignalArguments call;
    std::size_t next = 1;
    const auto number = [&] { return static_cast<std::size_t>(argument<int>(a, next++)); };
    if (has_partner) call.partner = number();
    call.group.channel = number();
    call.group.rank = number();
    const std::size_t ranks = number();
    call.group.timeout_ms = argument<std::uint64_t>(a, next);
    if (!addresses(argument<std::uintptr_t>(a, 0), ranks, call.group.pads)) return std::nullopt;
    return call;
  }
};

std::optional<SymmetricProgram> barrier(const std::string&, void** a) {
  const auto call = SignalArguments::read(a, false);
  if (!call) return std::nullopt;
  const std::vector<std::size_t> others = ranks_but(call->group.size(), call->group.rank);
  return SymmetricProgram{call->group, {{others, others, {}}}};
}
std::optional<SymmetricProgram> put_signal(const std::string&, void** a) {
  const auto call = SignalArguments::read(a, true);
  if (!call) return std::nullopt;
  return SymmetricProgram{call->group, {{{call->partner}, {}, {}}}};
}
std::optional<SymmetricProgram> wait_signal(const std::string&, void** a) {
  const auto call = SignalArguments::read(a, true);
  if (!call) return std::nullopt;
  return SymmetricProgram{call->group, {{{}, {call->partner}, {}}}};
}

/// Arguments of all reductions: the buffers, the element at which they begin, how many there are,
/// the pads, the rank and the ranks; `next` is the argument behind the buffers' and the outputs'.
struct Reduction {
  Group group;
  Buffers in;
  std::size_t count = 0;
  std::size_t alignment = 16;  // bytes

  static std::optional<Reduction> read(const std::string& name, void** a, std::size_t next) {
    Reduction r;
    const std::size_t ranks = argument<std::size_t>(a, next + 4);
    r.in.bf16 = name.find("kernel<float") == std::string::npos &&
                name.find("inplace<float") == std::string::npos;
    r.in.element = r.in.bf16 ? sizeof(__nv_bfloat16) : sizeof(float);
    r.alignment = static_cast<std::size_t>(std::stoul(name.substr(name.find(", ") + 2)));
    r.count = argument<std::size_t>(a, next + 1);
    r.group.rank = argument<std::size_t>(a, next + 3);
    if (!addresses(argument<std::uintptr_t>(a, 0), ranks, r.in.of) ||
        !addresses(argument<std::uintptr_t>(a, next + 2), ranks, r.group.pads))
      return std::nullopt;
    for (std::uintptr_t& one : r.in.of) one += argument<std::size_t>(a, next) * r.in.element;
    return r;
  }
  std::uint64_t bytes() const { return count * in.element; }
  /// Bytes that move between this rank and the others if each of them gives (or gets) its part.
  std::uint64_t bytes_of_parts() const { return bytes() * (group.size() - 1) / group.size(); }
  /// The part of each rank, in elements: the last one may be shorter.
  std::size_t share(std::size_t unit) const {
    return round_up(count, unit * group.size()) / group.size();
  }
  std::size_t left_from(std::size_t start, std::size_t most) const {
    return start < count ? std::min(most, count - start) : 0;
  }
};

std::optional<SymmetricProgram> one_shot(const std::string& name, void** a, bool copies) {
  const auto r = Reduction::read(name, a, copies ? 3 : 2);
  if (!r) return std::nullopt;
  void* const out = argument<void*>(a, 1);
  void* const local = copies ? argument<void*>(a, 2) : nullptr;
  Part first = sync(r->group, [r = *r, out] { reduce(r.in, 0, r.count, {out}); });
  std::vector<Part> parts;
  if (local)
    parts.push_back(
        {{}, {}, [r = *r, local] { copy_elements(r.in.at(r.group.rank, 0), local, r.bytes()); }});
  parts.push_back(std::move(first));
  parts.push_back(sync(r->group));
  return SymmetricProgram{r->group, std::move(parts), r->bytes() * (r->group.size() - 1)};
}
/// Each rank sums its part and writes it to all.
std::optional<SymmetricProgram> two_shot_in_place(const std::string& name, void** a) {
  const auto r = Reduction::read(name, a, 1);
  if (!r) return std::nullopt;
  Part first = sync(r->group, [r = *r] {
    const std::size_t share = r.share(r.alignment), start = share * r.group.rank;
    std::vector<void*> to;
    for (std::size_t rank = 0; rank < r.group.size(); ++rank) to.push_back(r.in.at(rank, start));
    reduce(r.in, start, r.left_from(start, share), to);
  });
  return SymmetricProgram{r->group, {std::move(first), sync(r->group)}, 2 * r->bytes_of_parts()};
}

/// Each rank sums its part, in its own buffer, from where all take it; or into the output, where
/// the parts are those of reduce_scatter.
std::optional<SymmetricProgram> two_shot_out(const std::string& name, void** a) {
  const auto r = Reduction::read(name, a, 2);
  if (!r) return std::nullopt;
  char* const out = argument<char*>(a, 1);
  const std::size_t last_dim = argument<std::size_t>(a, 7);
  const std::string_view flags = std::string_view(name).substr(0, name.find('>'));
  const bool scatters = flags.find("true") != std::string_view::npos;
  const bool splits = flags.find("true, true") != std::string_view::npos;
  const std::size_t share = r->share(r->alignment / r->in.element);
  const std::size_t row = splits ? last_dim / r->group.size() : share;  // elements in one piece
  const std::size_t start = row * r->group.rank;
  Part first = sync(r->group, [=, r = *r] {
    if (!scatters)
      return reduce(r.in, start, r.left_from(start, share), {r.in.at(r.group.rank, start)});
    for (std::size_t i = 0; i < share; i += row)
      reduce(r.in, start + (splits ? i / row * last_dim : i), row, {out + i * r.in.element});
  });
  if (scatters)
    return SymmetricProgram{r->group, {std::move(first), sync(r->group)}, r->bytes_of_parts()};
  Part second = sync(r->group, [=, r = *r] {
    for (std::size_t rank = 0; rank < r.group.size(); ++rank) {
      const std::size_t from = share * rank;
      copy_elements(out + from * r.in.element, r.in.at(rank, from),
                    r.left_from(from, share) * r.in.element);
    }
  });
  return SymmetricProgram{
      r->group, {std::move(first), std::move(second), sync(r->group)}, 2 * r->bytes_of_parts()};
}

/// By name and parameters, as C++ writes them without the template's arguments; `T` is float or
/// bfloat16.
constexpr std::pair<std::string_view, Read> kKernels[] = {
    {"c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
     barrier},
    {"c10d::symmetric_memory::put_signal_kernel(unsigned int**, int, int, int, int, unsigned long)",
     put_signal},
    {"c10d::symmetric_memory::wait_signal_kernel(unsigned int**, int, int, int, int, unsigned "
     "long)",
     wait_signal},
    {"one_shot_all_reduce_kernel(T**, T*, unsigned long, unsigned long, unsigned int**, unsigned "
     "long, unsigned long)",
     [](const std::string& name, void** a) { return one_shot(name, a, false); }},
    {"one_shot_all_reduce_kernel(T**, T*, T*, unsigned long, unsigned long, unsigned int**, "
     "unsigned long, unsigned long)",
     [](const std::string& name, void** a) { return one_shot(name, a, true); }},
    {"two_shot_all_reduce_kernel(T**, unsigned long, unsigned long, unsigned int**, unsigned "
     "long, unsigned long)",
     two_shot_in_place},
    {"two_shot_all_reduce_kernel_inplace(T**, unsigned long, unsigned long, unsigned int**, "
     "unsigned long, unsigned long)",
     two_shot_in_place},
    {"two_shot_all_reduce_kernel(T**, T*, unsigned long, unsigned long, unsigned int**, unsigned "
     "long, unsigned long, unsigned long)",
     two_shot_out},
};

void replace_all(std::string& text, std::string_view part, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size())
    text.replace(at, part.size(), by);
}

/// In the form of kKernels.
std::string signature(std::string name) {
  const std::size_t open = name.find('<'), parameters = name.find(">(");
  if (open != std::string::npos && parameters != std::string::npos)
    name.erase(open, parameters + 1 - open);
  replace_all(name, "void ", "");
  replace_all(name, "(anonymous namespace)::", "");
  replace_all(name, "c10::BFloat16", "T");
  replace_all(name, "float", "T");
  return name;
}

}  // namespace

std::optional<SymmetricProgram> symmetric_program(const std::string& name, void** arguments) {
  const auto* const kernel =
      std::ranges::find(kKernels, signature(name), [](const auto& one) { return one.first; });
  return kernel == std::end(kKernels) ? std::nullopt : kernel->second(name, arguments);
}

}  // namespace tidemark::device
