// Outputs of all-gathers and the shards that they are gathered from, for the record of the process.
#pragma once

namespace tidemark::operators {

/// All-gathers on CUDA are noted from now on (../recorder/recorder.h). Called once.
void note_gathers();

}  // namespace tidemark::operators
