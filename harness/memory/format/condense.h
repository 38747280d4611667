// Steps of a record without the events of which nothing is left at their end.
#pragma once

#include <string>
#include <string_view>

namespace tidemark::recorder {

/// `entries` are those of whole steps, one after the other. What comes back brings the allocator
/// from the state before the first of them to the state after the last: an allocation that was
/// freed again is taken out with its labels and frees, a segment that was given back likewise, a
/// phase that ended too. The first entry (Tag::skipped) counts what was taken out, now and before.
/// Names that the steps define stay. Throws CutOff if the entries are not whole.
std::string condensed(std::string_view entries);

}  // namespace tidemark::recorder
