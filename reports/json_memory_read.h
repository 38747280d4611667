// Reads what json_memory.cpp writes. Throws as Node does, also where columns do not fit together.
#pragma once

#include "harness/record/record.h"
#include "reports/json_node.h"

namespace tidemark {

AliveBlock read_alive(const Node& node);
MemoryMap read_map(const Node& node);
Spans read_spans(const Node& node);
EventTrace read_trace(const Node& node);
GradientError read_gradient(const Node& node);

}  // namespace tidemark
