//! Tests of memory and copies.

use super::*;
use crate::common::*;

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
        each! { assert_same:
            aclrtMalloc(&mut address, 0, policy), ACL_ERROR_INVALID_PARAM;
            aclrtMalloc(null_mut(), 8, policy), ACL_ERROR_INVALID_PARAM;
            aclrtMalloc(&mut address, 2 << 20, policy), ACL_ERROR_RT_MEMORY_ALLOCATION;
        }
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
        each! { assert_same:
            copy(device, 16, place, 16, ACL_MEMCPY_HOST_TO_DEVICE), 0;
            copy(device, 16, place, 16, ACL_MEMCPY_DEVICE_TO_HOST),
                ACL_ERROR_RT_INVALID_MEMORY_TYPE;
            copy(device, 8, place, 16, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID;
            copy(device.byte_add(8), 16, place, 16, ACL_MEMCPY_HOST_TO_DEVICE),
                ACL_ERROR_RT_PARAM_INVALID;
        }
        assert!(message().contains("past the end"));
        host = [0; 16];
        each! { assert_same:
            copy(place, 16, device, 16, ACL_MEMCPY_DEFAULT), 0;
            host, [7; 16];
            aclrtMemset(device, 16, 1, 4), 0;
            download::<u8>(device, 5), [1, 1, 1, 1, 7];
            aclrtFree(device), 0;
            copy(place, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID;
        }
        assert!(message().contains("used after it was freed"));
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
        each! { assert_same:
            aclrtMemcpyAsync(pageable.as_mut_ptr().cast(), 4, device, 4, kind, stream), 0;
            pageable, [5; 4];
        }
        let to = pageable.as_mut_ptr().cast();
        let kind = ACL_MEMCPY_HOST_TO_HOST;
        each! { assert_same:
            aclrtMemcpyAsync(to, 4, pinned, 4, kind, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
            aclrtFreeHost(pinned), 0;
            aclrtDestroyStream(stream), 0;
            aclrtFree(device), 0;
        }
    }
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
