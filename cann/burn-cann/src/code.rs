//! Return codes of CANN, by name.

use std::fmt;

use cann_sys::{errors, hccl, meta};

/// A return code of CANN other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(i32);

impl Code {
    pub(crate) fn new(code: i32) -> Self {
        Self(code)
    }

    /// Returns the number of the code.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns CANN's name of the code, if the code is documented.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .chain(COLLECTIVES)
            .find(|(code, _)| *code == self.0)
            .map(|(_, name)| *name)
    }

    /// Returns advice on what to do, where the code alone shows it.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self.0 {
            errors::ACL_ERROR_RT_LOST_HEARTBEAT => {
                "The device is lost: see `npu-smi info`, and start the program anew"
            }
            errors::ACL_ERROR_RT_AICORE_EXCEPTION | errors::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION => {
                "An operator met what it can't take: look for an index out of range"
            }
            meta::ACLNN_ERR_INNER_FIND_KERNEL_ERROR
            | meta::ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND => {
                "Install CANN's kernels package for this processor"
            }
            meta::ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND => {
                "`source` the toolkit's set_env.sh, which sets ASCEND_OPP_PATH"
            }
            _ => return None,
        })
    }

    /// Returns `true` if the code means that there is not enough device memory.
    pub fn is_out_of_memory(self) -> bool {
        const CODES: [i32; 4] = [
            errors::ACL_ERROR_RT_MEMORY_ALLOCATION,
            errors::ACL_ERROR_BAD_ALLOC,
            errors::ACL_ERROR_STORAGE_OVER_LIMIT,
            errors::ACL_ERROR_RT_DEVICE_OOM,
        ];
        CODES.contains(&self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(out, "{} ({name})", self.0),
            None => write!(out, "{}", self.0),
        }
    }
}

macro_rules! names {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($(($module::$name, stringify!($name)),)+)+]
    };
}

const NAMES: &[(i32, &str)] = names! {
    errors:
        ACL_ERROR_INVALID_PARAM,
        ACL_ERROR_UNINITIALIZE,
        ACL_ERROR_REPEAT_INITIALIZE,
        ACL_ERROR_INVALID_FILE,
        ACL_ERROR_OP_NOT_FOUND,
        ACL_ERROR_OP_LOAD_FAILED,
        ACL_ERROR_UNSUPPORTED_DATA_TYPE,
        ACL_ERROR_FORMAT_NOT_MATCH,
        ACL_ERROR_KERNEL_NOT_FOUND,
        ACL_ERROR_REPEAT_SUBSCRIBE,
        ACL_ERROR_STREAM_NOT_SUBSCRIBE,
        ACL_ERROR_THREAD_NOT_SUBSCRIBE,
        ACL_ERROR_WAIT_CALLBACK_TIMEOUT,
        ACL_ERROR_REPEAT_FINALIZE,
        ACL_ERROR_COMPILING_STUB_MODE,
        ACL_ERROR_INVALID_OPP_PATH,
        ACL_ERROR_BAD_ALLOC,
        ACL_ERROR_API_NOT_SUPPORT,
        ACL_ERROR_INVALID_DEVICE,
        ACL_ERROR_MEMORY_ADDRESS_UNALIGNED,
        ACL_ERROR_RESOURCE_NOT_MATCH,
        ACL_ERROR_INVALID_RESOURCE_HANDLE,
        ACL_ERROR_FEATURE_UNSUPPORTED,
        ACL_ERROR_STORAGE_OVER_LIMIT,
        ACL_ERROR_INTERNAL_ERROR,
        ACL_ERROR_FAILURE,
        ACL_ERROR_GE_FAILURE,
        ACL_ERROR_RT_FAILURE,
        ACL_ERROR_DRV_FAILURE,
        ACL_ERROR_PROFILING_FAILURE,
        ACL_ERROR_RT_PARAM_INVALID,
        ACL_ERROR_RT_INVALID_DEVICEID,
        ACL_ERROR_RT_CONTEXT_NULL,
        ACL_ERROR_RT_STREAM_CONTEXT,
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
        ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
        ACL_ERROR_RT_ADDR_UNALIGNED,
        ACL_ERROR_RT_STREAM_SUBSCRIBE,
        ACL_ERROR_RT_THREAD_SUBSCRIBE,
        ACL_ERROR_RT_STREAM_NO_CB_REG,
        ACL_ERROR_RT_INVALID_MEMORY_TYPE,
        ACL_ERROR_RT_INVALID_HANDLE,
        ACL_ERROR_RT_INVALID_MALLOC_TYPE,
        ACL_ERROR_RT_WAIT_TIMEOUT,
        ACL_ERROR_RT_TASK_TIMEOUT,
        ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
        ACL_ERROR_RT_DEVICE_TASK_ABORT,
        ACL_ERROR_RT_STREAM_ABORT,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        ACL_ERROR_RT_MEMORY_FREE,
        ACL_ERROR_RT_AICORE_OVER_FLOW,
        ACL_ERROR_RT_NO_DEVICE,
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        ACL_ERROR_RT_NO_PERMISSION,
        ACL_ERROR_RT_NO_EVENT_RESOURCE,
        ACL_ERROR_RT_NO_STREAM_RESOURCE,
        ACL_ERROR_RT_OVER_LIMIT,
        ACL_ERROR_RT_REPEATED_INIT,
        ACL_ERROR_RT_DEVICE_OOM,
        ACL_ERROR_RT_INTERNAL_ERROR,
        ACL_ERROR_RT_STREAM_TASK_FULL,
        ACL_ERROR_RT_STREAM_NOT_COMPLETE,
        ACL_ERROR_RT_EVENT_NOT_COMPLETE,
        ACL_ERROR_RT_SOC_VERSION,
        ACL_ERROR_RT_LOST_HEARTBEAT,
        ACL_ERROR_RT_AICORE_TIMEOUT,
        ACL_ERROR_RT_AICORE_EXCEPTION,
        ACL_ERROR_RT_AICPU_TIMEOUT,
        ACL_ERROR_RT_AICPU_EXCEPTION,
        ACL_ERROR_RT_VECTOR_CORE_TIMEOUT,
        ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        ACL_ERROR_RT_DEVICE_MEM_ERROR,
        ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR,
        ACL_ERROR_RT_LINK_ERROR,
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        ACL_ERROR_RT_AICPU_INTERNAL_ERROR,
        ACL_ERROR_RT_SOCKET_CLOSE;
    meta:
        ACLNN_ERR_PARAM_NULLPTR,
        ACLNN_ERR_PARAM_INVALID,
        ACLNN_ERR_RUNTIME_ERROR,
        ACLNN_ERR_INNER,
        ACLNN_ERR_INNER_INFERSHAPE_ERROR,
        ACLNN_ERR_INNER_TILING_ERROR,
        ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
        ACLNN_ERR_INNER_CREATE_EXECUTOR,
        ACLNN_ERR_INNER_NULLPTR,
        ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND,
        ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND;
};

