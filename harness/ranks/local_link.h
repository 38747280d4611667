// Link between the ranks that tidemark itself has started, on one machine: rank 0 listens on a Unix
// socket whose name the launching process has chosen (abstract, unix(7): it is in no folder, and
// the kernel removes it with the process).
#pragma once

#include <memory>
#include <string>

#include "harness/ranks/link.h"

namespace tidemark {

/// The variables by which the launching process tells a rank its number, the number of all ranks,
/// and the name of rank 0's socket.
inline constexpr const char *kRank = "TIDEMARK_RANK", *kRanks = "TIDEMARK_WORLD",
                            *kSocket = "TIDEMARK_SOCKET";

/// A name that no other run has.
std::string new_socket_name();

/// The link of a rank with these variables. Throws std::runtime_error where they are incomplete, or
/// where rank 0 does not listen.
std::shared_ptr<Link> local_link();

}  // namespace tidemark
