// Every operator of the tables: math, and known where it knows everything, equals the plain CPU
// operator in values, strides, dtype and aliasing, and allocates on the device, entry by entry,
// what shapes does.
#include "harness/virtual/operators/sweep.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/virtual/operators/poison.h"
#include "harness/virtual/operators/testing.h"

namespace tidemark::operators {

at::Generator& inputs_generator() {
  static at::Generator generator = at::detail::createCPUGenerator(11);
  return generator;
}
at::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, inputs_generator()); }
at::Tensor unit(at::IntArrayRef sizes) { return at::rand(sizes, inputs_generator()) * 0.98 + 0.01; }
at::Tensor below(std::int64_t n, at::IntArrayRef sizes) {
  return at::randint(0, n, sizes, inputs_generator(), at::kLong);
}
void add(std::vector<Case>& cases, const char* name, Tensors inputs,
         std::function<Tensors(const Tensors&)> run, bool values, bool vary) {
  cases.push_back({name, std::move(inputs), std::move(run), values, vary});
}

at::Tensor flags(at::IntArrayRef sizes) { return at::rand(sizes, inputs_generator()) < 0.5; }

namespace {
namespace allocator = c10::cuda::CUDACachingAllocator;
using testing::AnyOf, testing::HasSubstr;

struct Event {
  int action;
  std::size_t address, size;
  bool operator==(const Event&) const = default;
};
std::vector<Event>* recording = nullptr;

struct Outcome {
  std::string error;
  Tensors inputs, outputs;
};

// Copies the tensor to another device, in memory of the same layout.
at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  at::Tensor copy =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
  return copy.copy_(tensor);
}

