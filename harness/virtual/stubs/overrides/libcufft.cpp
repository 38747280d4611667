// Plans of cuFFT by their sizes, as PyTorch makes them (its own allocations for the work area).
// Numbers are those of the operators' CPU kernels (mode math); a transform costs 5 n log2 n flops.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/library_call.h"
#include "harness/virtual/device/modelled.h"

namespace {

// cufftResult and cudaDataType, as far as they are used.
enum Status {
  success = 0,
  invalid_plan = 1,
  invalid_type = 3,
  invalid_value = 4,
  invalid_size = 8
};
enum Type {
  real_float = 0,
  real_double = 1,
  real_half = 2,
  complex_float = 4,
  complex_double = 5,
  complex_half = 6
};

struct Plan {
  tidemark::device::StreamHandle stream = nullptr;
  tidemark::device::Cost cost = {};
  std::size_t work = 0;
  bool has_work = false;
};
struct Plans {
  std::mutex mutex;
  std::map<int, Plan> all;
  int last = 0;
};
Plans& plans() { return tidemark::device::immortal<Plans>(); }

template <class Use>
int with_plan(int number, Use use) {
  const std::lock_guard lock(plans().mutex);
  const auto plan = plans().all.find(number);
  return plan == plans().all.end() ? invalid_plan : use(plan->second);
}

std::size_t bytes_of(int type) {
  switch (type) {
    case complex_double:
      return 16;
    case real_double:
    case complex_float:
      return 8;
    case real_float:
    case complex_half:
      return 4;
    case real_half:
      return 2;
    default:
      return 0;
  }
}

// One dimension of up to 4,096 elements is one kernel without a work area, as 141 of 153 recorded
// plans on an H100 show (reports/measured/h100-80g/asked.jsonl.xz). Others store their complex
// elements once in between, which is the least that cuFFT's documentation names.
std::size_t work_of(int rank, const long long* sizes, double elements, int execution) {
  if (rank == 1 && sizes[0] <= 4096) return 0;
  return static_cast<std::size_t>(elements) * bytes_of(execution);
}

}  // namespace

STUB(int, cufftCreate)(int* number) {
  if (!number) return invalid_value;
  const std::lock_guard lock(plans().mutex);
  plans().all[*number = ++plans().last] = {};
  return success;
}
STUB(int, cufftDestroy)(int number) {
  const std::lock_guard lock(plans().mutex);
  return plans().all.erase(number) == 1 ? success : invalid_plan;
}
STUB(int, cufftSetAutoAllocation)(int number, int) {
  return with_plan(number, [](Plan&) { return success; });
}
STUB(int, cufftSetStream)(int number, tidemark::device::StreamHandle stream) {
  return with_plan(number, [&](Plan& plan) { return plan.stream = stream, success; });
}
STUB(int, cufftSetWorkArea)(int number, void* area) {
  return with_plan(number, [&](Plan& plan) { return plan.has_work = area != nullptr, success; });
}
STUB(int, cufftXtMakePlanMany)
(int number, int rank, const long long* sizes, const long long*, long long, long long, int input,
 const long long*, long long, long long, int output, long long batch, std::size_t* work,
 int execution) {
  if (rank < 1 || rank > 3 || !sizes || !work) return invalid_value;
  if (bytes_of(input) == 0 || bytes_of(output) == 0 || bytes_of(execution) == 0)
    return invalid_type;
  double elements = static_cast<double>(batch);
  for (int i = 0; i < rank; ++i) elements *= static_cast<double>(sizes[i]);
  if (elements < 1) return invalid_size;
  return with_plan(number, [&](Plan& plan) {
    plan.work = tidemark::device::modelled("cuFFT", work_of(rank, sizes, elements, execution));
    plan.cost = {
        .flops = 5 * elements * std::log2(std::max(elements / static_cast<double>(batch), 2.0)),
        .number = bytes_of(execution) == 16 ? tidemark::device::Number::f64
                                            : tidemark::device::Number::f32,
        .bytes = elements * static_cast<double>(bytes_of(input) + bytes_of(output))};
    *work = plan.work;
    return static_cast<int>(success);
  });
}
STUB(int, cufftXtExec)(int number, void* from, void* to, int) {
  if (!from || !to) return invalid_value;
  Plan used;
  if (const int status = with_plan(number, [&](const Plan& plan) { return used = plan, success; }))
    return status;
  if (used.work > 0 && !used.has_work) return invalid_value;
  if (tidemark::device::refused("cufftXtExec")) return not_supported;
  tidemark::device::enqueue(used.stream, "cufft transform", used.cost);
  return success;
}
