//! A session of the emulator, tensors on its device, calls, and comparisons. Tests import all of it.

pub mod call;
pub mod convolution;
pub mod few_bits;
pub mod goldens;
pub mod grouped;
pub mod host;
pub mod infer;
pub mod routing;

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cann_emulator::abi::{copy_bytes::*, runtime::*};
use cann_emulator::{configure, last_report};
use cann_sys::runtime::*;

pub use std::ptr::{null, null_mut};

pub use cann_emulator::Config;
pub use cann_emulator::abi::meta::*;
pub use cann_emulator::abi::operator::PhaseTwo;
pub use cann_sys::meta::*;

pub use self::call::*;
pub use self::host::*;

pub const F32: aclDataType = ACL_FLOAT;
pub const F16: aclDataType = ACL_FLOAT16;
pub const BF16: aclDataType = ACL_BF16;

/// The emulator from `aclInit` to `aclFinalize`. Its state belongs to the process, so one test at a time has it.
pub struct Session(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Session {
    pub fn start() -> Self {
        Self::with(Config::default())
    }

    /// Starts on another chip.
    pub fn on(soc: &str) -> Self {
        Self::with(Config {
            soc: soc.to_owned(),
            ..Config::default()
        })
    }

    pub fn with(config: Config) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        configure(config);
        // SAFETY: NULL is allowed.
        unsafe {
            assert_eq!(aclInit(std::ptr::null()), 0);
            assert_eq!(aclrtSetDevice(0), 0);
        }
        Self(guard)
    }

    /// Ends the session. Returns what was not given back.
    pub fn end(self) -> Vec<String> {
        // While no other test has its turn.
        // SAFETY: it takes nothing.
        unsafe { aclFinalize() };
        last_report()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: it takes nothing.
        unsafe { aclFinalize() };
    }
}

/// Returns the text of the thread's latest error.
pub fn message() -> String {
    // SAFETY: the text is valid until the thread's next call.
    unsafe {
        let text = aclGetRecentErrMsg();
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into()
        }
    }
}

pub fn malloc(size: usize) -> *mut c_void {
    let mut address = null_mut();
    // SAFETY: the place is a variable.
    let status = unsafe { aclrtMalloc(&mut address, size, ACL_MEM_MALLOC_HUGE_FIRST) };
    assert_eq!(status, 0, "{}", message());
    address
}

pub fn upload<T: Copy>(address: *mut c_void, values: &[T]) {
    let size = size_of_val(values);
    if size > 0 {
        // SAFETY: the slice is valid.
        let status = unsafe {
            aclrtMemcpy(
                address,
                size,
                values.as_ptr().cast(),
                size,
                ACL_MEMCPY_HOST_TO_DEVICE,
            )
        };
        assert_eq!(status, 0, "{}", message());
    }
}

pub fn download<T: Copy + Default>(address: *const c_void, count: usize) -> Vec<T> {
    let mut values = vec![T::default(); count];
    let size = size_of_val(values.as_slice());
    if size > 0 {
        // SAFETY: the vector is valid.
        let status = unsafe {
            aclrtMemcpy(
                values.as_mut_ptr().cast(),
                size,
                address,
                size,
                ACL_MEMCPY_DEVICE_TO_HOST,
            )
        };
        assert_eq!(status, 0, "{}", message());
    }
    values
}

/// A tensor on the device with memory of its own.
pub struct Tensor {
    pub address: *mut c_void,
    pub handle: *mut aclTensor,
    pub dtype: aclDataType,
    /// The number of elements of the memory.
    pub storage: usize,
    owned: bool,
}

pub fn element_size(dtype: aclDataType) -> usize {
    // SAFETY: it takes any value.
    unsafe { aclDataTypeSize(dtype) }
}

impl Tensor {
    /// Makes a tensor that is not initialised, like an output.
    pub fn empty(dtype: aclDataType, shape: &[usize]) -> Self {
        Self::strided(dtype, shape, None, 0, shape.iter().product())
    }

    /// Makes a view of `storage` elements of new memory.
    pub fn strided(
        dtype: aclDataType,
        shape: &[usize],
        strides: Option<&[i64]>,
        offset: i64,
        storage: usize,
    ) -> Self {
        let address = malloc((storage * element_size(dtype)).max(1));
        let handle = descriptor(address, dtype, shape, strides, offset, storage);
        assert!(!handle.is_null(), "{}", message());
        Self {
            address,
            handle,
            dtype,
            storage,
            owned: true,
        }
    }

    pub fn floats(dtype: aclDataType, shape: &[usize], values: &[f32]) -> Self {
        let tensor = Self::empty(dtype, shape);
        tensor.fill(values);
        tensor
    }

    pub fn integers(dtype: aclDataType, shape: &[usize], values: &[i64]) -> Self {
        let tensor = Self::empty(dtype, shape);
        match dtype {
            ACL_INT64 => upload(tensor.address, values),
            ACL_INT32 => {
                upload(
                    tensor.address,
                    &values.iter().map(|v| *v as i32).collect::<Vec<_>>(),
                );
            }
            _ => upload(
                tensor.address,
                &values.iter().map(|v| *v as u8).collect::<Vec<_>>(),
            ),
        }
        tensor
    }

