// Graphs of operations and the engines that run them: convolutions with what follows them,
// attention, normalisations. Every other graph is refused as a pattern that is not supported.
#include <algorithm>
#include <optional>

#include "harness/virtual/cudnn/backend.h"
#include "harness/virtual/cudnn/convolution.h"

namespace tidemark::cudnn {
namespace {

// Attributes of the three convolutions: their tensors and their descriptor.
struct Places {
  int kind;
  Direction direction;
  int x, w, y, descriptor;
};
constexpr Places kConvolutions[]{
    {convolution_forward, Direction::forward, 704, 703, 705, 702},
    {convolution_backward_data, Direction::backward_data, 710, 709, 711, 708},
    {convolution_backward_filter, Direction::backward_filter, 716, 715, 717, 714}};

Tensor tensor_of(const Descriptor& d) {
  return {.type = d.value<std::int32_t>(tensor_type),
          .sizes = d.values<std::int64_t>(tensor_sizes),
          .strides = d.values<std::int64_t>(tensor_strides)};
}

std::optional<Convolution> convolution_of(const Descriptor& operation) {
  for (const Places& p : kConvolutions) {
    if (p.kind != operation.kind) continue;
    const Shared x = operation.child(p.x, tensor), w = operation.child(p.w, tensor),
                 y = operation.child(p.y, tensor), how = operation.child(p.descriptor, convolution);
    if (!x || !w || !y || !how) return std::nullopt;
    return Convolution{.direction = p.direction,
                       .x = tensor_of(*x),
                       .w = tensor_of(*w),
                       .y = tensor_of(*y),
                       .before = how->values<std::int64_t>(convolution_pre_paddings),
                       .after = how->values<std::int64_t>(convolution_post_paddings),
                       .strides = how->values<std::int64_t>(convolution_strides),
                       .dilations = how->values<std::int64_t>(convolution_dilations)};
  }
  return std::nullopt;
}

bool is_convolution(int kind) {
  return kind >= convolution_forward && kind <= convolution_backward_data;
}

/// Work of a graph, as far as engines depend on it.
struct Work {
  enum { convolution, attention, norm } what;
  std::optional<Convolution> convolution_ = {};
  device::Cost cost = {};  // of attention and norms
  int type = f32;
  std::size_t summed =
      0;  // bytes of a gradient of each query's head, before the heads of a group are summed
};

/// The bytes of what an operation sums over heads, in the type of the sum; 0 where it does not.
std::size_t summed_over_heads(const std::vector<Tensor>& tensors) {
  if (tensors.size() != 2 || tensors[0].sizes.size() != 4 || tensors[1].sizes.size() != 4) return 0;
  const bool first = tensors[0].sizes[1] > tensors[1].sizes[1];
  const Tensor &from = tensors[first ? 0 : 1], &to = tensors[first ? 1 : 0];
  for (const std::size_t d : {0, 2, 3})
    if (from.sizes[d] != to.sizes[d]) return 0;
  return from.sizes[1] > to.sizes[1] ? static_cast<std::size_t>(from.elements()) * bytes_of(to.type)
                                     : 0;
}

// 2 m n k for each product of the graph, and the bytes of all tensors that are in memory.
Work attention_of(const std::vector<Shared>& operations) {
  Work work{.what = Work::attention};
  for (const Shared& operation : operations) {
    std::vector<Tensor> tensors;
    for (const auto& [name, a] : operation->attributes)
      for (const Shared& child : a.descriptors) {
        if (child->kind != tensor || child->value<std::uint8_t>(tensor_is_by_value)) continue;
        const Tensor t = tensor_of(*child);
        tensors.push_back(t);
        if (child->value<std::uint8_t>(tensor_is_virtual)) continue;
        work.cost.bytes += static_cast<double>(t.bytes());
        if (t.type == f16 || t.type == bf16) work.type = t.type;
      }
    work.summed += summed_over_heads(tensors);
    if (operation->kind == operation_matmul && tensors.size() >= 3) {  // A, B, C by their numbers
      const auto k = static_cast<double>(tensors[0].sizes.back());
      work.cost.flops += 2.0 * k * static_cast<double>(tensors[2].elements());
    } else if (operation->kind >= operation_attention_forward && tensors.size() >= 3) {
      const auto &q = tensors[0].sizes, &key = tensors[1].sizes;  // b, h, s, d
      if (key.size() < 2) continue;
      const bool forward = operation->kind == operation_attention_forward;
      work.cost.flops += (forward ? 4.0 : 10.0) * static_cast<double>(tensors[0].elements()) *
                         static_cast<double>(key[key.size() - 2]) *
                         (q.size() == key.size() ? 1.0 : 0.0);
    }
  }
  work.cost.number = number_of(work.type, true);
  return work;
}

std::optional<Work> work_of(const Descriptor& graph_) {
  const auto attribute = graph_.attributes.find(graph_operations);
  if (attribute == graph_.attributes.end()) return std::nullopt;
  const std::vector<Shared>& operations = attribute->second.descriptors;
  const auto count = [&](auto... kinds) {
    return std::count_if(operations.begin(), operations.end(),
                         [&](const Shared& o) { return ((o->kind == kinds) || ...); });
  };
  const auto total = static_cast<std::ptrdiff_t>(operations.size());
  if (count(convolution_forward, convolution_backward_data, convolution_backward_filter) == 1 &&
      is_convolution(operations.front()->kind) && count(operation_pointwise) == total - 1)
    return Work{.what = Work::convolution, .convolution_ = convolution_of(*operations.front())};
  if (count(operation_matmul) >= 2 ||
      count(operation_attention_forward, operation_attention_backward) == 1)
    return attention_of(operations);
  if (count(operation_norm_forward, operation_norm_backward) == 1) {
    Work work = attention_of(operations);
    work.what = Work::norm;
    work.cost.number = device::Number::f32;
    return work;
  }
  return std::nullopt;
}

/// Engines by number: 0 without tensor cores, 1 with.
bool runs(const Work& work, std::int64_t index, int arch) {
  if (work.what == Work::norm) return index == 0;
  if (work.what == Work::attention)
    return index == 1 && arch >= 80 && (work.type == f16 || work.type == bf16);
  return index == 1 ? on_tensor_cores(*work.convolution_, arch)
                    : index == 0 && without_tensor_cores(*work.convolution_);
}

// Attention: what cuDNN takes on an H100 beside the frontend's own part, in every recorded call
// whose queries are several tokens (reports/measured/h100-80g/asked.jsonl.xz); grouped queries have
// one shape there.
std::size_t workspace_of(const Work& work, std::int64_t index) {
  if (work.what == Work::convolution)
    return workspace_of(*work.convolution_, index == 1, capability());
  return work.what == Work::attention && capability() == 90 ? 256 + work.summed : 0;
}

Status finalize_engine(Descriptor& d) {
  const Shared of = d.child(engine_graph, graph);
  if (!of) return fail(bad_param, "an engine has no graph");
  const auto work = work_of(*of);
  const auto index = d.value<std::int64_t>(engine_index, -1);
  if (!work || !runs(*work, index, capability()))
    return fail(not_supported, "engine " + std::to_string(index) + " does not run this graph");
  const std::vector<std::int32_t> notes = index == 1 ? std::vector<std::int32_t>{0}  // TENSOR_CORE
                                                     : std::vector<std::int32_t>{};
  d.set(engine_numerical_notes, of_numerical_note, notes);
  d.set(engine_behavior_notes, of_behavior_note, std::vector<std::int32_t>{});
  d.set(engine_knobs, std::vector<Shared>{});
  return success;
}

std::size_t workspace_of(const Descriptor& engine_) {
  return workspace_of(*work_of(*engine_.child(engine_graph, graph)),
                      engine_.value<std::int64_t>(engine_index));
}

Status finalize_config(Descriptor& d) {
  const Shared e = d.child(config_engine, engine);
  if (!e) return fail(bad_param, "a configuration has no engine");
  if (!d.has(config_knob_choices)) d.set(config_knob_choices, std::vector<Shared>{});
  const auto bytes = static_cast<std::int64_t>(workspace_of(*e));
  d.set(config_workspace, of_int64, std::vector<std::int64_t>{bytes});
  d.set(config_shared_memory, of_int32, std::vector<std::int32_t>{0});
  return success;
}

Shared config_of(const Shared& of, std::int64_t index) {
  auto e = std::make_shared<Descriptor>(Descriptor{.kind = engine});
  e->set(engine_graph, std::vector<Shared>{of});
  e->set(engine_index, of_int64, std::vector<std::int64_t>{index});
  if (finalize_engine(*e) != success) return nullptr;
  e->finalized = true;
  auto config = std::make_shared<Descriptor>(Descriptor{.kind = engine_config});
  config->set(config_engine, std::vector<Shared>{e});
  config->finalized = finalize_config(*config) == success;
  return config;
}

Status finalize_heuristics(Descriptor& d) {
  const Shared of = d.child(heuristics_graph, graph);
  if (!of) return fail(bad_param, "heuristics have no graph");
  const auto work = work_of(*of);
  if (!work)
    return refuse(not_supported_pattern, "the virtual device has no engine for this graph");
  std::vector<Shared> results;
  for (const std::int64_t index : {1, 0})
    if (const Shared config = config_of(of, index)) results.push_back(config);
  if (results.empty())
    return fail(not_supported_arch, "this GPU has no engine for the types of this graph");
  d.set(heuristics_results, results);
  return success;
}

Shared engine_of(const Descriptor& plan_) {
  const Shared config = plan_.child(plan_config, engine_config);
  return config ? config->child(config_engine, engine) : nullptr;
}

Status finalize_plan(Descriptor& d) {
  const Shared e = engine_of(d);
  if (!e) return fail(bad_param, "a plan has no engine");
  const auto bytes = modelled(workspace_of(*e));
  d.set(plan_workspace, of_int64, std::vector<std::int64_t>{static_cast<std::int64_t>(bytes)});
  return success;
}

Status finalize_tensor(const Descriptor& d) {
  const auto sizes = d.values<std::int64_t>(tensor_sizes),
             strides = d.values<std::int64_t>(tensor_strides);
  if (sizes.empty() || sizes.size() != strides.size() || sizes.size() > 8)
    return fail(bad_param, "a tensor has one to eight sizes and as many strides");
  double elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<double>(size);
  constexpr double most = 1L << 53;  // sums of bytes stay whole numbers
  if (std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size < 0; }) ||
      elements > most)
    return fail(bad_param, "a tensor has a size below 0, or more elements than any memory");
  return success;
}

