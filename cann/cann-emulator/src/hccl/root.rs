//! The root of a group: the bytes that its first rank gives to the others.

use cann_sys::errors::ACL_ERROR_RT_INTERNAL_ERROR;
use cann_sys::hccl::HCCL_E_PARA;

use crate::error::{Outcome, ensure};

/// A mark by which other bytes are recognised. It has the version of the messages between processes.
pub(crate) const MARK: &[u8; 16] = b"cann-emulator/02";

/// The identity of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// The process that made it.
    pub(crate) process: u32,
    /// A random number that names the group and its socket. Other users of the machine can see it.
    pub(crate) id: u64,
    /// A random number by which the group knows its ranks. Only the root has it.
    pub(crate) token: [u8; 16],
}

impl Root {
    pub(crate) fn new() -> Outcome<Self> {
        let bytes = random::<24>()?;
        let (id, token) = bytes.split_at(8);
        Ok(Self {
            process: std::process::id(),
            id: u64::from_le_bytes(id.try_into().expect("eight bytes")),
            token: token.try_into().expect("sixteen bytes"),
        })
    }

    pub(crate) fn write(self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[..16].copy_from_slice(MARK);
        bytes[16..20].copy_from_slice(&self.process.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.id.to_le_bytes());
        bytes[28..44].copy_from_slice(&self.token);
    }

    pub(crate) fn read(bytes: &[u8]) -> Outcome<Self> {
        ensure!(bytes[..16] == *MARK, HCCL_E_PARA.0 as i32;
            "these are not the bytes that HcclGetRootInfo of this version of the emulator gave");
        Ok(Self {
            process: u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")),
            id: u64::from_le_bytes(bytes[20..28].try_into().expect("eight bytes")),
            token: bytes[28..44].try_into().expect("sixteen bytes"),
        })
    }
}

/// Returns random bytes that no other process can guess.
pub(crate) fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the array is valid for writes of its size, which is below the limit of 256 bytes.
    let status = unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), N) };
    ensure!(status == 0, ACL_ERROR_RT_INTERNAL_ERROR; "the system gives no random bytes");
    Ok(bytes)
}
