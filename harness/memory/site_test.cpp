// The site of a stack, as PyTorch's wheels, Windows and programs in C++ record stacks.
#include "harness/memory/site.h"

#include <gmock/gmock.h>

namespace tidemark {
namespace {

/// Innermost first, below what every stack of a wheel begins with (stacks="all", the default).
std::string site(std::vector<StackFrame> frames) {
  frames.insert(frames.begin(),
                {{"torch::unwind::unwind()", "??"},
                 {"torch::CapturedTraceback::gather(bool, bool, bool)", "??"},
                 {"torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"},
                 {"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc()",
                  "CUDACachingAllocator.cpp"},
                 {"void at::native::gpu_reduce_kernel<float>()", "tmpxft_6_Sum.cudafe1.cpp"}});
  Snapshot s;
  s.frames = std::move(frames);
  auto& stack = s.stacks.emplace_back();
  for (std::uint32_t i = 0; i < s.frames.size(); ++i) stack.push_back(i);
  return site_of(s, 1);
}

const StackFrame kEngine{"torch::autograd::Engine::evaluate_function(GraphTask&)", "??"};
const StackFrame kCall{"_PyObject_MakeTpCall", "/tmp/Python-3.11.7/Objects/call.c", 214};

TEST(Site, IsTheInnermostPythonFrameOfTheUser) {
  EXPECT_EQ("forward model.py:5",
            site({kCall,
                  {"forward", "/venv/torch/nn/modules/linear.py", 134},
                  {"_PyEval_EvalFrameDefault", "/tmp/Python-3.11.7/Python/ceval.c", 4769},
                  {"__libc_start_call_main", "./csu/../libc-start.c", 58},
                  {"forward", "/x/model.py", 5},
                  {"<module>", "/x/train.py", 9}}));
  EXPECT_EQ("<module> <stdin>:3", site({kCall, {"<module>", "<stdin>", 3}}));
}

TEST(Site, OfPythonsOwnModulesIsTheirCaller) {
  const StackFrame caller{"copy", "/x/train.py", 9};
  for (const char* folder : {"/usr/lib/python3.11/", "/usr/lib64/python3.13/"})
    EXPECT_EQ("copy train.py:9",
              site({{"deepcopy", std::string(folder) + "copy.py", 153}, caller}));
  EXPECT_EQ("merge model.py:5",
            site({{"merge", "/usr/lib/python3.11/site-packages/lora/model.py", 5}, caller}));
  EXPECT_EQ("forward linear.py:134", site({{"forward", "/x/torch/nn/modules/linear.py", 134},
                                           {"run", "/usr/lib/python3.11/threading.py", 982}}));
}

// Autograd's function around a DDP model clones its outputs; buckets come from other functions.
TEST(Site, OutputsOfDdpAreNoBuckets) {
  Snapshot s;
  for (const char* function : {"forward", "_sync_buffers", "_ddp_init_helper"})
    s.stacks.push_back({add_frame(s, {"<genexpr>", "/v/torch/nn/parallel/distributed.py", 2}),
                        add_frame(s, {function, "/v/torch/nn/parallel/distributed.py", 3}),
                        add_frame(s, {"forward", "/v/torch/nn/parallel/distributed.py", 5}),
                        add_frame(s, {"_call_impl", "/v/torch/nn/modules/module.py", 9})});
  EXPECT_FALSE(kind_of_library(s, s.stacks[1]));
  EXPECT_EQ(kind_of_library(s, s.stacks[2]), MemoryKind::sharding_buffers);
  EXPECT_EQ(kind_of_library(s, s.stacks[3]), MemoryKind::sharding_buffers);
}

TEST(Site, IsInTheUsersOwnFolderNamedLikePyTorchs) {
  Snapshot s;
  for (const char* file : {"/x/torch/optim/soap.py", "/venv/torch/nn/modules/module.py"})
    s.stacks.push_back({add_frame(s, {"f", file, 3})});
  EXPECT_EQ("f soap.py:3", site_of(s, 1));
  EXPECT_EQ("", file_of_torch(s, s.frames[0]));
  EXPECT_EQ("nn/modules/module.py", file_of_torch(s, s.frames[1]));
  EXPECT_FALSE(kind_of_library(s, s.stacks[1]));
  EXPECT_EQ("f module.py:3",
            site({{"f", "/a/site-packages/gluonts/torch/module.py", 3}, {"g", "/x/train.py", 1}}));
  EXPECT_EQ("g train.py:1", site({{"f", "/y/torch/v/site-packages/torch/nn/functional.py", 3},
                                  {"g", "/x/train.py", 1}}));
}

TEST(Site, OfAPipelineIsWhatMicrobatchesArriveInOrGave) {
  Snapshot s;
  const auto kind = [&](const char* function, const char* file) {
    std::vector<std::uint32_t> stack;
    for (const StackFrame& frame :
         {StackFrame{function, std::string("/v/site-packages/torch/") + file, 7},
          {"step", "/v/site-packages/torch/distributed/pipelining/schedules.py", 9},
          {"train", "/x/train.py", 1}})
      stack.push_back(add_frame(s, frame));
    return kind_of_library(s, stack);
  };
  for (const char* file : {"distributed/pipelining/stage.py", "distributed/pipelining/_utils.py"})
    EXPECT_EQ(MemoryKind::receive_buffers, kind("_make_tensor_from_meta", file));
  EXPECT_EQ(MemoryKind::outputs, kind("merge_chunks", "distributed/pipelining/microbatch.py"));
  EXPECT_FALSE(kind("forward_one_chunk", "distributed/pipelining/stage.py"));
  EXPECT_FALSE(kind("merge_chunks", "utils/data.py"));
}

TEST(Site, IsOutsideWhatStandsBeforeEveryOperator) {
  const StackFrame before{"__torch_function__", "/x/types.py", 5}, line{"step", "/x/train.py", 9};
  EXPECT_EQ("step train.py:9", site({before, line}));
  EXPECT_EQ("__torch_function__ types.py:5", site({before}));
}

TEST(Site, OnWindowsHasNoFolderEither) {
  EXPECT_EQ("silu model.py:5", site({{"einsum", R"(D:\a\site-packages\torch\functional.py)", 373},
                                     {"silu", R"(D:\a\model.py)", 5}}));
}

TEST(Site, OfBackwardIsTheNode) {
  const auto node = [](const std::string& function) {
    return site({{"torch::autograd::VariableType::mm()", "VariableType_3.cpp"},
                 {function + "(std::vector<at::Tensor>&&)", "??"},
                 kEngine,
                 {"start_thread", "./nptl/pthread_create.c", 442}});
  };
  EXPECT_EQ("MmBackward0", node("torch::autograd::generated::MmBackward0::apply"));
  EXPECT_EQ("AccumulateGrad", node("torch::autograd::AccumulateGrad::apply"));
  EXPECT_EQ("MyFunction", node("torch::autograd::CppNode<MyFunction>::apply"));
  EXPECT_EQ("autograd's engine", node("torch::autograd::InputMetadata::reduce_grad"));
  EXPECT_EQ("backward model.py:7",
            site({{"backward", "/x/model.py", 7},
                  {"torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", "??"},
                  kEngine}))
      << "a torch.autograd.Function of the user";
}

TEST(Site, OfWhatTorchCompileWroteIsItsCaller) {
  const StackFrame written{"call", "/tmp/torchinductor_me/ab/cab.py", 40},
      runtime{"backward", "/venv/torch/_functorch/runtime_wrappers.py", 2000};
  EXPECT_EQ("step train.py:3", site({written, runtime, {"step", "/x/train.py", 3}}));
  const StackFrame elsewhere{
      "call", "/cache/mf/cmfbre3vzzr2wrgn2ijxubmnkpb7bu2ckdicb7mgq3p6g3re4zb5.py", 932};
  EXPECT_EQ("step train.py:3", site({elsewhere, runtime, {"step", "/x/train.py", 3}}));
  for (const char* file :
       {"<eval_with_key>.3", "<eval_with_key>.19 from /venv/torch/fx/proxy_tensor.py:1580 in wrap"})
    EXPECT_EQ("step train.py:3",
              site({{"forward", file, 13}, runtime, {"step", "/x/train.py", 3}}));
  EXPECT_EQ("backward runtime_wrappers.py:2000",
            site({written, runtime, {"torch::autograd::PyNode::apply()", "??"}}));
}

TEST(Site, OfAProgramInCppIsItsOwnFrame) {
  EXPECT_EQ("step() program.cpp:12", site({{"at::empty", "/x/torch/lib/libtorch.so"},
                                           {"step()", "/y/program.cpp", 12},
                                           {"main", "/y/main.cpp", 3}}));
}

}  // namespace
}  // namespace tidemark
