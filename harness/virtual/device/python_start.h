// Start of tidemark's part in a Python that PYTHONPATH does not reach: `python3 -I`, -E and -S, one
// that was started with a PYTHONPATH of its own, and one inside of another program. Every other one
// begins with the sitecustomize of `tidemark exec`.
#pragma once

namespace tidemark::device {

/// Called when a library registers its first kernel, in a Python that is while torch is imported.
/// Does nothing without `tidemark exec`, and where its part has started.
void start_in_python();

}  // namespace tidemark::device
