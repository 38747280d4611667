// Results of an operation without partners in mode known: as if each partner had called it with the
// values of this rank. A sum is a multiple of this rank's part, and a gathered buffer holds it in
// every place. What only a partner has (a receive, the parts that a root sends) is unknown.
#pragma once

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

void stand_in(const Operation& operation);

}  // namespace tidemark::nccl
