// Accesses of an operator's tensors for race detection: reads and writes from its schema.
#pragma once

#include <ATen/core/ivalue.h>

#include "harness/virtual/operators/signature.h"

namespace tidemark::operators {

/// Watches one operator call on this thread; inside another it does nothing (the outer operator's
/// own arguments and results say what is touched; what it allocates in between is its own and stays
/// on its stream). An operator that throws has touched nothing.
class Watch {
 public:
  /// `arguments` as they lie on the stack before the call.
  Watch(const Signature& signature, const c10::IValue* arguments);
  ~Watch();
  Watch(const Watch&) = delete;
  /// `results` as they lie on the stack after it.
  void finish(const c10::IValue* results);

 private:
  const Signature& signature_;
  bool watching_;
};

/// True if the calling thread is inside a watched operator.
bool inside_watch();

/// Follows the caching allocator from now on; once a process.
void follow_allocator();

/// The host reads or writes a CPU tensor, which the device may be using where it is pinned.
void host_access(const char* name, const at::Tensor& tensor, bool write);

}  // namespace tidemark::operators