/// Tensors of a graph that a caller has to give memory for.
std::vector<std::int64_t> needed(const Descriptor& graph_) {
  std::vector<std::int64_t> ids;
  for (const Shared& operation : graph_.attributes.at(graph_operations).descriptors)
    for (const auto& [name, a] : operation->attributes)
      for (const Shared& child : a.descriptors)
        if (child->kind == tensor && !child->value<std::uint8_t>(tensor_is_virtual))
          ids.push_back(child->value<std::int64_t>(tensor_id));
  return ids;
}

}  // namespace

Status finalize(Descriptor& d) {
  switch (d.kind) {
    case tensor:
      return finalize_tensor(d);
    case convolution_forward:
    case convolution_backward_data:
    case convolution_backward_filter: {
      const auto c = convolution_of(d);
      if (!c) return fail(bad_param, "a convolution lacks a tensor or its descriptor");
      const auto mistake = mistake_in(*c);
      return mistake ? fail(shape_mismatch, *mistake) : success;
    }
    case graph:
      if (d.attributes[graph_operations].descriptors.empty())
        return fail(bad_param, "a graph has no operations");
      d.set(graph_engine_count, of_int64, std::vector<std::int64_t>{2});
      return success;
    case engine:
      return finalize_engine(d);
    case engine_config:
      return finalize_config(d);
    case heuristics:
      return finalize_heuristics(d);
    case plan:
      return finalize_plan(d);
    default:
      return success;
  }
}

