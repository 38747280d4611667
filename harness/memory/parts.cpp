#include "harness/memory/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "harness/memory/format/format.h"
#include "harness/memory/site.h"
#include "harness/memory/walk.h"

namespace tidemark {
namespace {

constexpr std::int64_t kNumber = 16;           // bytes of the largest type, complex128
constexpr const char* kAutograd = "autograd";  // the file of a frame that is a node of autograd

/// One number of DeepSpeed's, which is no buffer.
bool is_flag(const Snapshot& snapshot, const AllocatorEvent& event) {
  return event.size <= kNumber &&
         std::ranges::any_of(snapshot.stacks[event.stack], [&](std::uint32_t at) {
           return snapshot.frames[at].file.find("/deepspeed/runtime/") != std::string::npos;
         });
}

MemoryKind kind_of(const Snapshot& snapshot, const AllocatorEvent& event) {
  const auto& frames = snapshot.stacks[event.stack];
  if (frames.empty() ? event.module == 0 && is_ours(snapshot)
                     : snapshot.frames[frames[0]].file == kAutograd)
    return MemoryKind::backward;
  const auto kind = kind_of_library(snapshot, frames);
  if (kind && !(kind == MemoryKind::sharding_buffers && is_flag(snapshot, event))) return *kind;
  // In a module it is an activation of that, as other inputs that are gathered.
  const bool outside =
      event.module == 0 || snapshot.modules[event.module] == recorder::kOutsideModules;
  if (outside && gathers_whole(snapshot, frames)) return MemoryKind::sharding_buffers;
  return event.module != 0 ? MemoryKind::activations : MemoryKind::other;
}

}  // namespace

MemoryKind kind_of(const Snapshot& snapshot, const AllocatorEvent& event, const LabelOf& labels) {
  const auto label = labels.find(&event);
  return label != labels.end() ? label->second.kind : kind_of(snapshot, event);
}

std::string without_numbers(const std::string& path) {
  std::string out;
  bool before = false;  // a number has come
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string word = path.substr(at, end - at);
    const bool number = !word.empty() && std::ranges::all_of(word, [](unsigned char letter) {
      return std::isdigit(letter) != 0;
    });
    out += (at > 0 ? "." : "") + (number && !(before && end == path.size()) ? "*" : word);
    before = before || number;
    at = end + 1;
  }
  return out;
}

bool BlockLabel::is_unnamed() const {
  return std::ranges::all_of(
      names, [](const std::string& name) { return name.empty() || name.ends_with(']'); });
}

std::string BlockLabel::module() const {
  const auto word_of = [](const std::string& path, std::size_t at) {
    return path.substr(at, path.find('.', at) - at);
  };
  std::set<std::string> modules;
  for (const std::string& name : names) {
    const std::size_t end = name.rfind('.');
    modules.insert(end == name.npos ? "" : name.substr(0, end));
  }
  std::string common = modules.empty() ? "" : *modules.begin();
  if (modules.size() == 1) return common;
  std::size_t at = 0;  // where the words of the modules differ
  const auto differ = [&] {
    return std::ranges::any_of(modules, [&](const std::string& one) {
      return one.size() < at || word_of(one, at) != word_of(common, at);
    });
  };
  while (at < common.size() && !differ()) at += word_of(common, at).size() + 1;
  std::set<std::string> words;
  for (const std::string& one : modules)
    if (at < one.size()) words.insert(word_of(one, at));
  std::string before = common.substr(0, at);
  if (!before.empty() && !before.ends_with('.')) before += '.';
  return fmt::format("{}{{{}}}", before, fmt::join(words, ","));
}

namespace {

/// A name takes the place of a shorter one: a module gets a longer path when one around it is
/// called. The type and shape of a tensor give way to its path, whichever of them comes first.
void add_name(std::set<std::string>& names, const std::string& name) {
  if ((name.empty() || name.ends_with(']')) && !names.empty()) return;
  std::erase_if(names, [&](const std::string& one) {
    return one.empty() || one.ends_with(']') || name.ends_with("." + one);
  });
  names.insert(name);
}

/// Blocks that are allocated in phases of a name, and that nothing else is known of.
void add_of_phase(const Snapshot& snapshot, std::size_t device, std::string_view name,
                  MemoryKind kind, LabelOf& labels) {
  if (device >= snapshot.traces.size()) return;
  const auto& trace = snapshot.traces[device];
  auto phase = snapshot.phases.begin();  // by device and begin
  const auto named = [&](const ProgramPhase& one) {
    return static_cast<std::size_t>(one.device) == device && one.name == name;
  };
  phase = std::find_if(phase, snapshot.phases.end(), named);
  for (TraceWalk walk(trace); phase != snapshot.phases.end();) {
    const ProgramPhase::Moment before = walk.moment();
    if (!walk.next()) return;
    while (phase != snapshot.phases.end() && phase->end <= before)
      phase = std::find_if(phase + 1, snapshot.phases.end(), named);
    if (phase == snapshot.phases.end() || before < phase->begin) continue;
    const AllocatorEvent& event = trace[walk.place()];
    if (event.action == AllocatorAction::alloc && kind_of(snapshot, event) == MemoryKind::other)
      labels.try_emplace(&event, BlockLabel{kind, {}});
  }
}

/// Blocks that nothing else is known of, and that are computed from activations.
void add_computed(const Snapshot& snapshot, std::size_t device, LabelOf& labels) {
  const auto kind = [&](const AllocatorEvent& event) { return kind_of(snapshot, event, labels); };
  each_label(snapshot, snapshot.computed, device,
             [&](const AllocatorEvent* block, const Computed& one, const TraceWalk& walk) {
               const auto source = walk.block_at(one.source);
               if (source && kind(*block) == MemoryKind::other &&
                   kind(snapshot.traces[device][*source]) == MemoryKind::activations)
                 labels.try_emplace(block, BlockLabel{MemoryKind::activations, {}});
             });
}

}  // namespace