Outcome run(const Case& c, at::Device device) {
  Outcome outcome;
  for (const at::Tensor& input : c.inputs) outcome.inputs.push_back(moved(input, device));
  try {
    outcome.outputs = c.run(outcome.inputs);
  } catch (const std::exception& error) {
    outcome.error = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
  return outcome;
}

std::vector<Event> trace_of(const Case& c, Outcome* outcome) {
  allocator::emptyCache();
  std::vector<Event> events;
  recording = &events;
  Outcome own = run(c, at::Device(c10::kCUDA, 0));
  recording = nullptr;
  if (outcome) *outcome = std::move(own);
  return events;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.resolve_conj().resolve_neg().contiguous(),
                   y = b.resolve_conj().resolve_neg().contiguous();
  return x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Which of a case's tensors share memory.
std::vector<bool> aliasing(const Outcome& outcome) {
  Tensors all = outcome.inputs;
  all.insert(all.end(), outcome.outputs.begin(), outcome.outputs.end());
  std::vector<bool> pairs;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      pairs.push_back(all[i].numel() > 0 && all[i].is_alias_of(all[j]));
  return pairs;
}

// True where CUDA by its own design gives other strides than the CPU.
bool strides_differ(const std::string& name) {
  return name == "native_batch_norm/strided" || name == "native_batch_norm.eval/strided" ||
         name == "log_sigmoid/strided";
}
// Statistics of half-precision normalisations: CUDA keeps them in float.
bool widened(const std::string& name, std::size_t output) {
  return output > 0 && name.rfind("native_", 0) == 0 && name.find("_norm") != std::string::npos;
}

// The layer sums the squares in double, where the CPU sums them in float: each of n additions
// rounds by half a unit at most, and so do the root and the result.
double slack(const Case& c, const at::Tensor& expected) {
  if (c.name.find("vector_norm") == std::string::npos &&
      c.name.find("cosine_similarity") == std::string::npos &&
      c.name.find("foreach_norm") == std::string::npos)
    return 0;
  std::int64_t most = 0;
  for (const at::Tensor& input : c.inputs) most = std::max(most, input.numel());
  const double unit = expected.scalar_type() == at::kBFloat16 ? 0x1p-8 : 0x1p-24;
  return expected.scalar_type() == at::kBFloat16 ? 2 * unit : static_cast<double>(most + 2) * unit;
}

void compare(const Case& c, const Outcome& cpu, const Outcome& cuda) {
  ASSERT_EQ(cpu.outputs.size(), cuda.outputs.size());
  const auto one = [&](const at::Tensor& expected, at::Tensor measured, const std::string& which,
                       bool wide) {
    if (wide && measured.scalar_type() == at::kFloat)
      measured = measured.to(expected.scalar_type());
    if (wide && expected.numel() == 0) return;
    EXPECT_EQ(expected.sizes(), measured.sizes()) << which;
    EXPECT_EQ(expected.dtype(), measured.dtype()) << which;
    if (!strides_differ(c.name) && expected.numel() > 0) {
      EXPECT_EQ(expected.strides(), measured.strides()) << which;
    }
    if (c.values && expected.sizes() == measured.sizes() && expected.dtype() == measured.dtype()) {
      const at::Tensor on_host = measured.to(at::kCPU);
      const double relative = slack(c, expected);
      const bool same = relative > 0 ? at::allclose(expected, on_host, relative, 0)
                                     : same_bits(expected, on_host);
      EXPECT_TRUE(same) << which << "\nexpected\n" << expected << "\nmeasured\n" << on_host;
    }
  };
  for (std::size_t i = 0; i < cpu.outputs.size(); ++i)
    one(cpu.outputs[i], cuda.outputs[i], "output " + std::to_string(i), widened(c.name, i));
  for (std::size_t i = 0; i < cpu.inputs.size(); ++i)
    one(cpu.inputs[i], cuda.inputs[i], "input " + std::to_string(i), false);
  EXPECT_EQ(aliasing(cpu), aliasing(cuda)) << "aliasing";
}

at::Tensor non_contiguous(const at::Tensor& tensor) {
  return tensor.dim() < 2 ? tensor : tensor.transpose(0, -1).contiguous().transpose(0, -1);
}
at::Tensor narrowed(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? tensor.to(at::kBFloat16) : tensor;
}
at::Tensor emptied(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? tensor : tensor.narrow(0, 0, 0);
}

Case variant(const Case& c, const char* suffix, at::Tensor (*change)(const at::Tensor&)) {
  Case other = c;
  other.name += suffix;
  for (at::Tensor& input : other.inputs) input = change(input);
  return other;
}

bool has_bf16() {
  const auto op =
      c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
  return op && op->typed<bool()>().call();
}
at::Tensor in_float(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

// The CPU's results. The layer rounds a product in bf16 with its activation once if this CPU has no
// instructions for bf16 (matmul.cpp); the CPU also rounds the sum before the activation.
Outcome cpu_results(const Case& c) {
  Outcome cpu = run(c, at::Device(c10::kCPU));
  if (c.name == "_addmm_activation/bf16" && !has_bf16())
    cpu.outputs = {narrowed(run(variant(c, "", in_float), at::Device(c10::kCPU)).outputs.at(0))};
  return cpu;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (auto table : {pointwise_cases, reduction_cases, indexing_cases, network_cases, list_cases,
                     host_value_cases}) {
    for (Case& c : table()) {
      if (c.vary) {
        cases.push_back(variant(c, "/strided", non_contiguous));
        cases.push_back(variant(c, "/bf16", narrowed));
        // PyTorch's own kernels of these divide by zero, read nothing's memory or launch no block.
        static const std::set<std::string> never_empty{
            "native_batch_norm_backward", "multi_margin_loss", "weight_norm", "embedding_renorm_"};
        if (!never_empty.count(c.name)) cases.push_back(variant(c, "/empty", emptied));
      }
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

class Sweep : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    at::set_num_threads(1);
    allocator::attachAllocatorTraceTracker([](const allocator::TraceEntry& entry) {
      if (recording)
        recording->push_back({static_cast<int>(entry.action_), entry.addr_, entry.size_});
    });
  }
};

struct Run {
  std::string error;
  std::vector<Event> trace;
};

// Each case in math, where the CPU has it for this dtype and this size.
std::vector<std::optional<Run>> runs_in_math(const std::vector<Case>& cases) {
  std::vector<std::optional<Run>> runs(cases.size());
  enter("math");
  std::vector<bool> on_cpu;
  for (const Case& c : cases) on_cpu.push_back(run(c, at::Device(c10::kCPU)).error.empty());
  for (const bool warm : {false, true})  // a cuBLAS workspace is taken once and kept
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (!on_cpu[i]) continue;
      Outcome math;
      auto trace = trace_of(cases[i], &math);
      if (warm) runs[i] = {math.error, std::move(trace)};
    }
  return runs;
}

// holds: harness/virtual/README.md, Numbers
TEST_F(Sweep, MathAllocatesWhatShapesDoes) {
  const std::vector<Case> cases = all_cases();
  const auto runs = runs_in_math(cases);
  enter("shapes");
  std::size_t same = 0, refused = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!runs[i]) continue;
    SCOPED_TRACE(cases[i].name);
    Outcome shapes;
    const std::vector<Event> trace = trace_of(cases[i], &shapes);
    if (!runs[i]->error.empty() || shapes.error.empty()) {
      EXPECT_EQ(runs[i]->error, shapes.error) << "math refuses what CUDA does not";
      EXPECT_TRUE(trace == runs[i]->trace)
          << "another allocation in math than in shapes: " << runs[i]->trace.size() << " events, "
          << trace.size();
      ++same;
    } else {  // refused by name: it needs values
      EXPECT_THAT(
          shapes.error,
          AnyOf(HasSubstr("depends on values that this mode does not compute"),
                HasSubstr("in shapes there is none"), HasSubstr("in shapes it has no values"),
                HasSubstr("is not finite")));  // histc of its own range
      ++refused;
    }
  }
  std::printf("%zu equal traces, %zu refused in shapes\n", same, refused);
  EXPECT_GE(same, 900u);
  EXPECT_LE(refused, 125u);
  enter("off");
}

// Small tensors that come from the host are known, and so is all that is made of them: what is not
// would arrive as ones. Where the CPU kernel is missing or refuses, nothing is known of the result.
TEST_F(Sweep, KnownEqualsTheCpuAndAllocatesWhatMathDoes) {
  const std::vector<Case> cases = all_cases();
  const auto runs = runs_in_math(cases);
  enter("known");
  std::size_t compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!runs[i]) continue;
    SCOPED_TRACE(cases[i].name);
    Outcome known;
    const auto trace = trace_of(cases[i], &known);
    EXPECT_EQ(runs[i]->error, known.error);
    EXPECT_TRUE(runs[i]->trace == trace) << "another allocation in known than in math";
    if (!known.error.empty()) continue;
    compare(cases[i], cpu_results(cases[i]), known);
    ++compared;
  }
  EXPECT_GE(compared, 900u);
  enter("off");
}

