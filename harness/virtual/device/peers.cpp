#include "harness/virtual/device/peers.h"

#include <set>
#include <utility>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/immortal.h"

namespace tidemark::device {
namespace {

using Peers = std::set<std::pair<int, int>>;  // device, peer; guarded by the engine's mutex

bool reaches(int device, int peer) { return device != peer && engine().profile.peer_access; }

}  // namespace

cudaError_t check_pair(int device, int peer) {
  return device_exists(device) && device_exists(peer) ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t can_access_peer(int* can, int device, int peer) {
  if (!can) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_pair(device, peer)) return error;
  return give(can, reaches(device, peer));
}

cudaError_t enable_peer(int peer, unsigned flags) {
  const int mine = current_device();
  if (flags) return cudaErrorInvalidValue;
  if (!device_exists(peer) || peer == mine) return cudaErrorInvalidDevice;
  if (!reaches(mine, peer)) return cudaErrorPeerAccessUnsupported;
  auto [e, lock] = locked_at_once();
  return immortal<Peers>().emplace(mine, peer).second ? cudaSuccess
                                                      : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t disable_peer(int peer) {
  if (!device_exists(peer)) return cudaErrorInvalidDevice;
  auto [e, lock] = locked_at_once();
  return immortal<Peers>().erase({current_device(), peer}) ? cudaSuccess
                                                           : cudaErrorPeerAccessNotEnabled;
}

cudaError_t peer_attribute(int* value, int attribute, int device, int peer) {
  if (!value) return cudaErrorInvalidValue;
  if (check_pair(device, peer) || device == peer) return cudaErrorInvalidDevice;
  const bool of_access = attribute == cudaDevP2PAttrAccessSupported ||
                         attribute == cudaDevP2PAttrNativeAtomicSupported;
  return give(value, of_access && reaches(device, peer));
}

}  // namespace tidemark::device
