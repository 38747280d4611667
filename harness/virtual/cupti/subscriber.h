// The one subscriber that CUPTI has.
#pragma once

#include "harness/virtual/device/activity.h"

namespace tidemark::cupti {

/// Tells it of a call that begins or ends, if it wants to know.
void subscriber_called(const device::ProfiledCall& call, bool ends);
void forget_subscriber();

}  // namespace tidemark::cupti
