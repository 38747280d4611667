#include "harness/memory/annotations.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>

namespace tidemark {
namespace {

using Type = Tree::Type;

/// The value of a key of this type; nullptr where there is none.
const Tree::Value* value_of(const Tree& tree, Tree::Id dictionary, std::string_view key,
                            Type type) {
  const auto items = tree.items(dictionary);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (tree[items[i]].type == Type::text && tree.text_of(items[i]) == key)
      return tree[items[i + 1]].type == type ? &tree[items[i + 1]] : nullptr;
  return nullptr;
}

}  // namespace

std::vector<NamedRange> annotations_of(const Tree& tree, Tree::Id list) {
  std::vector<NamedRange> out;
  if (tree[list].type != Type::list) return out;
  std::map<std::pair<std::int64_t, std::string>, std::vector<std::size_t>> begun;
  for (const Tree::Id id : tree.items(list)) {
    if (tree[id].type != Type::dictionary) continue;
    const auto* name = value_of(tree, id, "name", Type::text);
    const auto* stage = value_of(tree, id, "stage", Type::text);
    const auto* time = value_of(tree, id, "time_us", Type::integer);
    const auto* device = value_of(tree, id, "device", Type::integer);
    if (name == nullptr || stage == nullptr || time == nullptr) continue;
    NamedRange one{device == nullptr ? 0 : device->integer, ns_of(time->integer),
                   std::numeric_limits<Ns>::max(), std::string(name->text, name->size)};
    auto& open = begun[{one.device, one.name}];
    const std::string_view word(stage->text, stage->size);
    if (word == "START") {
      open.push_back(out.size());
      out.push_back(std::move(one));
    } else if (word == "END" && !open.empty()) {
      out[open.back()].to = one.from;
      open.pop_back();
    }
  }
  std::ranges::stable_sort(out, {}, &NamedRange::from);
  return out;
}

bool is_optimizer_step(const NamedRange& annotation) {
  return annotation.name.starts_with("Optimizer.step#");
}

bool is_pytorchs(const NamedRange& annotation) {
  constexpr std::array kPrefixes{"Optimizer.",
                                 "enumerate(DataLoader)",
                                 "DistributedDataParallel.",
                                 "FSDP",
                                 "## ",
                                 "Torch-Compiled Region",
                                 "ProfilerStep#"};
  return std::ranges::any_of(kPrefixes,
                             [&](const char* one) { return annotation.name.starts_with(one); });
}

}  // namespace tidemark
