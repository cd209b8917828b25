//! Devices, memory, streams and events behave as documented, and misuse is found.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use cann_emulator::abi::copy_bytes::*;
use cann_emulator::abi::runtime::*;
use cann_emulator::{Config, usage};
use cann_sys::errors::*;
use cann_sys::runtime::*;
use common::{Session, download, malloc, message, upload};

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

#[cfg(target_os = "linux")]
#[test]
fn device_addresses_cannot_be_read_by_the_host() {
    let _session = Session::start();
    let address = malloc(100) as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let line = maps.lines().find(|line| {
        let (from, to) = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'))
            .expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
        (number(from)..number(to)).contains(&address)
    });
    assert!(line.is_some_and(|line| line.contains("---p")), "{line:?}");
    assert_eq!(address % 64, 0);
    // SAFETY: handles are checked.
    unsafe { aclrtFree(address as *mut c_void) };
}

#[test]
fn fresh_memory_is_nan_in_every_float_type() {
    let _session = Session::start();
    let address = malloc(64);
    assert!(
        download::<f32>(address, 16)
            .iter()
            .all(|value| value.is_nan())
    );
    assert!(
        download::<half::f16>(address, 32)
            .iter()
            .all(|value| value.is_nan())
    );
    assert!(
        download::<half::bf16>(address, 32)
            .iter()
            .all(|value| value.is_nan())
    );
    // SAFETY: handles are checked.
    unsafe { aclrtFree(address) };
}

#[test]
fn bad_allocations_and_frees_are_errors() {
    let _session = Session::with(Config {
        memory: 1 << 20,
        ..Config::default()
    });
    let mut address = null_mut();
    // SAFETY: the place is a variable.
    unsafe {
        let policy = ACL_MEM_MALLOC_HUGE_FIRST;
        assert_eq!(
            aclrtMalloc(&mut address, 0, policy),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(aclrtMalloc(null_mut(), 8, policy), ACL_ERROR_INVALID_PARAM);
        assert_eq!(
            aclrtMalloc(&mut address, 2 << 20, policy),
            ACL_ERROR_RT_MEMORY_ALLOCATION
        );
        assert!(message().contains("out of memory"));
        assert_eq!(aclrtFree(null_mut()), ACL_ERROR_INVALID_PARAM);
        let address = malloc(8);
        assert_eq!(aclrtFree(address.byte_add(4)), ACL_ERROR_INVALID_PARAM);
        assert_eq!(aclrtFree(address), 0);
        assert_eq!(aclrtFree(address), ACL_ERROR_INVALID_PARAM);
        assert!(message().contains("freed twice"));
    }
    assert_eq!(usage(0).used, 0);
    assert_eq!(usage(0).peak, 8);
}

#[test]
fn copies_know_their_sides_and_bounds() {
    let _session = Session::start();
    let device = malloc(16);
    let mut host = [7u8; 16];
    let place: *mut c_void = host.as_mut_ptr().cast();
    // SAFETY: the array is valid for the sizes that are copied.
    unsafe {
        let copy =
            |to, size, from: *mut c_void, count, kind| aclrtMemcpy(to, size, from, count, kind);
        assert_eq!(copy(device, 16, place, 16, ACL_MEMCPY_HOST_TO_DEVICE), 0);
        assert_eq!(
            copy(device, 16, place, 16, ACL_MEMCPY_DEVICE_TO_HOST),
            ACL_ERROR_RT_INVALID_MEMORY_TYPE
        );
        assert_eq!(
            copy(device, 8, place, 16, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID
        );
        assert_eq!(
            copy(device.byte_add(8), 16, place, 16, ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID
        );
        assert!(message().contains("past the end"));
        host = [0; 16];
        assert_eq!(copy(place, 16, device, 16, ACL_MEMCPY_DEFAULT), 0);
        assert_eq!(host, [7; 16]);
        assert_eq!(aclrtMemset(device, 16, 1, 4), 0);
        assert_eq!(download::<u8>(device, 5), [1, 1, 1, 1, 7]);
        assert_eq!(aclrtFree(device), 0);
        assert_eq!(
            copy(place, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST),
            ACL_ERROR_RT_PARAM_INVALID
        );
        assert!(message().contains("used after it was freed"));
    }
}

#[test]
fn a_missing_synchronisation_shows() {
    let _session = Session::with(slow());
    let (device, stream) = (malloc(4), stream());
    upload(device, &[1u8; 4]);
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclrtMemsetAsync(device, 4, 2, 4, stream), 0);
        let mut status = ACL_STREAM_STATUS_COMPLETE;
        assert_eq!(aclrtStreamQuery(stream, &mut status), 0);
        assert_eq!(status, ACL_STREAM_STATUS_NOT_READY);
        assert_eq!(
            download::<u8>(device, 4),
            [1; 4],
            "aclrtMemcpy waits for no stream"
        );
        assert_eq!(
            aclrtSynchronizeStreamWithTimeout(stream, 1),
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        );
        assert_eq!(aclrtSynchronizeStream(stream), 0);
        assert_eq!(download::<u8>(device, 4), [2; 4]);
        assert_eq!(aclrtDestroyStream(stream), 0);
        assert_eq!(aclrtFree(device), 0);
    }
}

/// Failed work shows in every wait and query of its stream, of its device and of events behind it.
#[test]
fn failed_work_is_told_by_streams_events_and_the_device() {
    let _session = Session::with(slow());
    let (stream, other, before, after) = (stream(), stream(), event(), event());
    let (source, target) = (malloc(64), malloc(64));
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclrtRecordEvent(before, stream), 0);
        let kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
        assert_eq!(aclrtMemcpyAsync(target, 64, source, 64, kind, stream), 0);
        assert_eq!(aclrtFree(source), 0);
        assert_eq!(aclrtRecordEvent(after, stream), 0);
        assert_eq!(aclrtStreamWaitEvent(other, after), 0);
        // By default a stream goes on.
        assert_eq!(aclrtMemsetAsync(target, 64, 5, 64, stream), 0);

        assert_eq!(aclrtSynchronizeEvent(before), 0);
        let failed = aclrtSynchronizeEvent(after);
        assert_eq!(failed, ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("used after it was freed"));
        let mut status = ACL_STREAM_STATUS_COMPLETE;
        assert_eq!(aclrtStreamQuery(stream, &mut status), failed);
        assert_eq!(aclrtSynchronizeStream(stream), failed);
        assert_eq!(aclrtSynchronizeDevice(), failed);
        assert_eq!(download::<u8>(target, 64), [5; 64]);
        // Who waited for the event is not told.
        assert_eq!(aclrtSynchronizeStream(other), 0);

        assert_eq!(aclrtFree(target), 0);
        for event in [before, after] {
            assert_eq!(aclrtDestroyEvent(event), 0);
        }
        for stream in [stream, other] {
            assert_eq!(aclrtDestroyStream(stream), 0);
        }
    }
}

