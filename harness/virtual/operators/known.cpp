// known: numbers as far as they are known and small, and no others.
#include <algorithm>
#include <cstring>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/frame.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/origins.h"
#include "harness/virtual/operators/plain.h"
#include "harness/virtual/operators/policies.h"
#include "harness/virtual/operators/recorded.h"
#include "harness/virtual/operators/signature.h"
#include "harness/virtual/operators/sparse_product.h"
#include "harness/virtual/operators/values.h"
#include "harness/virtual/operators/watch.h"

namespace tidemark::operators {
namespace {
using torch::jit::Stack;

thread_local bool gave_up = false;  // the operator that was computed last has no values
const Keeping kKeeping{
    [](const std::vector<c10::IValue>& outputs) {
      return std::all_of(outputs.begin(), outputs.end(),
                         [](const c10::IValue& value) { return within_limit(value); });
    },
    [](const at::Tensor& output) { mark(output, true); }, [] { gave_up = true; }};

bool same_memory_order(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

class KnownKernel {
 public:
  KnownKernel(const c10::OperatorHandle& op, const std::function<Original()>& original,
              bool computes)
      : signature_(op),
        original_(original()),
        policy_(policy(signature_.name)),
        counts_(counts(signature_.name)),
        whatever_(reads_whatever(signature_.name)),
        refused_(needs_values(signature_.name) && !counts_ && !whatever_ &&
                 !finds_out_inside(signature_.name)),
        is_copy_(signature_.name == "aten::copy_"),
        is_coalesce_(signature_.name == "aten::_coalesce"),
        of_pytorch_(signature_.name.starts_with("aten::")),
        is_overflow_check_(signature_.name == "aten::_amp_foreach_non_finite_check_and_unscale_"),
        draws_(signature_.generator >= 0 || draws_silently(signature_.name)) {
    if (computes) math_.emplace(math_kernel(op, original(), &kKeeping));
    const bool all_written = overwrites(signature_.name);
    for (std::size_t i = 0; i < signature_.arguments; ++i) {
      const bool out = signature_.written[i] && signature_.crossings[i] == 1;
      read_.push_back(!(signature_.written[i] && (all_written || out)));
      if (signature_.written[i]) written_.push_back(i);
    }
    for (const std::size_t i : silently_written(signature_.name)) written_.push_back(i);
  }

  void operator()(const Invocation& call) {
    if (made_of_operators(signature_.name, call.last(signature_.arguments)))
      return call.run(original_);
    if (outer) return below(call);  // in the host code of an operator that is computed
    follow_allocations();
    await_collectives(call.values(signature_.arguments));
    const c10::IValue* arguments = call.last(signature_.arguments);
    if (!math_ || !computable(arguments) ||
        (device.captures_under_way() && is_captured(call.values(signature_.arguments))))
      return unknown(call);
    Stack written;
    for (const std::size_t i : written_) written.push_back(arguments[i]);
    gave_up = false;
    below(call);
    const c10::IValue* outputs = call.last(signature_.returns);
    const bool kept = !gave_up && kKeeping.admits(call.values(signature_.returns));
    for (const c10::IValue& value : written) mark(value, kept);
    for (std::size_t i = 0; i < signature_.returns; ++i)
      if (signature_.made[i] && !signature_.fresh[i]) mark(outputs[i], kept);
  }

 private:
  // Their CUDA host code is made of operators that say it themselves.
  static bool finds_out_inside(const std::string& name) {
    return name.starts_with("aten::masked_select") || name == "aten::bincount" ||
           name == "aten::equal";
  }

  void below(const Invocation& call) { math_ ? call.run(*math_) : call.run(original_); }

  bool reads(const c10::IValue* arguments, std::size_t i) const {
    const bool no_self = signature_.beta > 0 && arguments[signature_.beta].isScalar() &&
                         arguments[signature_.beta].toScalar().equal(0);
    return read_[i] && !(no_self && i == 0);
  }

  /// `later`: whatever is known of their values at present.
  bool computable(const c10::IValue* arguments, bool later = false) const {
    for (std::size_t i = 0; i < signature_.arguments; ++i) {
      const bool read = reads(arguments, i) && !later;
      if (!all_tensors(arguments[i], [&](const at::Tensor& tensor) {
            return tensor.layout() == c10::kStrided && within_limit(tensor) &&
                   (!read || is_known(tensor));
          }))
        return false;
    }
    return true;
  }

  // The original alone. Operators inside are called as the program's own: what they compute of
  // known values is known to its host code, and what they ask for is answered or refused by their
  // names.
  void unknown(const Invocation& call) {
    Bracket bracket(signature_.name.c_str());
    const std::vector<c10::IValue> arguments = call.values(signature_.arguments);
    std::optional<AnswerReads> answer;
    const auto factors = factors_of(signature_.name, arguments);
    std::optional<SparseProduct> product;
    std::optional<AnswerProduct> product_answer;
    if (factors && indices_are_known(*factors)) {
      Plain plain;
      product_answer.emplace(product.emplace(product_of(*factors)));
    } else if (refused_ || factors) {
      refuse_size(signature_.name);
    }
    if (whatever_) answer.emplace(1, true);
    if (counts_) {
      auto chosen = count_of_indices(arguments);
      if (!chosen) {
        chosen = chosen_of(arguments[0].toTensor().numel());
        if (!chosen) refuse_size(signature_.name);
        tell(signature_.name, "a part of the elements");
      }
      answer.emplace(*chosen);
    }
    const bool captured = is_captured(arguments);
    const bool to_host = is_copy_ && arguments[0].toTensor().is_cpu();
    if (to_host && !captured) return copy_to_host(call, arguments);
    const bool computes = captured && math_ && computable(arguments.data(), true);
    std::optional<CapturedRandom> random;
    if (captured && draws_)
      random = captured_random(signature_.generator_of(arguments), device_of(arguments));
    const bool flag_known = is_overflow_check_ && is_known(arguments[1].toTensor());
    bracket.bytes = signature_.argument_bytes(arguments.data());
    Watch watch(signature_, arguments.data());
    {
      std::optional<SuspendData> suspended;
      if (of_pytorch_ && !to_host) suspended.emplace();
      // Values that the operator reads back are answered.
      const Frame frame{signature_, arguments, true, product.has_value()};
      Inside inside(counts_ || computes || product ? &frame : nullptr);
      call.run(original_);
    }
    const c10::IValue* outputs = call.last(signature_.returns);
    watch.finish(outputs);
    bracket.bytes += signature_.result_bytes(outputs);
    // The operators and the launches inside have said it, or the copy does at each launch.
    if (!of_pytorch_ || to_host) return;
    if (captured) return record(call, arguments, random, computes);
    for (const std::size_t i : written_) mark(arguments[i], false);
    for (std::size_t i = 0; i < signature_.returns; ++i)
      if (signature_.made[i]) mark(outputs[i], false);
    if (is_copy_) copy_parts(arguments);
    if (is_coalesce_) keep_indices(arguments, outputs[0]);
    if (product) {
      Plain plain;
      for (const auto& [part, values] : indices_of(outputs[0].toTensor(), *product)) {
        store(part, values, signature_.name);
        mark(part, true);
      }
    }
    if (flag_known) mark(arguments[1], true);
    if (policy_) policy_(signature_, arguments, call.values(signature_.returns));
  }

  // Memory that a graph writes stays as it was until the graph is launched.
  void record(const Invocation& call, const std::vector<c10::IValue>& arguments,
              std::optional<CapturedRandom> random, bool computes) const {
    const std::vector<c10::IValue> outputs = call.values(signature_.returns);
    auto recorded = std::make_unique<Recorded>(call.op, signature_, composition(signature_.name),
                                               arguments, outputs, random);
    Recorded::Knowledge knowledge{computes && kKeeping.admits(outputs)};
    const auto add = [](std::vector<Place>& places, const c10::IValue& value) {
      each_tensor(value, [&places](const at::Tensor& tensor) {
        if (Place place; place.of(tensor)) places.push_back(std::move(place));
      });
    };
    for (std::size_t i = 0; i < signature_.arguments; ++i)
      if (reads(arguments.data(), i)) add(knowledge.reads, arguments[i]);
    for (const std::size_t i : written_) add(knowledge.writes, arguments[i]);
    for (std::size_t i = 0; i < signature_.returns; ++i)
      if (signature_.made[i]) add(knowledge.writes, outputs[i]);
    recorded->knowledge = std::move(knowledge);
    if (!Recorded::keep(recorded)) recorded->launch();
  }

  // A sparse tensor's indices without its values: what they are together.
  static at::Tensor coalesced_indices(const at::Tensor& sparse) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor indices = host_alias(parts_of(sparse)[0]);
    const auto sizes = sparse.sizes().slice(0, static_cast<std::size_t>(indices.size(0)));
    const at::Tensor ones = at::ones({indices.size(1)}, indices.options().dtype(at::kByte));
    return at::_coalesce(at::_sparse_coo_tensor_unsafe(indices, ones, sizes))._indices();
  }
  std::optional<std::int64_t> count_of_indices(const std::vector<c10::IValue>& arguments) const {
    if (!is_coalesce_ || !is_known(parts_of(arguments[0].toTensor())[0])) return std::nullopt;
    return coalesced_indices(arguments[0].toTensor()).size(1);
  }
  static void keep_indices(const std::vector<c10::IValue>& arguments, const c10::IValue& output) {
    if (!is_known(parts_of(arguments[0].toTensor())[0])) return;
    const at::Tensor indices = parts_of(output.toTensor())[0];
    store(indices, coalesced_indices(arguments[0].toTensor()), "aten::_coalesce");
    mark(indices, true);
  }

  static void copy_parts(const std::vector<c10::IValue>& arguments) {
    const at::Tensor to = arguments[0].toTensor(), from = arguments[1].toTensor();
    if (!to.is_cuda() || !from.is_cuda() || to.numel() == 0 || !same_memory_order(to, from)) return;
    if (to.storage().data() && from.storage().data())
      device.copy_known(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  }

  void copy_to_host(const Invocation& call, const std::vector<c10::IValue>& arguments) {
    const at::ScalarType type = arguments[1].toTensor().scalar_type();
    if (asks_for_error(arguments[0].toTensor(), arguments[1].toTensor()))
      return tell_no_error(call, original_);
    const auto floats = floats_below(arguments[1].toTensor());
    if (!floats) static_cast<void>(answer_item(type));  // before anything is written
    Watch watch(signature_, arguments.data());
    {
      SuspendData suspended;
      AcceptUnknown accepted;
      const Frame frame{signature_, arguments, true};
      Inside inside(&frame);
      call.run(original_);
    }
    watch.finish(call.last(signature_.returns));
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    floats ? answer_bytes(signature_.name, arguments[0].toTensor(), *floats)
           : answer_copy(signature_.name, arguments[0].toTensor(), type);
  }

  Signature signature_;
  Original original_;
  Policy policy_;
  bool counts_, whatever_, refused_, is_copy_, is_coalesce_, of_pytorch_, is_overflow_check_,
      draws_;
  std::optional<Kernel> math_;
  std::vector<bool> read_;            // per argument: its values matter
  std::vector<std::size_t> written_;  // positions of arguments
};

}  // namespace

// A known tensor that grows stays known: its new elements are 0. Programs pad what they gather so,
// and look at their own part alone.
Kernel known_resize_kernel(const std::function<Original()>& original) {
  return boxed([original = original()](const Invocation& call) {
    const at::Tensor self = call.last(3)->toTensor();
    const std::size_t before = self.nbytes();
    const bool grows = !outer && before > 0 && self.is_contiguous() && is_known(self);
    call.run(original);
    if (!grows || self.nbytes() <= before || !self.is_contiguous() || !within_limit(self)) return;
    char* const rest = static_cast<char*>(self.mutable_data_ptr()) + before;
    std::memset(rest, 0, self.nbytes() - before);
    device.mark_known(rest, self.nbytes() - before, 1);
  });
}

Kernel known_bytes_kernel(const std::function<Original()>& original) {
  return boxed([original = original()](const Invocation& call) {
    const at::ScalarType type = call.last(2)->toTensor().scalar_type();
    call.run(original);
    note_floats(call.last(1)->toTensor(), type);
  });
}

Kernel known_kernel(const c10::OperatorHandle& op, const std::function<Original()>& original,
                    bool computes) {
  return boxed(KnownKernel(op, original, computes));
}

Kernel known_read_kernel(const c10::OperatorHandle& op, const std::function<Original()>& original) {
  return boxed([signature = Signature(op), original = original(),
                math = read_value_kernel(op, original())](const Invocation& call) {
    const at::Tensor tensor = call.stack->back().toTensor();
    await_collectives({tensor});
    if (outer || is_known(tensor)) return call.run(math);
    const at::Scalar answer = answer_item(tensor.scalar_type());
    const bool decides = tensor.scalar_type() == at::kBool;
    {
      Watch watch(signature, call.last(1));
      SuspendData suspended;
      AcceptUnknown accepted;
      call.run(original);
      watch.finish(call.last(1));
    }
    tell("item", decides ? "False" : "1.0", decides);
    call.stack->back() = answer;
  });
}

}  // namespace tidemark::operators
