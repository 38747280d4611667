// Scalars above 2^63 - 1. The stack of a boxed kernel has int64 alone, so these operators have an
// unboxed kernel before theirs, which takes such a number as the int64 of the same bits.
#include "harness/virtual/operators/kernels.h"

namespace tidemark::operators {
namespace {

bool is_beyond_stack(const at::Scalar& value) {
  return value.isIntegral(false) && !value.isSymbolic() && value.type() == at::kUInt64 &&
         value.toUInt64() > static_cast<std::uint64_t>(INT64_MAX);
}

class Before : public c10::OperatorKernel {
 public:
  Before(const c10::OperatorHandle& op, Kernel kernel) : op_(op), kernel_(std::move(kernel)) {}

 protected:
  c10::OperatorHandle op_;
  Kernel kernel_;
};

struct Fill final : Before {
  using Before::Before;
  at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& self, const at::Scalar& value) {
    if (!is_beyond_stack(value)) return call(keys, self, value);
    const std::uint64_t number = value.toUInt64();
    if (self.scalar_type() != at::kUInt64)  // of other types the value is that of the double
      return call(keys, self,
                  c10::isIntegralType(self.scalar_type(), true)
                      ? at::Scalar(static_cast<std::int64_t>(number))
                      : at::Scalar(static_cast<double>(number)));
    at::Tensor bits = self.view(at::kLong);
    call(keys, bits, static_cast<std::int64_t>(number));
    return self;
  }

 private:
  at::Tensor& call(c10::DispatchKeySet keys, at::Tensor& self, const at::Scalar& value) {
    return kernel_.call<at::Tensor&, at::Tensor&, const at::Scalar&>(op_, keys, self, value);
  }
};

struct Read final : Before {
  using Before::Before;
  at::Scalar operator()(c10::DispatchKeySet keys, const at::Tensor& self) {
    if (self.scalar_type() != at::kUInt64) return call(keys, self);
    return static_cast<std::uint64_t>(call(keys, self.view(at::kLong)).toLong());
  }

 private:
  at::Scalar call(c10::DispatchKeySet keys, const at::Tensor& self) {
    return kernel_.call<at::Scalar, const at::Tensor&>(op_, keys, self);
  }
};

template <class Functor>
Kernel before(const c10::OperatorHandle& op, Kernel kernel) {
  return Kernel::makeFromUnboxedFunctor<false, Functor>(
      std::make_unique<Functor>(op, std::move(kernel)));
}

}  // namespace

Kernel with_unsigned(const c10::OperatorHandle& op, Kernel kernel) {
  const std::string name = c10::toString(op.operator_name());
  if (name == "aten::fill_.Scalar") return before<Fill>(op, std::move(kernel));
  if (name == "aten::_local_scalar_dense") return before<Read>(op, std::move(kernel));
  return kernel;
}

}  // namespace tidemark::operators
