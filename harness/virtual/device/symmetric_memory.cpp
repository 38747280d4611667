#include "harness/virtual/device/symmetric_memory.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/signals.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
// Ranks compute on a CPU here, and a partner that is slow is not one that does not come.
constexpr std::chrono::seconds kSlowPartner{15};

/// The ranks of a kernel and their pads of signals, by rank.
struct Group {
  std::vector<std::uintptr_t> pads;
  std::size_t rank = 0, channel = 0;
  std::uint64_t timeout_ms = 0;  // 0: none

  std::size_t size() const { return pads.size(); }
  /// The word by which `from` signals `to`.
  std::uintptr_t word(std::size_t from, std::size_t to) const {
    return pads[to] + 4 * (size() * channel + from);
  }
};

/// One change of a word that the kernel waits for.
struct Wait {
  Signal signal;
  bool takes;  // else puts
  std::size_t partner;
  bool over = false;
};

/// What a kernel does between two waits.
using Computation = std::function<void()>;
struct Part {
  std::vector<std::size_t> put_to, take_from;  // ranks
  Computation then;
};

/// A kernel under way, asked again and again (deferred.h).
class Running {
 public:
  Running(StreamHandle stream, std::string name, Group group, std::vector<Part> parts,
          std::uint64_t bytes)
      : stream_(stream),
        name_(std::move(name)),
        group_(std::move(group)),
        parts_(std::move(parts)),
        bytes_(bytes) {}

  bool advance() {
    if (sticky_error() != cudaSuccess) return true;
    if (start_ < 0) {
      time_ = start_ = begin_collective(stream_);
      begin_part();
    }
    for (; part_ < parts_.size(); begin_part()) {
      if (!all_over()) return gives_up();
      if (time_ > latest()) return trap(cudaErrorLaunchFailure);
      if (parts_[part_].then) parts_[part_].then();
      ++part_;
    }
    const double ns_per_byte = 1 / links().nvlink_gbps;
    end_collective(stream_, name_, start_,
                   time_ + static_cast<Ns>(static_cast<double>(bytes_) * ns_per_byte));
    return true;
  }

 private:
  Ns latest() const {
    return group_.timeout_ms == 0 ? std::numeric_limits<Ns>::max()
                                  : part_start_ + static_cast<Ns>(group_.timeout_ms) * 1'000'000;
  }

  void begin_part() {
    waits_.clear();
    part_start_ = time_;
    since_ = Clock::now();
    if (part_ == parts_.size()) return;
    for (const std::size_t to : parts_[part_].put_to)
      waits_.push_back({Signal(group_.word(group_.rank, to)), false, to});
    for (const std::size_t from : parts_[part_].take_from)
      waits_.push_back({Signal(group_.word(from, group_.rank)), true, from});
  }

  // A signal carries the time at which its rank came here, not that of a partner who came before.
  bool all_over() {
    for (Wait& wait : waits_) {
      if (wait.over) continue;
      Ns time = part_start_;
      wait.over = wait.takes ? wait.signal.take(time) : wait.signal.put(time);
      if (wait.over) time_ = std::max(time_, time);
    }
    return std::ranges::all_of(waits_, &Wait::over);
  }

  bool gives_up() {
    const std::chrono::duration<double> waited = Clock::now() - since_;
    const bool own = group_.timeout_ms > 0;
    const std::chrono::duration<double> enough =
        own ? std::max<std::chrono::duration<double>>(std::chrono::milliseconds(group_.timeout_ms),
                                                      kSlowPartner)
            : 1.5 * patience();  // whoever ends a hanging program by TIDEMARK_TIMEOUT says more
    return waited > enough && trap(own ? cudaErrorLaunchFailure : cudaErrorLaunchTimeout);
  }

  bool trap(cudaError_t error) {
    const auto late = std::ranges::find(waits_, false, &Wait::over);
    const std::size_t partner = late == waits_.end() ? waits_.back().partner : late->partner;
    const bool takes = late == waits_.end() || late->takes;
    say_once(name_ + " (symmetric memory): rank " + std::to_string(group_.rank) +
             (takes ? " received no signal of rank " : " waited for an earlier signal to rank ") +
             std::to_string(partner) + (takes ? "" : " to be taken") + " on channel " +
             std::to_string(group_.channel) +
             (error == cudaErrorLaunchFailure
                  ? " within " + std::to_string(group_.timeout_ms) + " ms"
                  : " within one and a half times TIDEMARK_TIMEOUT"));
    break_context(error);
    return true;
  }

