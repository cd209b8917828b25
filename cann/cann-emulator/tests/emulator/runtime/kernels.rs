//! Tests of kernels given as binaries, which are registered and not run, and of reports to the profiler.

use crate::common::*;
use cann_emulator::abi::kernel::*;
use cann_emulator::abi::profiling::*;
use cann_sys::kernel::rtDevBinary_t;

use super::*;

#[test]
fn a_kernel_is_registered_without_a_device_and_its_launch_is_refused() {
    let data = [0u8; 8];
    let binary = rtDevBinary_t {
        magic: 0x4355_4245,
        version: 0,
        data: data.as_ptr().cast(),
        length: data.len() as u64,
    };
    let (mut handle, mut other) = (null_mut(), null_mut());
    let (stub, unknown) = (data.as_ptr().cast::<c_void>(), data[1..].as_ptr().cast());
    let name = c"triu_float".as_ptr();
    // SAFETY: the places are variables, and handles are checked.
    unsafe {
        assert_eq!(rtDevBinaryRegister(&binary, &mut handle), 0);
        assert_eq!(rtDevBinaryRegister(&binary, &mut other), 0);
        assert_ne!(handle, other);
        each! { assert_same:
            rtDevBinaryRegister(null(), &mut other), ACL_ERROR_RT_PARAM_INVALID;
            rtDevBinaryRegister(&binary, null_mut()), ACL_ERROR_RT_PARAM_INVALID;
        }
        let empty = rtDevBinary_t {
            length: 0,
            ..binary
        };
        assert_eq!(
            rtDevBinaryRegister(&empty, &mut other),
            ACL_ERROR_RT_PARAM_INVALID
        );

        assert_eq!(rtFunctionRegister(handle, stub, name, null(), 0), 0);
        let check = |handle, stub, name, code| {
            assert_eq!(rtFunctionRegister(handle, stub, name, null(), 0), code)
        };
        each! { check:
            null_mut(), stub, name, ACL_ERROR_RT_INVALID_HANDLE;
            handle.wrapping_byte_add(8), stub, name, ACL_ERROR_RT_INVALID_HANDLE;
            handle, null(), name, ACL_ERROR_RT_PARAM_INVALID;
            handle, stub, null(), ACL_ERROR_RT_PARAM_INVALID;
        }

        let _session = Session::start();
        let launch = |stub| rtKernelLaunch(stub, 1, null_mut(), 0, null_mut(), null_mut());
        assert_eq!(launch(stub), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert!(message().contains("the kernel triu_float: the emulator runs no kernels"));
        assert_eq!(launch(unknown), ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("no kernel was registered"));
        let stranger = rtKernelLaunch(stub, 1, null_mut(), 0, null_mut(), handle);
        assert_eq!(stranger, ACL_ERROR_RT_INVALID_HANDLE);
    }
}

#[test]
fn binaries_are_not_loaded() {
    let _session = Session::start();
    let (data, mut handle, mut place) = ([0u8; 8], null_mut(), null_mut());
    let (mut address, mut length) = (0, 0);
    let binary = data.as_ptr().cast();
    // SAFETY: the places are variables.
    unsafe {
        let refused = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        assert_eq!(
            aclrtBinaryLoadFromData(binary, 8, null(), &mut handle),
            refused
        );
        assert!(message().contains("a binary of 8 bytes is not loaded"));
        assert!(handle.is_null());
        for (binary, length, place) in [
            (null(), 8, &raw mut handle),
            (binary, 0, &raw mut handle),
            (binary, 8, null_mut()),
        ] {
            let status = aclrtBinaryLoadFromData(binary, length, null(), place);
            assert_eq!(status, ACL_ERROR_INVALID_PARAM);
        }
        let status = aclrtBinaryGetFunction(handle, c"f".as_ptr(), &mut place);
        assert_eq!(status, ACL_ERROR_RT_INVALID_HANDLE);
        let status = aclrtGetFunctionAddr(place, &mut handle, &mut handle);
        each! { assert_same:
            status, ACL_ERROR_RT_INVALID_HANDLE;
            rtGetC2cCtrlAddr(&mut address, &mut length), refused;
            rtGetC2cCtrlAddr(null_mut(), &mut length), ACL_ERROR_RT_PARAM_INVALID;
            (address, length), (0, 0);
        }
    }
}

#[test]
fn reports_to_a_profiler_that_is_off_are_taken() {
    unsafe extern "C" fn started(_: u32, _: *mut c_void, _: u32) -> i32 {
        panic!("no profiler starts")
    }
    let report = [0u64; 8];
    // SAFETY: the data is valid.
    unsafe {
        assert_eq!(MsprofRegisterCallback(61, Some(started)), 0);
        assert_ne!(MsprofRegisterCallback(61, None), 0);
        assert_eq!(MsprofReportApi(1, report.as_ptr().cast()), 0);
        assert_ne!(MsprofReportApi(1, null()), 0);
        for function in [MsprofReportCompactInfo, MsprofReportAdditionalInfo] {
            assert_eq!(function(1, report.as_ptr().cast(), 64), 0);
            assert_ne!(function(1, null(), 64), 0);
            assert_ne!(function(1, report.as_ptr().cast(), 0), 0);
        }
        let (one, two) = (c"aclnnAdd", c"aclnnMul");
        let hash = |text: &std::ffi::CStr| MsprofGetHashId(text.as_ptr(), text.count_bytes());
        assert_eq!(hash(one), hash(one));
        assert_ne!(hash(one), hash(two));
        assert_ne!(hash(one), MsprofGetHashId(one.as_ptr(), 4));
        assert_eq!(MsprofGetHashId(null(), 4), 0);
        let before = MsprofSysCycleTime();
        std::thread::sleep(Duration::from_millis(2));
        assert!(MsprofSysCycleTime() - before >= 2_000_000);
    }
}