Status execute(const Handle* handle, const Descriptor& plan_, const Descriptor& pack) {
  const Shared e = engine_of(plan_);
  if (plan_.kind != plan || !plan_.finalized || !e || pack.kind != variant_pack || !pack.finalized)
    return fail(not_finalized, "the plan or the variant pack is not finalized");
  const auto ids = pack.values<std::int64_t>(pack_ids);
  const auto pointers = pack.values<void*>(pack_pointers);
  const Shared engines_graph = e->child(engine_graph, graph);
  const Descriptor& of = *engines_graph;
  for (const std::int64_t id : needed(of)) {
    const auto at = std::find(ids.begin(), ids.end(), id) - ids.begin();
    if (at >= static_cast<std::ptrdiff_t>(pointers.size()) ||
        !pointers[static_cast<std::size_t>(at)])
      return fail(null_pointer, "tensor " + std::to_string(id) + " of the graph has no memory");
  }
  if (plan_.value<std::int64_t>(plan_workspace) > 0 && !pack.value<void*>(pack_workspace))
    return fail(null_pointer, "the plan needs a workspace and was given none");
  const auto work = work_of(of);
  const bool tensor_cores = e->value<std::int64_t>(engine_index) == 1;
  if (work->what != Work::convolution)
    return run(handle, work->what == Work::norm ? "cudnn norm" : "cudnn attention", work->cost);
  const Convolution& c = *work->convolution_;
  return run(handle,
             c.direction == Direction::forward         ? "cudnn convolution"
             : c.direction == Direction::backward_data ? "cudnn convolution backward data"
                                                       : "cudnn convolution backward filter",
             cost_of(c, tensor_cores));
}

}  // namespace tidemark::cudnn
