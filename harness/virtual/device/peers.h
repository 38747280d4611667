// Peer access: which devices of the process read each other's memory. Copies between devices need
// none: without it they pass through the host.
#pragma once

#include <driver_types.h>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// As the GPU's profile says; no device is its own peer.
cudaError_t can_access_peer(int* can, int device, int peer);
/// Access of the current device. Errors: those of cudaDeviceEnablePeerAccess and its counterpart.
cudaError_t enable_peer(int peer, unsigned flags);
cudaError_t disable_peer(int peer);
/// A cudaDeviceP2PAttr, which has the number of the driver's CUdevice_P2PAttribute.
cudaError_t peer_attribute(int* value, int attribute, int device, int peer);
/// cudaErrorInvalidDevice where there is no such device: of a copy between two.
cudaError_t check_pair(int device, int peer);

}  // namespace tidemark::device
#pragma GCC visibility pop