LabelOf labels_of(const Snapshot& snapshot, std::size_t device) {
  LabelOf out;
  std::unordered_map<const AllocatorEvent*, std::map<std::int64_t, std::set<std::string>>> names;
  each_label(snapshot, snapshot.labels, device,
             [&](const AllocatorEvent* block, const auto& label, const TraceWalk&) {
               if (label.kind == MemoryKind::inputs && !snapshot.kinds_by_stacks &&
                   (out.contains(block) || kind_of(snapshot, *block) != MemoryKind::other))
                 return;
               BlockLabel& known = out[block];
               if (known.kind != label.kind) known.kind = label.kind, names[block].clear();
               add_name(names[block][label.address], label.name);
             });
  for (const auto& [block, named] : names)
    for (const auto& [address, some] : named) out[block].names.insert(some.begin(), some.end());
  add_of_phase(snapshot, device, "optimizer", MemoryKind::optimizer_temporaries, out);
  add_of_updates(snapshot, device, out);
  add_computed(snapshot, device, out);
  // Of hooks, and the gradients that activations retain.
  add_of_phase(snapshot, device, "backward", MemoryKind::backward, out);
  return out;
}

std::string Holder::text() const {
  const std::string share = asked == 0 ? "" : fmt::format(" ({} of {} blocks)", held, asked);
  if (is_work)
    return "works of a process group, of which PyTorch's watchdog lets go every 100 ms" + share;
  if (!is_cycle) return name + share;
  return fmt::format("a cycle of references{}{}, which waits for Python's collector",
                     name.empty() ? "" : " (" + name + ")", share);
}

void Holding::add(const Holder& holder, std::int64_t bytes) {
  if (!holder.is_known()) return;
  Sum& sum = sums_[holder];
  sum.bytes += bytes, ++sum.blocks, ++blocks_;
}

Holder Holding::most() const {
  if (sums_.empty()) return {};
  const auto& [holder, sum] =
      *std::ranges::max_element(sums_, {}, [](const auto& one) { return one.second.bytes; });
  Holder out = holder;
  if (sum.blocks < blocks_) out.held = sum.blocks, out.asked = blocks_;
  return out;
}

std::optional<UseOf> uses_of(const Snapshot& snapshot, std::size_t device) {
  if (std::ranges::find(snapshot.uses, BlockUse::followed, &UseLabel::use) == snapshot.uses.end())
    return std::nullopt;
  UseOf out;
  each_label(snapshot, snapshot.uses, device,
             [&](const AllocatorEvent* block, const auto& label, const TraceWalk&) {
               Use& use = out[block];
               if (label.use == BlockUse::read)
                 use.last_read = std::max(use.last_read, label.allocations);
               use.collected = use.collected || label.use == BlockUse::collected;
               use.in_graph = use.in_graph || label.use == BlockUse::in_graph;
             });
  return out;
}

HolderOf holders_of(const Snapshot& snapshot, std::size_t device,
                    const std::function<bool(const AllocatorEvent*, const HolderLabel&)>& counts) {
  HolderOf out;
  each_label(
      snapshot, snapshot.holders, device,
      [&](const AllocatorEvent* block, const auto& label, const TraceWalk&) {
        if (!(counts ? counts(block, label) : label.kind != HolderKind::before_step)) return;
        out[block] = {label.name, label.kind == HolderKind::cycle, label.kind == HolderKind::work};
      });
  return out;
}

Part part_of(const Snapshot& snapshot, const AllocatorEvent& event, const LabelOf& labels,
             bool numbers) {
  Part part{kind_of(snapshot, event), snapshot.modules[event.module], "", 1, event.size};
  if (event.stack != 0) part.site = site_of(snapshot, event.stack);
  if (const auto label = labels.find(&event); label != labels.end()) {
    part.kind = label->second.kind;
    // A workspace is allocated in whichever module multiplies first.
    if (!label->second.is_unnamed() || part.kind == MemoryKind::workspaces)
      part.module = label->second.module();
  }
  if (!numbers) part.module = without_numbers(part.module);
  return part;
}

std::vector<TensorKind> kinds_of(const std::vector<Part>& parts) {
  std::vector<TensorKind> out;
  for (std::size_t i = 0; i < parts.size();) {
    TensorKind kind{parts[i].kind, 0, {}};
    const std::size_t begin = i;
    for (; i < parts.size() && parts[i].kind == kind.kind; ++i) kind.bytes += parts[i].bytes;
    kind.parts = std::span(parts).subspan(begin, i - begin);
    out.push_back(std::move(kind));
  }
  return out;
}

std::vector<Part> sum_up(const std::vector<Part>& parts) {
  std::map<std::tuple<MemoryKind, std::string, std::string>, Part> sums;
  std::map<MemoryKind, std::int64_t> kinds;
  for (const Part& one : parts) {
    const auto [sum, fresh] = sums.try_emplace({one.kind, one.module, one.site}, one);
    if (!fresh) sum->second.count += one.count, sum->second.bytes += one.bytes;
    kinds[one.kind] += one.bytes;
  }
  std::vector<Part> out;
  out.reserve(sums.size());
  for (auto& [key, one] : sums) out.push_back(std::move(one));
  std::ranges::stable_sort(out, [&](const Part& a, const Part& b) {
    return std::tuple(-kinds[a.kind], std::string_view(name_of(a.kind)), -a.bytes) <
           std::tuple(-kinds[b.kind], std::string_view(name_of(b.kind)), -b.bytes);
  });
  return out;
}

}  // namespace tidemark