#[test]
fn a_stream_that_stops_on_failure_computes_nothing_after_it() {
    let _session = Session::with(slow());
    let (stream, source, target) = (stream(), malloc(64), malloc(64));
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(
            aclrtSetStreamFailureMode(stream, 7),
            ACL_ERROR_RT_PARAM_INVALID
        );
        let mode = ACL_STOP_ON_FAILURE.into();
        assert_eq!(aclrtSetStreamFailureMode(stream, mode), 0);
        let kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
        assert_eq!(aclrtMemcpyAsync(target, 64, source, 64, kind, stream), 0);
        assert_eq!(aclrtFree(source), 0);
        assert_eq!(aclrtMemsetAsync(target, 64, 5, 64, stream), 0);
        assert_eq!(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(download::<u8>(target, 64), [0xff; 64]);
        assert_eq!(aclrtFree(target), 0);
        assert_eq!(aclrtDestroyStream(stream), 0);
    }
}

#[test]
fn a_stream_waits_for_an_event_no_longer_than_it_is_told_to() {
    let _session = Session::start();
    let (stream, other, event) = (stream(), stream(), event());
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclrtStreamWaitEventWithTimeout(stream, event, 20), 0);
        assert_eq!(
            aclrtSynchronizeStream(stream),
            ACL_ERROR_RT_EVENT_SYNC_TIMEOUT
        );
        assert_eq!(aclrtStreamWaitEvent(other, event), 0);
        let mut status = ACL_EVENT_WAIT_STATUS_COMPLETE;
        assert_eq!(aclrtQueryEventWaitStatus(event, &mut status), 0);
        assert_eq!(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
        assert_eq!(aclrtDestroyEvent(event), 0);
        for stream in [stream, other] {
            assert_eq!(aclrtDestroyStream(stream), 0);
        }
    }
}

