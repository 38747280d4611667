#include "harness/parallel/sharded_calls.h"

#include <set>

namespace tidemark {
namespace {

std::size_t index_of(const std::string& unit) { return std::stoul(unit.substr(5)); }

}  // namespace

std::int64_t resharded_late(const std::vector<Call>& calls, const std::vector<bool>& frozen) {
  std::set<std::size_t> whole;  // frozen, since its backward began
  std::int64_t late = 0;
  for (const auto& call : calls) {
    if (call.op == "end of backward") {
      late += std::ssize(whole);
      whole.clear();
    }
    if (call.unit == "step") continue;
    const auto k = index_of(call.unit);
    if (call.op == "reshard") whole.erase(k);
    if (call.op != "backward") continue;
    late += static_cast<std::int64_t>(std::erase_if(whole, [&](auto i) { return i >= k + 2; }));
    if (frozen[k]) whole.insert(k);
  }
  return late;
}

}  // namespace tidemark
