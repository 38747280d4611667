#include "harness/virtual/operators/policies.h"

#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/frame.h"
#include "harness/virtual/operators/layer.h"
#include "harness/virtual/operators/operators.h"
#include "harness/virtual/operators/origins.h"
#include "harness/virtual/operators/refusal.h"
#include "harness/virtual/operators/values.h"

namespace tidemark::operators {
namespace {
using Values = std::vector<c10::IValue>;

// The answer for an unknown floating-point value: finite, not zero, and its own inverse, square and
// root.
constexpr double kFinite = 1.0;

std::atomic<void (*)(const char*, const char*, int)> listener{nullptr};

struct Sizes {
  bool balanced = false;
  std::optional<double> part;
};
Sizes& sizes() {
  static Sizes one;
  return one;
}

// Advice for a program that is refused: math, or the missing part of TIDEMARK_SIZES (--sizes).
std::string how_to_say() {
  const Sizes& given = sizes();
  if (given.balanced && given.part) return ": run it in math";
  const char* more = given.balanced ? "a percentage too, as in --sizes balanced,50%"
                     : given.part   ? "balanced too, as in --sizes balanced,50%"
                                  : "it in TIDEMARK_SIZES (tidemark exec --sizes balanced, or 50%)";
  return std::string(": run it in math, or say ") + more;
}

// False: too large to be kept.
bool fill(const c10::IValue& output, const at::Scalar& value) {
  const at::Tensor& tensor = output.toTensor();
  if (!tensor.is_cuda() || !within_limit(tensor)) return false;
  host_alias(tensor).fill_(value);
  mark(tensor, true);
  return true;
}

/// A program branches by one answer, and counts or selects by several.
bool is_one(const c10::IValue& output) { return output.toTensor().numel() == 1; }

void all(const Signature& signature, const Values&, const Values& outputs) {
  if (fill(outputs[0], true)) tell(signature.name, "yes", is_one(outputs[0]));
}
void any(const Signature& signature, const Values&, const Values& outputs) {
  if (fill(outputs[0], false))
    asks_for_errors ? tell("_linalg_check_errors", "no error")
                    : tell(signature.name, "no", is_one(outputs[0]));
}
void none(const Signature& signature, const Values& arguments, const Values& outputs) {
  if (arguments[0].toTensor().is_floating_point() && fill(outputs[0], false))
    tell(signature.name, "finite");
}

bool same_elements(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_cuda() && a.is_alias_of(b) &&
         a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}
bool holds(const std::string& comparison, double a, double b) {
  if (comparison == "eq") return a == b;
  if (comparison == "ne") return a != b;
  if (comparison == "lt") return a < b;
  if (comparison == "le") return a <= b;
  if (comparison == "gt") return a > b;
  return a >= b;
}
// Known labels, one for each of several rows or elements of the comparison. A list of choices (an
// arange, one expert) with which each element is compared is none: counts of those become sizes.
bool is_answers(const at::Tensor& labels, const at::Tensor& result) {
  if (!labels.is_cuda() || labels.numel() < 2 || !is_known(labels)) return false;
  return labels.dim() == result.dim() && labels.size(0) == result.size(0) && result.size(0) > 1;
}

// An unknown value is finite: x == x (isnan, isfinite), x < inf and their like have an answer.
void compare(const Signature& signature, const Values& arguments, const Values& outputs) {
  constexpr std::size_t kPrefix = 6;  // "aten::"
  const std::string what = signature.name.substr(kPrefix, 2);
  const at::Tensor self = arguments[0].toTensor();
  std::optional<bool> known;
  if (arguments[1].isTensor()) {
    const at::Tensor other = arguments[1].toTensor();
    if (same_elements(self, other)) known = holds(what, kFinite, kFinite);
    if (other.is_cpu() && other.dim() == 0 && self.is_floating_point() &&
        !std::isfinite(other.item<double>()))
      known = holds(what, kFinite, other.item<double>());
  } else if (self.is_floating_point() && arguments[1].isScalar() &&
             !arguments[1].toScalar().isComplex() &&
             !std::isfinite(arguments[1].toScalar().to<double>())) {
    known = holds(what, kFinite, arguments[1].toScalar().to<double>());
  }
  if (known && fill(outputs[0], *known)) {
    tell(signature.name, "finite");
  } else if (arguments[1].isTensor() &&
             (is_answers(arguments[1].toTensor(), outputs[0].toTensor()) ||
              is_answers(self, outputs[0].toTensor()))) {
    note_judged(outputs[0].toTensor());
  }
}

// Elementwise: what is made of judged booleans is judged.
void carry(const Signature&, const Values& arguments, const Values& outputs) {
  for (const c10::IValue& one : arguments)
    if (one.isTensor() && is_judged(one.toTensor())) return note_judged(outputs[0].toTensor());
}

// _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale): found_inf is raised where
// there is an overflow, so it stays as it is, or is 0 if it was not set.
void no_overflow(const Signature& signature, const Values& arguments, const Values&) {
  if (!is_known(arguments[1].toTensor())) fill(arguments[1], 0);
  tell(signature.name, "no overflow");
}

// copy_(self, src): the values are those of the source, of which a conversion too is made.
void carry_copy(const Signature&, const Values& arguments, const Values&) {
  const at::Tensor to = arguments[0].toTensor(), from = arguments[1].toTensor();
  if (is_judged(from)) note_judged(to);
  if (const auto floats = floats_below(from); floats && to.scalar_type() == from.scalar_type())
    note_floats(to, *floats);
}

void balanced(const at::Tensor& indices, std::int64_t choices, std::int64_t dim,
              const std::string& name) {
  if (!sizes().balanced || choices == 0 || indices.numel() == 0 || !within_limit(indices)) return;
  const at::Tensor last =
      indices.dim() == 0 ? host_alias(indices).view({1}) : host_alias(indices).movedim(dim, -1);
  last.copy_(at::arange(indices.numel(), at::kLong).remainder_(choices).view(last.sizes()));
  mark(indices, true);
  tell(name, "balanced");
}
// (self, k, dim, ...) or (self, stable, dim, descending) -> (values, indices)
void topk(const Signature& signature, const Values& arguments, const Values& outputs) {
  const at::Tensor self = arguments[0].toTensor();
  const std::int64_t dim = arguments[2].toInt();
  if (self.dim() > 0) balanced(outputs[1].toTensor(), self.size(dim), dim, signature.name);
}
// (self, dim, keepdim) -> (values, indices): one index of each row, the rows in turn
void extreme(const Signature& signature, const Values& arguments, const Values& outputs) {
  const at::Tensor self = arguments[0].toTensor(), indices = outputs.back().toTensor();
  if (self.dim() == 0) return;
  const std::int64_t choices =
      arguments[1].isNone() ? self.numel() : self.size(arguments[1].toInt());
  balanced(indices, choices, -1, signature.name);
}
void multinomial(const Signature& signature, const Values& arguments, const Values& outputs) {
  balanced(outputs[0].toTensor(), arguments[0].toTensor().size(-1), -1, signature.name);
}

// Number of true bools in a row: the part that TIDEMARK_SIZES says.
void count(const Signature& signature, const Values& arguments, const Values& outputs) {
  const at::Tensor self = arguments[0].toTensor(), output = outputs[0].toTensor();
  if (output.numel() == 0) return;
  if (self.scalar_type() == at::kBool) {
    if (const auto chosen = chosen_of(self.numel() / output.numel())) {
      if (fill(outputs[0], *chosen)) tell(signature.name, "a part of the elements");
      return;
    }
  }
  // How many answers are right: none, as each single boolean is False.
  if (output.numel() == 1 && is_judged(self) && fill(outputs[0], 0))
    tell(signature.name, "0 right answers");
}

// (tensors, dim): a part of the result has what is known of its tensor, as after a copy. Where the
// parts lie in one piece each.
void cat(const Signature&, const Values& arguments, const Values& outputs) {
  const at::Tensor result = outputs[0].toTensor();
  if (result.numel() == 0 || !result.is_contiguous()) return;
  const std::int64_t dim = at::maybe_wrap_dim(arguments[1].toInt(), result.dim());
  if (c10::multiply_integers(result.sizes().slice(0, static_cast<std::size_t>(dim))) != 1) return;
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  for (const at::Tensor& part : arguments[0].toTensorVector()) {
    const auto bytes = static_cast<std::size_t>(part.numel()) * result.element_size();
    if (part.is_contiguous() && part.scalar_type() == result.scalar_type() && bytes > 0)
      device.copy_known(to, part.const_data_ptr(), bytes);
    to += bytes;
  }
}
void cat_with_origin(const Signature& signature, const Values& arguments, const Values& outputs) {
  cat(signature, arguments, outputs);
  std::optional<at::ScalarType> type;
  for (const at::Tensor& part : arguments[0].toTensorVector()) {
    const auto floats = floats_below(part);
    if (!floats && !is_known(part)) return;
    if (floats) type = type && *type != *floats ? at::kFloat : *floats;
  }
  if (type) note_floats(outputs[0].toTensor(), *type);
}

}  // namespace

void tell(const std::string& operation, const std::string& answer, bool decides) {
  if (auto* const listening = listener.load())
    listening(operation.c_str(), answer.c_str(), decides);
}

Policy policy(const std::string& name) {
  static const auto* table = [] {
    auto* made = new std::unordered_map<std::string, Policy>{
        {"aten::_amp_foreach_non_finite_check_and_unscale_", no_overflow},
        {"aten::cat", cat_with_origin},
        {"aten::copy_", carry_copy},
        {"aten::isnan", none},
        {"aten::isposinf", none},
        {"aten::isneginf", none},
        {"aten::topk", topk},
        {"aten::sort.stable", topk},
        {"aten::max.dim", extreme},
        {"aten::min.dim", extreme},
        {"aten::argmax", extreme},
        {"aten::argmin", extreme},
        {"aten::multinomial", multinomial},
        {"aten::sum", count},
        {"aten::sum.dim_IntList", count},
        {"aten::count_nonzero.dim_IntList", count}};
    for (const char* name :
         {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_not", "logical_and", "logical_or",
          "logical_not", "mul.Tensor", "clone", "where.self", "masked_fill.Scalar"})
      (*made)[std::string("aten::") + name] = carry;
    for (const char* overload :
         {"", ".dim", ".dims", ".out", ".dims_out", ".all_out", ".any_out"}) {
      (*made)[std::string("aten::all") + overload] = all;
      (*made)[std::string("aten::any") + overload] = any;
    }
    for (const char* what : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      for (const char* overload : {".Tensor", ".Scalar", ".Tensor_out", ".Scalar_out"})
        (*made)[std::string("aten::") + what + overload] = compare;
    }
    return made;
  }();
  const auto entry = table->find(name);
  return entry == table->end() ? nullptr : entry->second;
}

std::optional<std::int64_t> chosen_of(std::int64_t elements) {
  if (!sizes().part) return std::nullopt;
  return static_cast<std::int64_t>(*sizes().part / 100 * static_cast<double>(elements));
}

void read_sizes() {
  Sizes read;
  const char* value = std::getenv("TIDEMARK_SIZES");
  const std::string text = value ? value : "";
  for (std::size_t at = 0; at < text.size();) {
    const std::string word = text.substr(at, text.find(',', at) - at);
    at += word.size() + 1;
    char* end = nullptr;
    const double part = std::strtod(word.c_str(), &end);
    if (word == "balanced") {
      read.balanced = true;
    } else if (end != word.c_str() && std::string(end) == "%" && part >= 0 && part <= 100) {
      read.part = part;
    } else {
      throw std::runtime_error("TIDEMARK_SIZES=" + text + ": balanced, N% (0 to 100), or both");
    }
  }
  sizes() = read;
}

void refuse_size(const std::string& operation) {
  refuse<c10::Error>("the size of ", operation, " depends on values that are not known",
                     how_to_say());
}

at::Scalar answer_item(at::ScalarType type) {
  if (at::isComplexType(type)) return c10::complex<double>(kFinite, 0);
  if (at::isFloatingType(type)) return kFinite;
  if (type != at::kBool)
    refuse<c10::Error>("a value of type ", type,
                       " that is not known is read on the host (mode known)", how_to_say());
  return false;
}

void answer_bytes(const std::string& operation, const at::Tensor& to, at::ScalarType floats) {
  const auto size = static_cast<std::int64_t>(c10::elementSize(floats));
  const at::Tensor bytes = at::empty({to.numel()}, to.options().dtype(at::kByte));
  const at::Tensor whole = bytes.narrow(0, 0, to.numel() / size * size);
  bytes.zero_();
  if (whole.numel() > 0) whole.view(floats).fill_(kFinite);
  to.copy_(bytes.view(to.scalar_type()).view(to.sizes()));
  tell(operation, "the bytes of 1.0");
}

void answer_copy(const std::string& operation, const at::Tensor& to, at::ScalarType type) {
  const at::Scalar value = answer_item(type);
  tell(operation, type == at::kBool ? "False" : "1.0", type == at::kBool);
  // Programs offload gigabytes to pinned memory: only its first pages are written, the others
  // become zero and take no memory.
  constexpr std::size_t kWritten = 64 << 10;
  if (to.nbytes() <= (std::size_t{1} << 20) || !to.is_contiguous() || !to.is_pinned()) {
    to.fill_(value);
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(to.mutable_data_ptr());
  const std::uintptr_t end = begin + to.nbytes();
  const std::uintptr_t first =
                           (begin + kWritten + device::kPage - 1) / device::kPage * device::kPage,
                       last = end / device::kPage * device::kPage;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  const auto head = static_cast<std::int64_t>((first - begin) / to.element_size());
  const auto tail = static_cast<std::int64_t>((last - begin) / to.element_size());
  const at::Tensor flat = to.view({-1});
  flat.narrow(0, 0, head).fill_(value);
  flat.narrow(0, tail, flat.numel() - tail).fill_(value);
}

}  // namespace tidemark::operators

extern "C" [[gnu::visibility("default")]] void tidemark_layer_on_event(
    void (*event)(const char* operation, const char* answer, int decides)) {
  tidemark::operators::listener = event;
}