  StreamHandle stream_;
  std::string name_;
  Group group_;
  std::vector<Part> parts_;
  std::uint64_t bytes_;  // read from other ranks
  std::size_t part_ = 0;
  std::vector<Wait> waits_;  // of this part
  Ns start_ = -1, time_ = 0, part_start_ = 0;
  Clock::time_point since_;
};

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
Part sync(const Group& group, Computation then = {}) {
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

struct Program {
  Group group;
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
};
using Read = std::optional<Program> (*)(const std::string& name, void** arguments);

/// The arguments (pads, [partner,] channel, rank, ranks, milliseconds).
struct SignalArguments {
  Group group;
  std::size_t partner = 0;

  static std::optional<SignalArguments> read(void** a, bool has_partner) {
    SignalArguments said;
    std::size_t next = 1;
    const auto number = [&] { return static_cast<std::size_t>(argument<int>(a, next++)); };
    if (has_partner) said.partner = number();
    said.group.channel = number();
    said.group.rank = number();
    const std::size_t ranks = number();
    said.group.timeout_ms = argument<std::uint64_t>(a, next);
    if (!addresses(argument<std::uintptr_t>(a, 0), ranks, said.group.pads)) return std::nullopt;
    return said;
  }
};

std::optional<Program> barrier(const std::string&, void** a) {
  const auto said = SignalArguments::read(a, false);
  if (!said) return std::nullopt;
  const std::vector<std::size_t> others = ranks_but(said->group.size(), said->group.rank);
  return Program{said->group, {{others, others, {}}}};
}
std::optional<Program> put_signal(const std::string&, void** a) {
  const auto said = SignalArguments::read(a, true);
  if (!said) return std::nullopt;
  return Program{said->group, {{{said->partner}, {}, {}}}};
}
std::optional<Program> wait_signal(const std::string&, void** a) {
  const auto said = SignalArguments::read(a, true);
  if (!said) return std::nullopt;
  return Program{said->group, {{{}, {said->partner}, {}}}};
}

/// What all reductions have: the buffers, the element at which they begin, how many there are, the
/// pads, the rank and the ranks; `next` is the argument behind the buffers' and the outputs'.
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
  /// What moves between this rank and the others if each of them gives (or gets) its part.
  std::uint64_t bytes_of_parts() const { return bytes() * (group.size() - 1) / group.size(); }
  /// The part of each rank, in elements: the last one may be shorter.
  std::size_t share(std::size_t unit) const {
    return round_up(count, unit * group.size()) / group.size();
  }
  std::size_t left_from(std::size_t start, std::size_t most) const {
    return start < count ? std::min(most, count - start) : 0;
  }
};

std::optional<Program> one_shot(const std::string& name, void** a, bool copies) {
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
  return Program{r->group, std::move(parts), r->bytes() * (r->group.size() - 1)};
}
std::optional<Program> one_shot_in_place(const std::string& name, void** a) {
  return one_shot(name, a, false);
}
std::optional<Program> one_shot_copy(const std::string& name, void** a) {
  return one_shot(name, a, true);
}

/// Each rank sums its part and writes it to all.
std::optional<Program> two_shot_in_place(const std::string& name, void** a) {
  const auto r = Reduction::read(name, a, 1);
  if (!r) return std::nullopt;
  Part first = sync(r->group, [r = *r] {
    const std::size_t share = r.share(r.alignment), start = share * r.group.rank;
    std::vector<void*> to;
    for (std::size_t rank = 0; rank < r.group.size(); ++rank) to.push_back(r.in.at(rank, start));
    reduce(r.in, start, r.left_from(start, share), to);
  });
  return Program{r->group, {std::move(first), sync(r->group)}, 2 * r->bytes_of_parts()};
}

/// Each rank sums its part, in its own buffer, from where all take it; or into the output, where
/// the parts are those of reduce_scatter.
std::optional<Program> two_shot_out(const std::string& name, void** a) {
  const auto r = Reduction::read(name, a, 2);
  if (!r) return std::nullopt;
  char* const out = argument<char*>(a, 1);
  const std::size_t last_dim = argument<std::size_t>(a, 7);
  const std::string_view flags = std::string_view(name).substr(0, name.find('>'));
  const bool scatters = flags.find("true") != std::string_view::npos;
  const bool splits = flags.find("true, true") != std::string_view::npos;
  const std::size_t share = r->share(r->alignment / r->in.element);
  const std::size_t row = splits ? last_dim / r->group.size() : share;  // elements in one piece
  const std::size_t start = (splits ? row : share) * r->group.rank;
  Part first = sync(r->group, [=, r = *r] {
    for (std::size_t i = 0; scatters && i < share; i += row)
      reduce(r.in, start + (splits ? i / row * last_dim : i), row, {out + i * r.in.element});
    if (!scatters) reduce(r.in, start, r.left_from(start, share), {r.in.at(r.group.rank, start)});
  });
  if (scatters) return Program{r->group, {std::move(first), sync(r->group)}, r->bytes_of_parts()};
  Part second = sync(r->group, [=, r = *r] {
    for (std::size_t rank = 0; rank < r.group.size(); ++rank) {
      const std::size_t from = share * rank;
      copy_elements(out + from * r.in.element, r.in.at(rank, from),
                    r.left_from(from, share) * r.in.element);
    }
  });
  return Program{
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
     one_shot_in_place},
    {"one_shot_all_reduce_kernel(T**, T*, T*, unsigned long, unsigned long, unsigned int**, "
     "unsigned long, unsigned long)",
     one_shot_copy},
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

std::optional<SymmetricKernel> symmetric_kernel(const std::string& name, void** arguments) {
  const bool candidate = name.find("symmetric_memory") != std::string::npos ||
                         name.find("_shot_all_reduce_kernel") != std::string::npos;
  if (!candidate || !arguments || !(data_moves() || follows_known())) return std::nullopt;
  const std::string text = readable(name);
  const auto* const found =
      std::ranges::find(kKernels, signature(text), [](const auto& one) { return one.first; });
  if (found == std::end(kKernels)) return std::nullopt;
  auto program = found->second(text, arguments);
  if (!program) return std::nullopt;
  return [program = std::move(*program),
          name = text.substr(0, text.find_first_of("<("))](StreamHandle stream) {
    const auto start = [=](StreamHandle to) {
      const auto running =
          std::make_shared<Running>(to, name, program.group, program.parts, program.bytes);
      defer(to, [running] { return running->advance(); });
    };
    is_capturing(stream) ? capture_run(stream, name, start) : start(stream);
  };
}

}  // namespace tidemark::device