macro_rules! collectives {
    ($($name:ident),+ $(,)?) => {
        &[$((hccl::$name.0.cast_signed(), stringify!($name)),)+]
    };
}

/// The codes of HCCL, which are smaller than all others.
const COLLECTIVES: &[(i32, &str)] = collectives! {
    HCCL_E_PARA,
    HCCL_E_PTR,
    HCCL_E_MEMORY,
    HCCL_E_INTERNAL,
    HCCL_E_NOT_SUPPORT,
    HCCL_E_NOT_FOUND,
    HCCL_E_UNAVAIL,
    HCCL_E_SYSCALL,
    HCCL_E_TIMEOUT,
    HCCL_E_OPEN_FILE_FAILURE,
    HCCL_E_TCP_CONNECT,
    HCCL_E_ROCE_CONNECT,
    HCCL_E_TCP_TRANSFER,
    HCCL_E_ROCE_TRANSFER,
    HCCL_E_RUNTIME,
    HCCL_E_DRV,
    HCCL_E_PROFILING,
    HCCL_E_CCE,
    HCCL_E_NETWORK,
    HCCL_E_AGAIN,
    HCCL_E_REMOTE,
    HCCL_E_SUSPENDING,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_unknown_codes_stay_numbers() {
        assert_eq!(Code(161002).to_string(), "161002 (ACLNN_ERR_PARAM_INVALID)");
        assert_eq!(
            Code(207001).to_string(),
            "207001 (ACL_ERROR_RT_MEMORY_ALLOCATION)"
        );
        assert_eq!(Code(9).to_string(), "9 (HCCL_E_TIMEOUT)");
        assert_eq!(Code(77).to_string(), "77");
    }

    #[test]
    fn no_code_has_two_names() {
        let all = [NAMES, COLLECTIVES].concat();
        for (place, (code, _)) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|(other, _)| other != code));
        }
    }
}
