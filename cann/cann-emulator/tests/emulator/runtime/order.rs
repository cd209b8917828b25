//! Tests of the order of work: streams, events, and failures.

use super::*;
use crate::common::*;

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
        each! { assert_same:
            aclrtSynchronizeStreamWithTimeout(stream, 1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
            aclrtSynchronizeStream(stream), 0;
            download::<u8>(device, 4), [2; 4];
            aclrtDestroyStream(stream), 0;
            aclrtFree(device), 0;
        }
    }
}

/// Checks that failed work shows in every wait and query of its stream, of its device and of events behind it.
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
        // By default a stream goes on after a failure.
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
        // A stream that waited for the event does not report the failure.
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
        each! { assert_same:
            aclrtStreamWaitEventWithTimeout(stream, event, 20), 0;
            aclrtSynchronizeStream(stream), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
            aclrtStreamWaitEvent(other, event), 0;
        }
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
fn a_stream_that_waits_for_ever_can_be_destroyed_by_force() {
    let session = Session::start();
    let (stream, never) = (stream(), event());
    let second = self::stream();
    // SAFETY: handles are checked.
    unsafe {
        each! { assert_same:
            aclrtStreamWaitEvent(stream, never), 0;
            aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
            aclrtSynchronizeEvent(never), ACL_ERROR_RT_PARAM_INVALID;
            aclrtDestroyStreamForce(stream), 0;
            aclrtStreamWaitEvent(second, never), 0;
            aclrtResetDevice(0), 0;
            aclrtDestroyEvent(never), 0;
        }
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
        // There are three tasks and an event behind them. The second task loses the device.
        for _ in 0..3 {
            assert_eq!(aclrtMemsetAsync(address, 64, 0, 64, first), 0);
        }
        assert_eq!(aclrtRecordEvent(event, first), 0);
        assert_eq!(aclrtSynchronizeStream(first), ACL_ERROR_RT_LOST_HEARTBEAT);
        assert!(message().contains("device 0 is lost"), "{}", message());
        assert_eq!(aclrtSynchronizeEvent(event), ACL_ERROR_RT_LOST_HEARTBEAT);
        // From now on every use of the device fails.
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
        // The other device still works.
        assert_eq!(aclrtSetDevice(1), 0);
        let (second, address) = (stream(), self::malloc(64));
        assert_eq!(aclrtMemsetAsync(address, 64, 0, 64, second), 0);
        assert_eq!(aclrtSynchronizeStream(second), 0);
        assert_eq!(aclrtFree(address), 0);
    }
    session.end();
    // After a new start, the process has the device again.
    drop(Session::start());
}
