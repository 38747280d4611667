// Descriptors of the backend interface: each is a type and attributes. cuDNN's frontend builds
// every graph, heuristic and plan of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "harness/virtual/cudnn/cudnn.h"

namespace tidemark::cudnn {

/// cudnnBackendDescriptorType_t of cuDNN 9.26, those that the model reads; a program may make and
/// fill all of them up to last_kind.
enum Kind {
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  plan = 5,
  convolution_forward = 10,
  convolution_backward_filter = 11,
  convolution_backward_data = 12,
  operation_pointwise = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  operation_matmul = 19,
  operation_reduction = 22,
  operation_norm_forward = 29,
  operation_norm_backward = 30,
  operation_reshape = 31,
  operation_rng = 33,
  operation_band = 39,
  operation_attention_forward = 41,
  operation_attention_backward = 43,
  operation_softmax = 45,
  last_kind = 50,
};

/// cudnnBackendAttributeType_t, as far as sizes differ.
enum AttributeType {
  of_handle = 0,
  of_data_type = 1,
  of_boolean = 2,
  of_int64 = 3,
  of_float = 4,
  of_double = 5,
  of_pointer = 6,
  of_numerical_note = 11,
  of_descriptor = 15,
  of_behavior_note = 19,
  of_int32 = 23,
  of_char = 24,
  of_fraction = 26,
  last_attribute_type = 32,
};

/// cudnnBackendAttributeName_t, those that the model reads or answers.
enum Name {
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  heuristics_graph = 201,
  heuristics_results = 202,
  config_engine = 300,
  config_knob_choices = 302,
  config_workspace = 303,
  config_shared_memory = 304,
  plan_config = 401,
  plan_workspace = 402,
  graph_operations = 801,
  graph_engine_count = 802,
  tensor_type = 901,
  tensor_sizes = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_knobs = 1302,
  engine_numerical_notes = 1303,
  engine_behavior_notes = 1305,
};

struct Descriptor;
using Shared = std::shared_ptr<const Descriptor>;

struct Attribute {
  int type = of_int64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<Shared> descriptors;
};

struct Descriptor {
  int kind;
  bool finalized = false;
  std::map<int, Attribute> attributes = {};

  bool has(int name) const { return attributes.contains(name); }
  /// The values of an attribute; none where it was not set.
  template <class T>
  std::vector<T> values(int name) const {
    const auto attribute = attributes.find(name);
    if (attribute == attributes.end()) return {};
    std::vector<T> result(attribute->second.bytes.size() / sizeof(T));
    if (!result.empty())
      std::memcpy(result.data(), attribute->second.bytes.data(), result.size() * sizeof(T));
    return result;
  }
  template <class T>
  T value(int name, T otherwise = {}) const {
    const auto all = values<T>(name);
    return all.empty() ? otherwise : all.front();
  }
  /// The first descriptor of an attribute; null where there is none of this kind.
  Shared child(int name, int wanted) const {
    const auto attribute = attributes.find(name);
    if (attribute == attributes.end() || attribute->second.descriptors.empty()) return nullptr;
    const Shared& first = attribute->second.descriptors.front();
    return first->kind == wanted ? first : nullptr;
  }
  template <class T>
  void set(int name, int type, const std::vector<T>& values) {
    Attribute& a = attributes[name];
    a.type = type;
    a.count = static_cast<std::int64_t>(values.size());
    a.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  }
  void set(int name, const std::vector<Shared>& descriptors) {
    Attribute& a = attributes[name];
    a.type = of_descriptor;
    a.count = static_cast<std::int64_t>(descriptors.size());
    a.descriptors = descriptors;
  }
};

/// False where descriptors of this kind have no such attribute.
bool has_attribute(int kind, int name);
/// The type of an attribute that the model reads; -1 for all others.
int type_of_attribute(int name);

/// Checks a descriptor whose attributes are all set, and computes those that a caller may read.
Status finalize(Descriptor& descriptor);
/// Runs a plan on the memory of a variant pack.
Status execute(const Handle* handle, const Descriptor& plan, const Descriptor& pack);

}  // namespace tidemark::cudnn
