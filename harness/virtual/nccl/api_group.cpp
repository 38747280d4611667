// The exported functions for groups and for reductions of the caller's making.
#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/group.h"
#include "harness/virtual/nccl/reduction.h"

using namespace tidemark::nccl;

NCCL_API(ncclResult_t, ncclGroupStart)() {
  start_group();
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd)() {
  return at_border("ncclGroupEnd", [] { end_group(); });
}

NCCL_API(ncclResult_t, ncclGroupSimulateEnd)(ncclSimInfo_t* info) {
  return at_border("ncclGroupSimulateEnd", [&] {
    if (info != nullptr && info->magic != 0x74685283)
      fail(ncclInvalidArgument, "the ncclSimInfo_t lacks its initializer");
    double microseconds = simulate_group();
    if (info != nullptr) info->estimatedTime = static_cast<float>(microseconds);
  });
}

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum)
(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
 ncclComm_t handle) {
  return at_border("ncclRedOpCreatePreMulSum", [&] {
    ncclComm& comm = check_usable(handle);
    if (op == nullptr || scalar == nullptr)
      fail(ncclInvalidArgument, "{} is NULL", op == nullptr ? "op" : "scalar");
    if (type < 0 || type >= ncclNumTypes)
      fail(ncclInvalidArgument, "datatype {} is none of NCCL's", static_cast<int>(type));
    PreMultiplied made{type};
    if (residence == ncclScalarHostImmediate) {
      made.bits = to_scalar(scalar, type);
    } else {
      made.device = scalar;
    }
    std::lock_guard lock(comm.mutex);
    int handle_number = ncclNumOps;
    while (comm.reductions.contains(handle_number)) ++handle_number;
    comm.reductions[handle_number] = made;
    *op = static_cast<ncclRedOp_t>(handle_number);
  });
}

NCCL_API(ncclResult_t, ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t handle) {
  return at_border("ncclRedOpDestroy", [&] {
    ncclComm& comm = known(handle);
    std::lock_guard lock(comm.mutex);
    if (comm.reductions.erase(static_cast<int>(op)) == 0) {
      fail(ncclInvalidArgument, "{} is not a reduction that this communicator made",
           static_cast<int>(op));
    }
  });
}
