#include "harness/virtual/nccl/call.h"

#include <fmt/format.h>

#include <array>

namespace tidemark::nccl {
namespace {

struct Type {
  std::size_t size;
  const char* name;
  const char* in_kernels;
};
constexpr std::array<Type, ncclNumTypes> types{{{1, "int8", "i8"},
                                                {1, "uint8", "u8"},
                                                {4, "int32", "i32"},
                                                {4, "uint32", "u32"},
                                                {8, "int64", "i64"},
                                                {8, "uint64", "u64"},
                                                {2, "float16", "f16"},
                                                {4, "float32", "f32"},
                                                {8, "float64", "f64"},
                                                {2, "bfloat16", "bf16"},
                                                {1, "float8e4m3", "f8e4m3"},
                                                {1, "float8e5m2", "f8e5m2"}}};
constexpr std::array<const char*, 12> functions{
    "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
    "ncclReduce",    "ncclAlltoAll",  "ncclGather",        "ncclScatter",
    "ncclSend",      "ncclRecv",      "ncclCommSplit",     "ncclCommShrink"};
constexpr std::array<const char*, 7> reductions{"sum", "prod",       "max", "min",
                                                "avg", "premul-sum", "none"};
constexpr std::array<const char*, 7> reductions_in_kernels{
    "Sum", "Prod", "MinMax", "MinMax", "SumPostDiv", "PreMulSum", "none"};

std::size_t at(Function function) { return static_cast<std::size_t>(function); }
std::size_t at(Reduction reduction) { return static_cast<std::size_t>(reduction); }

}  // namespace

bool is_collective(Function function) {
  return function != Function::send && function != Function::recv;
}

bool has_root(Function function) {
  return function == Function::broadcast || function == Function::reduce ||
         function == Function::gather || function == Function::scatter;
}

std::size_t size_of(ncclDataType_t type) { return types[static_cast<std::size_t>(type)].size; }
const char* name_of(ncclDataType_t type) { return types[static_cast<std::size_t>(type)].name; }
const char* name_of(Function function) { return functions[at(function)]; }

std::string kernel_name(const Call& call) {
  switch (call.function) {
    case Function::send:
    case Function::recv:
    case Function::all_to_all:
    case Function::gather:
    case Function::scatter:
      return "ncclDevKernel_SendRecv";  // NCCL makes these of sends and receives
    case Function::all_gather:
    case Function::broadcast:
      return fmt::format("ncclDevKernel_{}_RING", name_of(call.function) + 4);
    default:
      return fmt::format("ncclDevKernel_{}_{}_{}_RING", name_of(call.function) + 4,
                         reductions_in_kernels[at(call.reduction)], types[call.type].in_kernels);
  }
}

std::string text_of(const Call& call) {
  if (call.function == Function::split || call.function == Function::shrink)
    return name_of(call.function);
  std::string text =
      fmt::format("{}(count {}, {}", name_of(call.function), call.count, types[call.type].name);
  if (call.reduction != Reduction::none)
    text += fmt::format(", {}", reductions[at(call.reduction)]);
  if (has_root(call.function)) text += fmt::format(", root {}", call.root);
  if (call.function == Function::send) text += fmt::format(", to {}", call.root);
  if (call.function == Function::recv) text += fmt::format(", from {}", call.root);
  return text + (call.moves_data ? ")" : ", no data)");
}

}  // namespace tidemark::nccl
