// The operator sweep: each case runs on the CPU, and on CUDA in shapes and in math, from the same
// inputs.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace tidemark::operators {

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  Tensors inputs;                              // on the CPU
  std::function<Tensors(const Tensors&)> run;  // may write into its inputs
  bool values = true;  // random: only its shape can be compared with the CPU
  // Also with non-contiguous, empty and bf16 inputs. Else an error of the CPU is CUDA's, too.
  bool vary = true;
};

/// The tables, a file each.
std::vector<Case> pointwise_cases();
std::vector<Case> reduction_cases();
std::vector<Case> indexing_cases();
std::vector<Case> network_cases();
std::vector<Case> list_cases();
std::vector<Case> host_value_cases();

/// Out of line: hundreds of copies of it in one function take a compiler half a minute.
void add(std::vector<Case>& cases, const char* name, Tensors inputs,
         std::function<Tensors(const Tensors&)> run, bool values = true, bool vary = true);

/// Operators by their names in PyTorch's schemas, of these inputs, then these constants, and the
/// defaults of all other arguments. A label may have a word after the name (`lerp.Tensor`).
void add_named(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& labels,
               const std::vector<c10::IValue>& constants = {}, bool values = true,
               bool vary = true);
/// Three forms of each: into a new tensor, in place, into a given tensor.
void add_forms(std::vector<Case>& cases, const Tensors& inputs,
               const std::vector<std::string>& names);

// Rows of the tables, of a function's `cases`: the results of expressions of the inputs t[0], t[1]
// ...; of one that gives a tuple; a call that has none.
#define CALL(label, inputs, ...) \
  add(cases, label, inputs, [](const Tensors& t) -> Tensors { return {__VA_ARGS__}; })
#define TUPLE(label, inputs, expression)                                                     \
  add(cases, label, inputs, [](const Tensors& t) -> Tensors {                                \
    return std::apply([](const auto&... each) -> Tensors { return {each...}; }, expression); \
  })
#define IN_PLACE(label, inputs, ...)    \
  add(                                  \
      cases, label, inputs,             \
      [](const Tensors& t) -> Tensors { \
        __VA_ARGS__;                    \
        return {};                      \
      },                                \
      true, false)
#define IN(...) (Tensors{__VA_ARGS__})

/// Deterministic inputs: normal numbers, numbers in (0, 1), integers in [0, n), booleans.
at::Tensor normal(at::IntArrayRef sizes);
at::Tensor unit(at::IntArrayRef sizes);
at::Tensor below(std::int64_t n, at::IntArrayRef sizes);
at::Tensor flags(at::IntArrayRef sizes);

}  // namespace tidemark::operators

// Hundreds of calls, each made once: to optimise them takes longer than to make them.
#ifdef __clang__
#pragma clang optimize off
#endif
