#include "harness/memory/stack_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/memory/site.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

std::string name_of_file(const std::string& path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

/// A file of an optimizer: "my/optimizers/lion.py", "accelerate/optimizer.py", DeepSpeed's.
bool is_of_optimizer(const std::string& path) {
  std::string folder =
      path.substr(0, path.size() - std::min(path.size(), name_of_file(path).size() + 1));
  folder = name_of_file(folder);
  return folder == "optim" || folder == "optimizer" || folder == "optimizers" ||
         has(name_of_file(path), "optim") || has(path, "/deepspeed/runtime/") ||
         has(path, "/deepspeed/ops/adam/");
}

/// A call of a module, and not of its hooks.
bool calls_module(const StackFrame& frame, const std::string& torch) {
  return torch == "nn/modules/module.py" &&
         (has(frame.function, "call_impl") || frame.function == "__call__");
}

}  // namespace

StackReader::StackReader(const Snapshot& snapshot) : s_(snapshot), known_(snapshot.stacks.size()) {
  for (const auto& trace : s_.traces)
    for (const AllocatorEvent& e : trace)
      if (e.action == AllocatorAction::alloc && e.stack != 0 && has_python(e.stack)) {
        python_ = true;
        return;
      }
}

const StackFacts& StackReader::of(std::uint32_t stack) {
  std::optional<StackFacts>& known = known_[stack];
  if (!known) known = facts(stack);
  return *known;
}

bool StackReader::has_python(std::uint32_t stack) const {
  return std::ranges::any_of(s_.stacks[stack],
                             [&](std::uint32_t at) { return is_python(s_.frames[at]); });
}

/// `torch`: the file in PyTorch's package; `within`: the function of the Python frame before.
StackReader::Mark StackReader::mark_of(const StackFrame& f, const std::string& torch,
                                       const std::string& within) const {
  if (!is_python(f))
    return f.function.starts_with("torch::autograd::Engine::") ||
                   f.function.starts_with("torch::autograd::python::PythonEngine::")
               ? Mark::engine
               : Mark::none;
  const auto is = [&](const char* file, const char* function) {
    return torch == file && f.function == function;
  };
  if (calls_module(f, torch)) return Mark::module;
  if (torch == "utils/checkpoint.py" &&
      (has(f.function, "recompute") || has(f.function, "unpack") || f.function == "backward"))
    return Mark::recomputation;
  // An autograd.Function is called by `apply` in both directions.
  constexpr std::array kForwards{"", "forward", "setup_context", "jvp"};
  if (is("autograd/function.py", "apply") &&
      std::ranges::find(kForwards, within) == kForwards.end())
    return Mark::engine;
  if (is("autograd/graph.py", "_engine_run_backward") || is("autograd/__init__.py", "backward") ||
      is("autograd/__init__.py", "grad"))
    return Mark::engine;
  const bool steps = (torch.starts_with("optim/") && !torch.starts_with("optim/lr_")) ||
                     (f.function == "step" && torch.empty() && is_of_optimizer(f.file));
  if (steps && f.function != "zero_grad") return Mark::optimizer;
  return has(torch, "_inductor/") || has(f.file, "/torchinductor_") ? Mark::compiled : Mark::none;
}

StackFacts StackReader::facts(std::uint32_t stack) const {
  StackFacts out;
  const auto& frames = s_.stacks[stack];
  bool python = false, module = false, compiled = false, called = false;
  std::string within;
  std::vector<std::string> calls;  // of modules, from the innermost
  for (const std::uint32_t at : frames) {
    const StackFrame& f = s_.frames[at];
    const std::string torch = file_of_torch(s_, f);
    const bool is_py = is_python(f);
    python |= is_py;
    if (!is_py) out.blas |= has(f.function, "CUDABlas") || has(f.function, "CurrentCUDABlasHandle");
    if (torch == "nn/modules/module.py")
      out.builds |= f.function == "_apply" || f.function == "to_empty";
    out.builds |= torch.starts_with("nn/") && (f.function == "__init__" || torch == "nn/init.py");
    out.builds |= f.function == "reset_parameters";
    out.zeroes |= f.function == "zero_grad";
    if (out.phase == StackPhase::none) {
      const Mark mark = mark_of(f, torch, within);
      if (called && is_py && mark != Mark::module && is_users_python(s_, f))
        calls.push_back(fmt::format("{}:{}", one_line(name_of_file(f.file)), f.line));
      if (is_py) called = mark == Mark::module;
      module |= mark == Mark::module;
      compiled |= mark == Mark::compiled;
      if (mark == Mark::engine || mark == Mark::recomputation) {
        out.phase = StackPhase::backward;
        out.again = mark == Mark::recomputation || module;
      }
      if (mark == Mark::optimizer) out.phase = module ? StackPhase::forward : StackPhase::optimizer;
    }
    if (is_py) within = f.function;
  }
  if (out.phase == StackPhase::none) {
    if (module || compiled)
      out.phase = StackPhase::forward;
    else if (!python && python_)
      out.phase = StackPhase::backward;
  }
  std::ranges::reverse(calls);
  out.module = fmt::format("{}", fmt::join(calls, " > "));
  out.library = kind_of_library(s_, frames);
  return out;
}

}  // namespace tidemark
