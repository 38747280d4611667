// The state of a thread in which CPU kernels compute the numbers of the device.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

namespace tidemark::operators {

/// The CPU kernel sees no autograd and no autocast, whatever the caller has switched on.
struct Plain {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{
      c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

}  // namespace tidemark::operators