#[test]
fn an_early_free_breaks_the_stream_and_the_wait_says_so() {
    let _session = Session::with(slow());
    let (device, stream) = (malloc(4), stream());
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclrtMemsetAsync(device, 4, 2, 4, stream), 0);
        assert_eq!(aclrtFree(device), 0);
        assert_ne!(aclrtSynchronizeStream(stream), 0);
        assert!(message().contains("used after it was freed"));
        assert_ne!(
            aclrtSynchronizeStream(stream),
            0,
            "a broken stream stays broken"
        );
        assert_eq!(aclrtDestroyStream(stream), 0);
    }
}

#[test]
fn an_event_orders_streams() {
    let _session = Session::with(slow());
    let device = malloc(4);
    let (first, second, mark) = (stream(), stream(), event());
    // SAFETY: handles are checked.
    unsafe {
        let mut status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
        assert_eq!(aclrtQueryEventStatus(mark, &mut status), 0);
        assert_eq!(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
        for _ in 0..3 {
            assert_eq!(aclrtMemsetAsync(device, 4, 1, 4, first), 0);
        }
        assert_eq!(aclrtRecordEvent(mark, first), 0);
        assert_eq!(aclrtStreamWaitEvent(second, mark), 0);
        assert_eq!(aclrtMemsetAsync(device, 4, 2, 4, second), 0);
        assert_eq!(aclrtSynchronizeStream(second), 0);
        assert_eq!(download::<u8>(device, 4), [2; 4]);
        assert_eq!(aclrtQueryEventStatus(mark, &mut status), 0);
        assert_eq!(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
        let (later, mut time) = (event(), 0.0);
        assert_eq!(aclrtRecordEvent(later, second), 0);
        assert_eq!(aclrtSynchronizeEvent(later), 0);
        assert_eq!(aclrtEventElapsedTime(&mut time, mark, later), 0);
        assert!(time >= 30.0, "{time} ms");
        assert_eq!(
            aclrtEventElapsedTime(&mut time, later, mark),
            ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL
        );
        for stream in [first, second] {
            assert_eq!(aclrtDestroyStream(stream), 0);
        }
        for event in [mark, later] {
            assert_eq!(aclrtDestroyEvent(event), 0);
        }
        assert_eq!(aclrtDestroyEvent(mark), ACL_ERROR_RT_INVALID_HANDLE);
        assert_eq!(aclrtFree(device), 0);
    }
}

#[test]
fn copies_on_a_stream_are_asynchronous_only_with_pinned_memory() {
    let _session = Session::with(slow());
    let (device, stream) = (malloc(4), stream());
    upload(device, &[5u8; 4]);
    // SAFETY: the places are valid, and pinned memory lives until the stream was waited for.
    unsafe {
        let mut pinned = null_mut();
        assert_eq!(aclrtMallocHost(&mut pinned, 4), 0);
        pinned.cast::<u8>().write_bytes(0, 4);
        let begun = Instant::now();
        let kind = ACL_MEMCPY_DEVICE_TO_HOST;
        assert_eq!(aclrtMemcpyAsync(pinned, 4, device, 4, kind, stream), 0);
        assert!(begun.elapsed() < Duration::from_millis(25));
        assert_eq!(pinned.cast::<u8>().read_volatile(), 0);
        assert_eq!(aclrtSynchronizeStream(stream), 0);
        assert_eq!(pinned.cast::<u8>().read_volatile(), 5);

        let mut pageable = [0u8; 4];
        assert_eq!(
            aclrtMemcpyAsync(pageable.as_mut_ptr().cast(), 4, device, 4, kind, stream),
            0
        );
        assert_eq!(pageable, [5; 4]);
        let to = pageable.as_mut_ptr().cast();
        let kind = ACL_MEMCPY_HOST_TO_HOST;
        assert_eq!(
            aclrtMemcpyAsync(to, 4, pinned, 4, kind, stream),
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT
        );
        assert_eq!(aclrtFreeHost(pinned), 0);
        assert_eq!(aclrtDestroyStream(stream), 0);
        assert_eq!(aclrtFree(device), 0);
    }
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
        assert_eq!(aclrtGetDevice(&mut device), 0);
        assert_eq!(device, 0);
        assert_eq!(
            aclrtSynchronizeStream(stream as aclrtStream),
            ACL_ERROR_RT_STREAM_CONTEXT
        );
        assert_eq!(aclrtSetDevice(9), ACL_ERROR_RT_INVALID_DEVICEID);
        assert_eq!(aclrtFree(address as *mut c_void), 0);
        assert_eq!(aclrtSetDevice(1), 0);
        assert_eq!(aclrtDestroyStream(stream as aclrtStream), 0);
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
    let report = session.end().join("\n");
    for part in ["24 bytes at", "stream", "event"] {
        assert!(report.contains(part), "{part} is not in {report}");
    }
    assert_eq!(usage(0).used, 0);
    assert_eq!(Session::start().end(), Vec::<String>::new());
}

#[test]
fn memory_of_a_reset_device_is_reported_too() {
    let session = Session::start();
    malloc(40);
    // SAFETY: it takes a number.
    assert_eq!(unsafe { aclrtResetDevice(0) }, 0);
    assert!(session.end().join("\n").contains("40 bytes at"));
}

#[test]
fn out_of_memory_comes_when_asked() {
    let _session = Session::with(Config {
        out_of_memory_at: Some(2),
        ..Config::default()
    });
    let first = malloc(8);
    let mut second = null_mut();
    // SAFETY: the places are variables.
    unsafe {
        let policy = ACL_MEM_MALLOC_HUGE_FIRST;
        assert_eq!(
            aclrtMalloc(&mut second, 8, policy),
            ACL_ERROR_RT_MEMORY_ALLOCATION
        );
        assert!(message().contains("as the emulator was asked"));
        let third = malloc(8);
        assert_eq!((aclrtFree(first), aclrtFree(third)), (0, 0));
    }
}

#[test]
fn the_latest_error_is_the_threads_and_is_told_once() {
    let _session = Session::start();
    // SAFETY: NULL is refused.
    unsafe {
        assert_eq!(aclrtFree(null_mut()), ACL_ERROR_INVALID_PARAM);
        assert_eq!(std::thread::spawn(message).join().expect("it ran"), "");
        assert_eq!(
            aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(
            aclrtGetLastError(ACL_RT_THREAD_LEVEL),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
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
        assert_eq!(
            aclsysGetVersionStr(c"runtime".as_ptr().cast_mut(), buffer.as_mut_ptr()),
            0
        );
        assert_eq!(
            std::ffi::CStr::from_ptr(buffer.as_ptr()).to_str(),
            Ok("8.1.RC1")
        );
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

#[test]
fn a_stream_that_waits_for_ever_can_be_destroyed_by_force() {
    let session = Session::start();
    let (stream, never) = (stream(), event());
    let second = self::stream();
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclrtStreamWaitEvent(stream, never), 0);
        assert_eq!(
            aclrtSynchronizeStreamWithTimeout(stream, 20),
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        );
        assert_eq!(aclrtSynchronizeEvent(never), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtDestroyStreamForce(stream), 0);
        assert_eq!(aclrtStreamWaitEvent(second, never), 0);
        assert_eq!(aclrtResetDevice(0), 0);
        assert_eq!(aclrtDestroyEvent(never), 0);
    }
    assert_eq!(session.end().len(), 1, "the second stream");
}

#[test]
fn a_lost_device_fails_all_that_reaches_it_and_nothing_hangs() {
    let session = Session::with(Config {
        device_lost_at: Some(2),
        ..slow()
    });
    let (first, event, address) = (stream(), event(), malloc(64));
    // SAFETY: handles and places are of this test, and are checked.
    unsafe {
        // Three tasks, and an event behind them; the second loses the device.
        for _ in 0..3 {
            assert_eq!(aclrtMemsetAsync(address, 64, 0, 64, first), 0);
        }
        assert_eq!(aclrtRecordEvent(event, first), 0);
        assert_eq!(aclrtSynchronizeStream(first), ACL_ERROR_RT_LOST_HEARTBEAT);
        assert!(message().contains("device 0 is lost"), "{}", message());
        assert_eq!(aclrtSynchronizeEvent(event), ACL_ERROR_RT_LOST_HEARTBEAT);
        // From now on whatever reaches it fails.
        let memset = aclrtMemsetAsync(address, 64, 0, 64, first);
        let mut place = null_mut();
        let malloc = aclrtMalloc(&mut place, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        let calls = [
            memset,
            malloc,
            aclrtSynchronizeDevice(),
            aclrtSetDevice(0),
            aclrtCreateStream(&mut place),
        ];
        assert_eq!(calls, [ACL_ERROR_RT_LOST_HEARTBEAT; 5]);
        // The other device is none the worse.
        assert_eq!(aclrtSetDevice(1), 0);
        let (second, address) = (stream(), self::malloc(64));
        assert_eq!(aclrtMemsetAsync(address, 64, 0, 64, second), 0);
        assert_eq!(aclrtSynchronizeStream(second), 0);
        assert_eq!(aclrtFree(address), 0);
    }
    session.end();
    // A process that begins anew has the device again.
    drop(Session::start());
}
