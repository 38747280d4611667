// TF32 as PyTorch's host code asks cuBLAS and cuDNN for it. Context::allowTF32CuBLAS() and
// allowTF32CuDNN() throw if a program has set some of it by the settings of before PyTorch 2.9 and
// some by those since; the host code of a product or a convolution reads the newer ones and does
// not.
#pragma once

#include <ATen/Context.h>

namespace tidemark::operators {

enum class Tf32Use { product, convolution };

/// By enumerators, since PyTorch 2.11.
template <class Context, class Precision, class Backend, class Operation>
bool has_tf32(const Context& context, Precision (Context::*of)(Backend, Operation) const,
              Tf32Use use) {
  const Operation operation = use == Tf32Use::product ? Operation::MATMUL : Operation::CONV;
  return (context.*of)(Backend::CUDA, operation) == Precision::TF32;
}

template <class Context>
bool has_tf32(const Context& context, Tf32Use use) {
  const bool product = use == Tf32Use::product;
  if constexpr (requires { context.float32Precision("cuda", "matmul"); })  // since PyTorch 2.9
    return context.float32Precision("cuda", product ? "matmul" : "conv") == "tf32";
  else if constexpr (requires { &Context::float32Precision; })
    return has_tf32(context, &Context::float32Precision, use);
  else
    return product ? context.allowTF32CuBLAS() : context.allowTF32CuDNN();
}

inline bool has_tf32(Tf32Use use) { return has_tf32(at::globalContext(), use); }

}  // namespace tidemark::operators
