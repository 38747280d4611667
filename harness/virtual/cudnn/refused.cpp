// Functions that are not modelled: convolutions of the interface before 8.0, which PyTorch takes
// with TORCH_CUDNN_V8_API_DISABLED=1 alone, and pooling of integers.
#include "harness/virtual/stubs/refuse.h"

namespace {
constexpr const char* library = "libcudnn.so.9";
constexpr int not_supported = 3000;  // CUDNN_STATUS_NOT_SUPPORTED
}  // namespace

REFUSED(cudnnConvolutionBackwardData)
REFUSED(cudnnConvolutionBackwardFilter)
REFUSED(cudnnConvolutionBiasActivationForward)
REFUSED(cudnnConvolutionForward)
REFUSED(cudnnCreateActivationDescriptor)
REFUSED(cudnnCreateConvolutionDescriptor)
REFUSED(cudnnCreatePoolingDescriptor)
REFUSED(cudnnDestroyActivationDescriptor)
REFUSED(cudnnDestroyConvolutionDescriptor)
REFUSED(cudnnFindConvolutionBackwardDataAlgorithmEx)
REFUSED(cudnnFindConvolutionBackwardFilterAlgorithmEx)
REFUSED(cudnnFindConvolutionForwardAlgorithmEx)
REFUSED(cudnnGetConvolutionBackwardDataAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardDataWorkspaceSize)
REFUSED(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
REFUSED(cudnnGetConvolutionBackwardFilterWorkspaceSize)
REFUSED(cudnnGetConvolutionForwardAlgorithm_v7)
REFUSED(cudnnGetConvolutionForwardWorkspaceSize)
REFUSED(cudnnPoolingForward)
REFUSED(cudnnSetActivationDescriptor)
REFUSED(cudnnSetConvolutionGroupCount)
REFUSED(cudnnSetConvolutionMathType)
REFUSED(cudnnSetConvolutionNdDescriptor)
REFUSED(cudnnSetPooling2dDescriptor)
