//! Completion statuses, with the numbers of `ibv_wc_status`.
use crate::layout::values;
values! {
    /// Completion status.
    Status: u8, source "IBTA 11.6.2; ibv_wc_status (those that RC, UC and UD can have)";
    /// Done.
    SUCCESS Success = 0;
    /// Local length error: the message does not fit the receive WQE or the limits.
    LOC_LEN_ERR LocLenErr = 1;
    /// Local QP operation error: the WQE is malformed or not allowed.
    LOC_QP_OP_ERR LocQpOpErr = 2;
    /// Local protection error: a local key, its rights, PD or bounds are wrong.
    LOC_PROT_ERR LocProtErr = 4;
    /// Flushed: the QP is in error.
    WR_FLUSH_ERR WrFlushErr = 5;
    /// Memory management operation error: the key may not be invalidated or made valid.
    MW_BIND_ERR MwBindErr = 6;
    /// The response did not fit the request.
    BAD_RESP_ERR BadRespErr = 7;
    /// Local access error: the responder could not write its own memory.
    LOC_ACCESS_ERR LocAccessErr = 8;
    /// The responder found the request invalid.
    REM_INV_REQ_ERR RemInvReqErr = 9;
    /// The responder refused the access.
    REM_ACCESS_ERR RemAccessErr = 10;
    /// The responder failed.
    REM_OP_ERR RemOpErr = 11;
    /// No answer after all retries.
    RETRY_EXC_ERR RetryExcErr = 12;
    /// Receiver not ready after all retries.
    RNR_RETRY_EXC_ERR RnrRetryExcErr = 13;
    /// The remote side aborted.
    REM_ABORT_ERR RemAbortErr = 16;
    /// Fatal device or DMA error.
    FATAL_ERR FatalErr = 19;
    /// Anything else.
    GENERAL_ERR GeneralErr = 21;
}
