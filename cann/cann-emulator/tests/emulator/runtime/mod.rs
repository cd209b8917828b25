//! Tests that devices, memory, streams and events behave as documented, and that misuse is found.

use crate::common::*;
mod kernels;
mod memory;
mod order;
mod virtual_memory;
mod virtual_memory_limits;

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cann_emulator::abi::copy_bytes::*;
use cann_emulator::abi::runtime::*;
use cann_emulator::{Config, last_report, usage};
use cann_sys::errors::*;
use cann_sys::runtime::*;

fn slow() -> Config {
    Config {
        delay: Duration::from_millis(30),
        ..Config::default()
    }
}

fn stream() -> aclrtStream {
    let mut stream = null_mut();
    // SAFETY: the place is a variable.
    let status = unsafe { aclrtCreateStream(&mut stream) };
    assert_eq!(status, 0, "{}", message());
    stream
}

fn event() -> aclrtEvent {
    let mut event = null_mut();
    // SAFETY: the place is a variable.
    assert_eq!(unsafe { aclrtCreateEvent(&mut event) }, 0, "{}", message());
    event
}

#[test]
fn init_and_finalize_know_how_often_they_were_called() {
    let session = Session::start();
    // SAFETY: NULL is allowed.
    unsafe {
        assert_eq!(aclInit(std::ptr::null()), ACL_ERROR_REPEAT_INITIALIZE);
        assert!(message().contains("may be ignored"));
        assert_eq!(aclFinalize(), 0);
        assert_eq!(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
        assert_eq!(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    }
    drop(session);
}

#[test]
fn a_thread_has_its_own_device() {
    let _session = Session::start();
    let other = std::thread::spawn(|| {
        let (mut address, mut device) = (null_mut(), -1);
        // SAFETY: the places are variables.
        unsafe {
            let policy = ACL_MEM_MALLOC_HUGE_FIRST;
            assert_eq!(
                aclrtMalloc(&mut address, 8, policy),
                ACL_ERROR_RT_CONTEXT_NULL
            );
            assert!(message().contains("each thread must call aclrtSetDevice"));
            assert_eq!(aclrtSetDevice(1), 0);
            assert_eq!(aclrtMalloc(&mut address, 8, policy), 0);
            assert_eq!(aclrtGetDevice(&mut device), 0);
        }
        assert_eq!((device, usage(1).used), (1, 8));
        let stream = stream();
        (address as usize, stream as usize)
    });
    let (address, stream) = other.join().expect("it ran");
    // SAFETY: handles are checked.
    unsafe {
        let mut device = -1;
        each! { assert_same:
            aclrtGetDevice(&mut device), 0;
            device, 0;
            aclrtSynchronizeStream(stream as aclrtStream), ACL_ERROR_RT_STREAM_CONTEXT;
            aclrtSetDevice(9), ACL_ERROR_RT_INVALID_DEVICEID;
            aclrtFree(address as *mut c_void), 0;
            aclrtSetDevice(1), 0;
            aclrtDestroyStream(stream as aclrtStream), 0;
        }
    }
}

#[test]
fn devices_are_reset_as_often_as_they_were_set() {
    let _session = Session::start();
    // SAFETY: they take numbers.
    unsafe {
        assert_eq!(aclrtSetDevice(0), 0);
        assert_eq!(aclrtResetDevice(0), 0);
        let address = malloc(8);
        assert_eq!(aclrtFree(address), 0);
        assert_eq!(aclrtResetDevice(0), 0);
        let mut address = null_mut();
        let status = aclrtMalloc(&mut address, 8, ACL_MEM_MALLOC_HUGE_FIRST);
        assert_eq!(status, ACL_ERROR_RT_CONTEXT_NULL);
        assert_ne!(aclrtResetDevice(0), 0);
    }
}

#[test]
fn finalize_reports_what_was_not_given_back() {
    let session = Session::start();
    malloc(24);
    stream();
    event();
    // The session is dropped last, so that no other test uses the device before.
    // SAFETY: it takes nothing.
    assert_eq!(unsafe { aclFinalize() }, 0);
    let report = last_report().join("\n");
    for part in ["24 bytes at", "stream", "event"] {
        assert!(report.contains(part), "{part} is not in {report}");
    }
    assert_eq!(usage(0).used, 0);
    drop(session);
    assert_eq!(Session::start().end(), Vec::<String>::new());
}

#[test]
fn the_latest_error_is_the_threads_and_is_told_once() {
    let _session = Session::start();
    // SAFETY: NULL is refused.
    unsafe {
        each! { assert_same:
            aclrtFree(null_mut()), ACL_ERROR_INVALID_PARAM;
            std::thread::spawn(message).join().expect("it ran"), "";
            aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM;
            aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM;
            aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0;
        }
    }
    assert!(message().starts_with("aclrtFree: "));
    assert_eq!(message(), "");
}

#[test]
fn versions_can_be_asked_for_in_both_ways() {
    let _session = Session::with(Config {
        version: "8.1.RC1".to_owned(),
        ..Config::default()
    });
    // SAFETY: the places are variables, the package's name is a C string.
    unsafe {
        let mut version: aclCANNPackageVersion = std::mem::zeroed();
        assert_eq!(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &mut version), 0);
        let text = std::ffi::CStr::from_ptr(version.version.as_ptr());
        assert_eq!(text.to_str(), Ok("8.1.RC1"));
        let mut buffer = [0; 128];
        each! { assert_same:
            aclsysGetVersionStr(c"runtime".as_ptr().cast_mut(), buffer.as_mut_ptr()), 0;
            std::ffi::CStr::from_ptr(buffer.as_ptr()).to_str(), Ok("8.1.RC1");
        }
    }
}

#[test]
fn a_variable_that_cannot_be_read_is_an_error_that_names_it() {
    let read = |name: &str| (name == "CANN_EMULATOR_FAIL").then(|| "aclnnRmsNorm".to_owned());
    let error = Config::from_variables(read).expect_err("a code is missing");
    assert!(
        error.contains("CANN_EMULATOR_FAIL") && error.contains("aclnnRmsNorm=361001"),
        "{error}"
    );
    let read = |name: &str| (name == "CANN_EMULATOR_DEVICES").then(|| "99".to_owned());
    assert!(Config::from_variables(read).is_err());
}
