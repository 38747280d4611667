#include "cases/mistakes.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <dlfcn.h>

#include <memory>
#include <utility>

namespace tidemark::testing {

Now now;

bool is_product(const std::string& name) {
  return name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm";
}

namespace {

// The operators inside a mistake are not its own.
thread_local bool inside = false;

void made(bool mistake) { now.done += mistake ? 1 : 0; }

Tensors tensors_of(const auto& values) {
  Tensors all;
  for (const c10::IValue& value : values) {
    // Without the version that autograd would hold against the mistake.
    if (value.isTensor() && value.toTensor().defined())
      all.push_back(value.toTensor().variable_data());
    if (value.isTensorList())
      for (const at::Tensor& each : value.toTensorVector()) all.push_back(each.variable_data());
  }
  return all;
}

void after_operator(const at::RecordFunction& function) {
  const std::lock_guard lock(now.mutex);
  if (now.mutant == nullptr || !now.mutant->leaves || inside) return;
  const std::string name = function.name();
  const int nth = now.operators[is_product(name) ? "product" : name]++;
  inside = true;
  {
    const at::NoGradGuard no_grad;
    Tensors results = tensors_of(function.outputs());
    made(!results.empty() && now.mutant->leaves(name, nth, results));
  }
  inside = false;
}

// The next definition of the function that is called, in the libraries.
template <class Function>
Function* next_of(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// A reduction as the mutant has it.
struct Reduction {
  std::size_t count;
  ncclRedOp_t how;
  cudaStream_t stream;
  bool left_out = false;
  Reduction(std::size_t count_, ncclRedOp_t how_, cudaStream_t stream_)
      : count(count_), how(how_), stream(stream_) {
    const std::lock_guard lock(now.mutex);
    if (now.mutant != nullptr && now.mutant->reduces)
      made(now.mutant->reduces(now.reductions++, count, how, left_out, stream));
  }
};

class Broken final : public Program {
 public:
  Broken(std::unique_ptr<Program> program, const Mistake& mutant)
      : program_(std::move(program)), mutant_(mutant) {}
  void step(int index, Recorder& recorder) override {
    change(mutant_.before, index);
    {
      const std::lock_guard lock(now.mutex);
      now.mutant = &mutant_;
      now.step = index, now.reductions = now.waits = 0;
      now.operators.clear();
    }
    program_->step(index, recorder);
    {
      const std::lock_guard lock(now.mutex);
      now.mutant = nullptr;
      now.held.clear();
    }
    change(mutant_.after, index);
  }
  std::vector<Shard> parameters() override { return program_->parameters(); }

 private:
  void change(const decltype(Mistake::before)& how, int index) {
    if (!how) return;
    const at::NoGradGuard no_grad;
    Tensors all;
    for (const Shard& each : program_->parameters())
      if (each.values.numel() > 0) all.push_back(each.values.variable_data());
    how(all, index, kept_);
    made(true);
  }
  std::unique_ptr<Program> program_;
  const Mistake& mutant_;
  Tensors kept_;
};

}  // namespace

void follow_operators() {
  static const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; },
          [](const at::RecordFunction& function, at::ObserverContext*) {
            after_operator(function);
          })
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(handle);
}

Scenario broken(const Scenario& scenario, const Mistake& mutant) {
  Scenario out = scenario;
  out.make = [&](const Trial& trial, const Variant& variant, World& world) {
    return std::make_unique<Broken>(scenario.make(trial, variant, world), mutant);
  };
  if (mutant.oracle)
    out.reference = [&](const Trial& trial) {
      Oracle oracle = scenario.reference(trial);
      mutant.oracle(oracle);
      made(true);
      return oracle;
    };
  return out;
}

}  // namespace tidemark::testing

// Found before the libraries' own, as the program's.
extern "C" {

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
  static const auto next = tidemark::testing::next_of("ncclAllReduce", &ncclAllReduce);
  const tidemark::testing::Reduction one(count, how, stream);
  return one.left_out ? ncclSuccess : next(from, to, one.count, type, one.how, comm, one.stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream) {
  static const auto next = tidemark::testing::next_of("ncclReduceScatter", &ncclReduceScatter);
  const tidemark::testing::Reduction one(count, how, stream);
  return one.left_out ? ncclSuccess : next(from, to, one.count, type, one.how, comm, one.stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  static const auto next = tidemark::testing::next_of("cudaStreamWaitEvent", &cudaStreamWaitEvent);
  {
    const std::lock_guard lock(tidemark::testing::now.mutex);
    if (tidemark::testing::now.mutant != nullptr &&
        tidemark::testing::now.mutant->leaves_out_wait) {
      const bool left_out =
          tidemark::testing::now.mutant->leaves_out_wait(tidemark::testing::now.waits++);
      tidemark::testing::made(left_out);
      if (left_out) return cudaSuccess;
    }
  }
  return next(stream, event, flags);
}

}  // extern "C"