std::size_t policy_answers = 0;

// Nothing that is known depends on what is not: with one input unknown, every byte of the results
// that counts as known is the same whatever that input's memory holds. And it is the CPU's, where
// no policy was asked: what an operator would have written is not known with its old value.
TEST_F(Sweep, KnownBytesDoNotDependOnUnknownBytes) {
  enter("known");
  tidemark_layer_on_event([](const char*, const char*, int) { ++policy_answers; });
  std::size_t ran = 0, unknown_results = 0;
  const auto known_bytes = [](const at::Tensor& tensor) {
    std::vector<int> bytes;
    if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != c10::kStrided) return bytes;
    const auto* memory = static_cast<const unsigned char*>(tensor.storage().data());
    for (std::size_t i = 0; memory && i < tensor.storage().nbytes(); ++i)
      bytes.push_back(tidemark_device_is_known(memory + i, 1) ? memory[i] : -1);
    return bytes;
  };
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const Outcome cpu = cpu_results(c);
    if (!cpu.error.empty()) continue;
    Tensors expected = cpu.outputs;
    expected.insert(expected.end(), cpu.inputs.begin(), cpu.inputs.end());
    for (std::size_t which = 0; which < c.inputs.size(); ++which) {
      if (c.inputs[which].numel() == 0) continue;
      SCOPED_TRACE("input " + std::to_string(which) + " is unknown");
      std::vector<std::vector<std::vector<int>>> pasts;
      std::size_t stale = 0;
      for (const int byte : kPoisons) {
        poison(byte);
        Tensors inputs, outputs;
        at::Generator generator = at::globalContext().defaultGenerator(at::Device(c10::kCUDA, 0));
        generator.set_current_seed(1);
        for (const at::Tensor& input : c.inputs)
          inputs.push_back(moved(input, at::Device(c10::kCUDA, 0)));
        void* memory = inputs[which].storage().mutable_data();
        std::memset(memory, byte, inputs[which].storage().nbytes());
        tidemark_device_mark_known(memory, inputs[which].storage().nbytes(), 0);
        const std::size_t answers_before = policy_answers;
        bool refused = false;
        try {
          outputs = c.run(inputs);
        } catch (const std::exception&) {
          refused = true;
        }
        outputs.insert(outputs.end(), inputs.begin(), inputs.end());
        auto& past = pasts.emplace_back();
        for (const at::Tensor& output : outputs) {
          past.push_back(known_bytes(output));
          const auto& bytes = past.back();
          unknown_results += std::find(bytes.begin(), bytes.end(), -1) != bytes.end();
          const at::Tensor& of_cpu = expected[past.size() - 1];
          if (refused || policy_answers > answers_before || !c.values || !of_cpu.defined() ||
              slack(c, of_cpu) > 0 || of_cpu.storage().nbytes() != bytes.size() ||
              of_cpu.strides() != output.strides() || of_cpu.dtype() != output.dtype() ||
              of_cpu.is_conj() != output.is_conj())
            continue;
          const auto* values = static_cast<const unsigned char*>(of_cpu.storage().data());
          for (std::size_t i = 0; i < bytes.size(); ++i)
            stale += bytes[i] >= 0 && bytes[i] != values[i];
        }
      }
      ++ran;
      EXPECT_EQ(stale, 0u) << "bytes that are known are not the CPU's";
      EXPECT_EQ(pasts[0], pasts[1]);
      EXPECT_EQ(pasts[0], pasts[2]);
    }
  }
  EXPECT_GE(ran, 900u);
  EXPECT_GE(unknown_results, 3 * ran);
  tidemark_layer_on_event(nullptr);
  enter("off");
}

// A result that nobody computed is whatever the memory held: with three pasts at least two differ.
TEST_F(Sweep, MathEqualsTheCpuOverMemoryWithAnyPast) {
  const std::vector<Case> cases = all_cases();
  enter("math");
  std::size_t compared = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Outcome cpu = cpu_results(c);
    if (!cpu.error.empty() && c.vary) continue;
    for (const int byte : kPoisons) {
      poison(byte);
      const Outcome cuda = run(c, at::Device(c10::kCUDA, 0));
      SCOPED_TRACE("memory of " + std::to_string(byte));
      if (!c.vary) EXPECT_EQ(cpu.error, cuda.error.substr(0, cuda.error.find(" (while computing")));
      if (!cuda.error.empty()) continue;  // refused by CUDA itself: in the test above
      compare(c, cpu, cuda);
      ++compared;
    }
  }
  EXPECT_GE(compared, 2700u);
  const auto used =
      nlohmann::json::parse(device::testing::text_of(tidemark_layer_describe))["used"];
  EXPECT_GE(used.size(), 300u);
  std::printf("%zu comparisons, %zu operators\n", compared, used.size());
  enter("off");
}

}  // namespace
}  // namespace tidemark::operators