    /// Rounds values to the dtype and writes them to the memory, from its start.
    pub fn fill(&self, values: &[f32]) {
        assert_eq!(values.len(), self.storage);
        match self.dtype {
            ACL_FLOAT => upload(self.address, values),
            ACL_FLOAT16 => {
                upload(
                    self.address,
                    &values
                        .iter()
                        .map(|v| half::f16::from_f32(*v))
                        .collect::<Vec<_>>(),
                );
            }
            _ => upload(
                self.address,
                &values
                    .iter()
                    .map(|v| half::bf16::from_f32(*v))
                    .collect::<Vec<_>>(),
            ),
        }
    }

    /// Returns the elements of the memory, from its start.
    pub fn read(&self) -> Vec<f32> {
        match self.dtype {
            ACL_FLOAT => download(self.address, self.storage),
            ACL_FLOAT16 => download::<half::f16>(self.address, self.storage)
                .into_iter()
                .map(half::f16::to_f32)
                .collect(),
            _ => download::<half::bf16>(self.address, self.storage)
                .into_iter()
                .map(half::bf16::to_f32)
                .collect(),
        }
    }

    pub fn read_integers(&self) -> Vec<i64> {
        match self.dtype {
            ACL_INT64 => download(self.address, self.storage),
            _ => download::<i32>(self.address, self.storage)
                .into_iter()
                .map(i64::from)
                .collect(),
        }
    }

    /// Checks that its values are close to the exact ones, as [`assert_close`] does.
    #[track_caller]
    pub fn assert_close(&self, what: &str, exact: &[f64], inside: f64) {
        assert_close(what, &self.read(), exact, self.dtype, inside);
    }

    /// Gives the descriptor to a list, which owns it from then on.
    pub fn give_to_list(&mut self) -> *const aclTensor {
        self.owned = false;
        self.handle
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: handles are checked.
        unsafe {
            if self.owned {
                aclDestroyTensor(self.handle);
            }
            aclrtFree(self.address);
        }
    }
}

pub fn descriptor(
    address: *mut c_void,
    dtype: aclDataType,
    shape: &[usize],
    strides: Option<&[i64]>,
    offset: i64,
    storage: usize,
) -> *mut aclTensor {
    let shape: Vec<i64> = shape.iter().map(|length| *length as i64).collect();
    let storage = [storage as i64];
    // SAFETY: the arrays are valid.
    unsafe {
        aclCreateTensor(
            shape.as_ptr(),
            shape.len() as u64,
            dtype,
            strides.map_or(std::ptr::null(), <[i64]>::as_ptr),
            offset,
            ACL_FORMAT_ND,
            storage.as_ptr(),
            1,
            address,
        )
    }
}

/// Runs an operator on the default stream and waits. `one` calls phase one with its operands.
pub fn run(
    one: impl FnOnce(*mut u64, *mut *mut aclOpExecutor) -> aclnnStatus,
    two: PhaseTwo,
) -> Status {
    let (mut size, mut executor) = (0, null_mut());
    let status = one(&mut size, &mut executor);
    if status != 0 {
        return Err((status, message()));
    }
    let workspace = malloc(size as usize);
    // SAFETY: handles are checked.
    let status = unsafe {
        let status = two(workspace, size, executor, null_mut());
        let waited = aclrtSynchronizeStream(null_mut());
        if status == 0 { waited } else { status }
    };
    let text = message();
    // SAFETY: handles are checked.
    unsafe { aclrtFree(workspace) };
    if status == 0 {
        Ok(())
    } else {
        Err((status, text))
    }
}

/// Returns half the distance between neighbours of a dtype around `value`.
fn half_ulp(dtype: aclDataType, value: f64) -> f64 {
    let (bits, smallest) = match dtype {
        ACL_FLOAT => (24, -126),
        ACL_FLOAT16 => (11, -14),
        _ => (8, -126),
    };
    let exponent = value.abs().log2().floor().max(f64::from(smallest));
    (exponent - f64::from(bits)).exp2()
}

/// Checks that values are within one rounding of the exact ones, plus the error of f32 inside the operator: `inside`,
/// relative to the largest value.
pub fn assert_close(what: &str, found: &[f32], exact: &[f64], dtype: aclDataType, inside: f64) {
    assert_eq!(found.len(), exact.len(), "{what}");
    let scale = exact
        .iter()
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    for (position, (found, exact)) in found.iter().zip(exact).enumerate() {
        let error = (f64::from(*found) - exact).abs();
        let allowed = half_ulp(dtype, *exact) + inside * scale;
        assert!(
            error <= allowed && error.is_finite(),
            "{what}[{position}]: {found}, exact {exact}, error {error:e}"
        );
    }
}

/// Returns values from -1 to 1 that look random and are the same every time.
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
