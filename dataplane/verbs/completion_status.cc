// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/completion_status.h"

namespace rdmabroker::verbs {

NdkStatus CompletionStatus(ibv_wc_status status, bool receive) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return NdkStatus::kSuccess;
    case IBV_WC_LOC_LEN_ERR:
      return receive ? NdkStatus::kBufferOverflow : NdkStatus::kDataOverrun;
    case IBV_WC_WR_FLUSH_ERR:
      return NdkStatus::kCancelled;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_REM_ACCESS_ERR:
      return NdkStatus::kAccessViolation;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return NdkStatus::kIoTimeout;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return NdkStatus::kRemoteResources;
    case IBV_WC_REM_ABORT_ERR:
      return NdkStatus::kRequestAborted;
    default:
      return NdkStatus::kInternalError;
  }
}

}  // namespace rdmabroker::verbs
