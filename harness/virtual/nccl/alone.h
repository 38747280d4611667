// Mode known without partners: what an operation would give if each partner had called it with what
// this rank has. A sum is so many times this rank's part, a gathered buffer holds it in every
// place. What only a partner has (a receive, the parts that a root hands out) is unknown.
#pragma once

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

void stand_in(const Operation& operation);

}  // namespace tidemark::nccl
