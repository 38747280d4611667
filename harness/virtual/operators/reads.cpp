#include "harness/virtual/operators/reads.h"

#include <utility>
#include <vector>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/signature.h"
#include "harness/virtual/recorder/recorder.h"

namespace tidemark::operators {
namespace {

bool follows_reads = false;

/// note(memory, the tensor, its place in a list or -1)
void note_memory_of(const at::Tensor& tensor, int place, const auto& note) {
  if (!tensor.defined()) return;
  if (has_parts(tensor)) {
    for (const at::Tensor& part : parts_of(tensor)) note_memory_of(part, place, note);
  } else if (tensor.is_cuda() && tensor.has_storage() && tensor.numel() > 0) {
    if (const void* memory = tensor.storage().data(); memory != nullptr)
      note(memory, tensor, place);
  }
}

void note_memory_of(const c10::IValue& value, const auto& note) {
  if (value.isTensor()) return note_memory_of(value.toTensor(), -1, note);
  if (!value.isList()) return;
  int place = 0;
  for (const c10::IValue& one : value.toListRef()) {
    if (one.isTensor()) note_memory_of(one.toTensor(), place, note);
    ++place;
  }
}

bool is_whole(const at::Tensor& tensor) { return tensor.nbytes() == tensor.storage().nbytes(); }

/// By argument: whether an operator reads it.
std::vector<bool> read_by(const c10::OperatorHandle& op, const Signature& signature) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < signature.arguments; ++i)
    out.push_back(!signature.written[i] ||
                  (!op.schema().arguments()[i].is_out() && !overwrites(signature.name)));
  return out;
}

template <class AnyKernel>
Kernel noting(const c10::OperatorHandle& op, AnyKernel kernel) {
  const Signature signature(op);
  return boxed([read = read_by(op, signature), written = signature.written,
                kernel = std::move(kernel)](const Invocation& call) {
    const recorder::Operator now;
    const c10::IValue* arguments = call.last(read.size());
    for (std::size_t i = 0; i < read.size(); ++i)
      if (read[i])
        note_memory_of(arguments[i], [](const void* memory, const at::Tensor&, int place) {
          recorder::note_read(memory, place);
        });
    for (std::size_t i = 0; i < read.size(); ++i)
      if (written[i])
        note_memory_of(arguments[i], [&](const void* memory, const at::Tensor& tensor, int place) {
          if (!read[i]) recorder::note_overwritten(memory);
          recorder::note_written(memory, place, !read[i] && is_whole(tensor));
        });
    call.run(kernel);
  });
}

}  // namespace

void follow_reads() { follows_reads = true; }

Kernel with_reads(const c10::OperatorHandle& op, Kernel kernel) {
  return follows_reads ? noting(op, std::move(kernel)) : std::move(kernel);
}

}  // namespace tidemark::operators
