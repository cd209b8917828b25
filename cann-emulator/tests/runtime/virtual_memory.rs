//! Tests of reserved addresses and of the physical memory that is mapped to them.

use std::ptr::null;

use super::*;

const HUGE: usize = 2 << 20;

fn properties(attribute: aclrtMemAttr, device: u32) -> aclrtPhysicalMemProp {
    aclrtPhysicalMemProp {
        handleType: ACL_MEM_HANDLE_TYPE_NONE,
        allocationType: ACL_MEM_ALLOCATION_TYPE_PINNED,
        memAttr: attribute,
        location: aclrtMemLocation {
            id: device,
            type_: ACL_MEM_LOCATION_TYPE_DEVICE,
        },
        reserve: 0,
    }
}

fn reserve(size: usize) -> *mut c_void {
    let mut address = null_mut();
    // SAFETY: the place is a variable.
    let status = unsafe { aclrtReserveMemAddress(&mut address, size, 0, null_mut(), 1) };
    assert_eq!(status, 0, "{}", message());
    address
}

fn physical(size: usize, device: u32) -> aclrtDrvMemHandle {
    let (mut handle, properties) = (null_mut(), properties(ACL_HBM_MEM_HUGE, device));
    // SAFETY: the places are variables.
    let status = unsafe { aclrtMallocPhysical(&mut handle, size, &properties, 0) };
    assert_eq!(status, 0, "{}", message());
    handle
}

fn map(address: *mut c_void, size: usize, handle: aclrtDrvMemHandle) -> aclError {
    // SAFETY: addresses and handles are checked.
    unsafe { aclrtMapMem(address, size, 0, handle, 0) }
}

#[test]
fn memory_mapped_side_by_side_is_one() {
    let session = Session::start();
    let address = reserve(4 * HUGE);
    let handles = [physical(HUGE, 0), physical(2 * HUGE, 0)];
    assert_eq!(usage(0).used, 3 * HUGE);
    assert_eq!(map(address, HUGE, handles[0]), 0, "{}", message());
    let second = address.wrapping_byte_add(HUGE);
    assert_eq!(map(second, 2 * HUGE, handles[1]), 0, "{}", message());

    let across = address.wrapping_byte_add(HUGE - 8);
    assert!(
        download::<f32>(across, 4)
            .iter()
            .all(|value| value.is_nan())
    );
    upload(across, &[1.0f32, 2.0, 3.0, 4.0]);
    assert_eq!(download::<f32>(across, 4), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(download::<f32>(second, 2), [3.0, 4.0]);

    // The memory keeps its values where no address leads to it.
    // SAFETY: addresses and handles are checked.
    unsafe {
        assert_eq!(aclrtUnmapMem(second), 0, "{}", message());
        let third = address.wrapping_byte_add(2 * HUGE);
        assert_eq!(map(third, 2 * HUGE, handles[1]), 0, "{}", message());
        assert_eq!(download::<f32>(third, 2), [3.0, 4.0]);
        // Two addresses of the same memory.
        let other = reserve(2 * HUGE);
        assert_eq!(map(other, 2 * HUGE, handles[1]), 0, "{}", message());
        upload(other, &[5.0f32]);
        assert_eq!(download::<f32>(third, 2), [5.0, 4.0]);
        for mapped in [address, third, other] {
            assert_eq!(aclrtUnmapMem(mapped), 0, "{}", message());
        }
        for handle in handles {
            assert_eq!(aclrtFreePhysical(handle), 0, "{}", message());
        }
        assert_eq!(usage(0).used, 0);
        for reserved in [address, other] {
            assert_eq!(aclrtReleaseMemAddress(reserved), 0, "{}", message());
        }
    }
    assert!(session.end().is_empty());
}

#[test]
fn addresses_are_reserved_without_a_device() {
    let session = Session::start();
    let reserved = std::thread::spawn(|| {
        let address = reserve(512);
        let handle = &mut null_mut();
        // SAFETY: the places are variables, and addresses are checked.
        unsafe {
            let properties = properties(ACL_HBM_MEM_HUGE, 0);
            let status = aclrtMallocPhysical(handle, HUGE, &properties, 0);
            assert_eq!(status, ACL_ERROR_RT_CONTEXT_NULL);
            assert_eq!(aclrtReleaseMemAddress(address), 0, "{}", message());
        }
    });
    reserved.join().expect("no assertion failed");
    assert!(session.end().is_empty());
}

#[test]
fn addresses_without_memory_are_not_read() {
    let _session = Session::start();
    let (address, handle) = (reserve(3 * HUGE), physical(HUGE, 0));
    let (mut byte, mut attributes) = (
        0u8,
        aclrtPtrAttributes {
            location: aclrtMemLocation {
                id: 7,
                type_: ACL_MEM_LOCATION_TYPE_HOST,
            },
            pageSize: 0,
            rsv: [0; 4],
        },
    );
    let mut read = |from: usize, count| {
        let from = address.wrapping_byte_add(from);
        // SAFETY: the place is a variable, and nothing is written to it if the address has no memory.
        unsafe {
            aclrtMemcpy(
                (&raw mut byte).cast(),
                1,
                from,
                count,
                ACL_MEMCPY_DEVICE_TO_HOST,
            )
        }
    };
    assert_eq!(read(0, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert!(message().contains("no memory is mapped there"));
    let second = address.wrapping_byte_add(HUGE);
    assert_eq!(map(second, HUGE, handle), 0, "{}", message());
    assert_eq!(read(HUGE, 1), 0, "{}", message());
    assert_eq!(read(HUGE - 1, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert_eq!(read(2 * HUGE - 1, 1), 0, "{}", message());
    assert_eq!(read(2 * HUGE, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert_eq!(read(3 * HUGE, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert!(message().contains("is not a reserved address"));
    // SAFETY: the places are variables, and handles are checked.
    unsafe {
        assert_eq!(aclrtPointerGetAttributes(second, &mut attributes), 0);
        assert_eq!(attributes.location.type_, ACL_MEM_LOCATION_TYPE_DEVICE);
        assert_eq!(attributes.location.id, 0);
        assert_eq!(
            aclrtMemset(second, HUGE + 1, 0, HUGE + 1),
            ACL_ERROR_RT_PARAM_INVALID
        );
        assert_eq!(aclrtMemset(second, HUGE, 0, HUGE), 0, "{}", message());

        // A task that comes to an address after its memory was taken away.
        let stream = stream();
        assert_eq!(aclrtUnmapMem(second), 0, "{}", message());
        assert_eq!(aclrtMemsetAsync(second, HUGE, 0, HUGE, stream), 0);
        assert_ne!(aclrtSynchronizeStream(stream), 0);
        assert_eq!(aclrtDestroyStream(stream), 0);
        aclrtFreePhysical(handle);
        aclrtReleaseMemAddress(address);
    }
}

#[test]
fn mappings_that_cannot_be_are_errors() {
    let _session = Session::start();
    let (address, first, other) = (reserve(2 * HUGE), physical(HUGE, 0), physical(HUGE, 1));
    let second = address.wrapping_byte_add(HUGE);
    for (at, size, handle, code) in [
        (null_mut(), HUGE, first, ACL_ERROR_INVALID_PARAM),
        (address, HUGE, null_mut(), ACL_ERROR_INVALID_PARAM),
        (address, HUGE, address, ACL_ERROR_RT_INVALID_HANDLE),
        (address, HUGE / 2, first, ACL_ERROR_RT_PARAM_INVALID),
        (address, 2 * HUGE, first, ACL_ERROR_RT_PARAM_INVALID),
        (
            address.wrapping_byte_add(4096),
            HUGE,
            first,
            ACL_ERROR_RT_ADDR_UNALIGNED,
        ),
        (
            address.wrapping_byte_add(2 * HUGE),
            HUGE,
            first,
            ACL_ERROR_RT_PARAM_INVALID,
        ),
        (
            address.wrapping_byte_sub(HUGE),
            HUGE,
            first,
            ACL_ERROR_RT_PARAM_INVALID,
        ),
    ] {
        assert_eq!(map(at, size, handle), code, "{}", message());
    }
    // SAFETY: addresses and handles are checked.
    unsafe {
        assert_eq!(
            aclrtMapMem(address, HUGE, HUGE, first, 0),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(
            aclrtMapMem(address, HUGE, 0, first, 1),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(map(address, HUGE, first), 0, "{}", message());
        assert_eq!(map(address, HUGE, first), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(map(second, HUGE, other), ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("another device"));
        assert_eq!(aclrtUnmapMem(second), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(
            aclrtUnmapMem(address.wrapping_byte_add(4096)),
            ACL_ERROR_RT_PARAM_INVALID
        );

        // Nothing that is mapped is given back.
        assert_eq!(aclrtFreePhysical(first), ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("aclrtUnmapMem"));
        assert_eq!(aclrtReleaseMemAddress(address), ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("aclrtUnmapMem"));
        assert_eq!(aclrtFree(address), ACL_ERROR_INVALID_PARAM);

        assert_eq!(aclrtUnmapMem(address), 0, "{}", message());
        assert_eq!(aclrtUnmapMem(address), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtFreePhysical(first), 0);
        assert_eq!(aclrtFreePhysical(first), ACL_ERROR_RT_INVALID_HANDLE);
        assert_eq!(aclrtFreePhysical(null_mut()), ACL_ERROR_INVALID_PARAM);
        assert_eq!(aclrtFreePhysical(other), 0);
        assert_eq!(aclrtReleaseMemAddress(second), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtReleaseMemAddress(address), 0);
        assert_eq!(aclrtReleaseMemAddress(address), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtUnmapMem(address), ACL_ERROR_RT_PARAM_INVALID);
    }
}

#[test]
fn requests_that_cannot_be_met_are_errors() {
    let _session = Session::with(Config {
        memory: 4 * HUGE,
        out_of_memory_at: Some(3),
        ..Config::default()
    });
    let (mut address, mut handle) = (null_mut(), null_mut());
    // SAFETY: the places are variables, and values are checked.
    unsafe {
        let mut reserve = |size, alignment, wish, flags| {
            aclrtReserveMemAddress(&mut address, size, alignment, wish, flags)
        };
        assert_eq!(reserve(0, 0, null_mut(), 1), ACL_ERROR_INVALID_PARAM);
        assert_eq!(reserve(HUGE, HUGE, null_mut(), 1), ACL_ERROR_INVALID_PARAM);
        assert_eq!(reserve(HUGE, 0, null_mut(), 2), ACL_ERROR_INVALID_PARAM);
        let wish = HUGE as *mut c_void;
        assert_eq!(reserve(HUGE, 0, wish, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        for size in [usize::MAX, usize::MAX - HUGE, 1 << 45] {
            let status = reserve(size, 0, null_mut(), 1);
            assert_eq!(status, ACL_ERROR_RT_MEMORY_ALLOCATION);
        }
        // Programs reserve a few bytes to see whether this works, and more than the memory.
        assert_eq!(reserve(512, 0, null_mut(), 1), 0, "{}", message());
        assert_eq!(aclrtReleaseMemAddress(address), 0);
        let status = aclrtReserveMemAddress(null_mut(), HUGE, 0, null_mut(), 1);
        assert_eq!(status, ACL_ERROR_INVALID_PARAM);

        let good = properties(ACL_HBM_MEM_HUGE, 0);
        let mut allocate = |size, properties: &aclrtPhysicalMemProp, flags| {
            aclrtMallocPhysical(&mut handle, size, properties, flags)
        };
        for (size, properties, flags, code) in [
            (HUGE, &good, 1, ACL_ERROR_INVALID_PARAM),
            (
                HUGE,
                &properties(ACL_HBM_MEM, 0),
                0,
                ACL_ERROR_INVALID_PARAM,
            ),
            (
                HUGE,
                &aclrtPhysicalMemProp {
                    handleType: aclrtMemHandleType(1),
                    ..good
                },
                0,
                ACL_ERROR_INVALID_PARAM,
            ),
            (
                HUGE,
                &aclrtPhysicalMemProp {
                    location: aclrtMemLocation {
                        id: 0,
                        type_: ACL_MEM_LOCATION_TYPE_HOST,
                    },
                    ..good
                },
                0,
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            ),
            (
                HUGE,
                &properties(ACL_HBM_MEM_HUGE, 2),
                0,
                ACL_ERROR_RT_INVALID_DEVICEID,
            ),
            (0, &good, 0, ACL_ERROR_INVALID_PARAM),
            (HUGE + 4096, &good, 0, ACL_ERROR_RT_PARAM_INVALID),
        ] {
            assert_eq!(allocate(size, properties, flags), code, "{}", message());
        }
        let status = allocate(6 * HUGE, &good, 0);
        assert_eq!(status, ACL_ERROR_RT_MEMORY_ALLOCATION);
        assert!(
            message().contains("as the emulator was asked"),
            "the third is counted"
        );
        let status = allocate(6 * HUGE, &good, 0);
        assert_eq!(status, ACL_ERROR_RT_MEMORY_ALLOCATION);
        assert!(message().contains("left"));
        assert_eq!(
            aclrtMallocPhysical(null_mut(), HUGE, &good, 0),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(
            aclrtMallocPhysical(&mut handle, HUGE, null(), 0),
            ACL_ERROR_INVALID_PARAM
        );
        assert_eq!(usage(0).used, 0);
    }
}

#[test]
fn the_pages_say_what_sizes_are_whole() {
    let _session = Session::start();
    for (attribute, expected) in [
        (ACL_HBM_MEM_NORMAL, 4 << 10),
        (ACL_HBM_MEM_P2P_HUGE, HUGE),
        (ACL_HBM_MEM_HUGE1G, 1 << 30),
    ] {
        let mut granularity = 0;
        for option in [
            ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
            ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED,
        ] {
            // SAFETY: the places are variables.
            let status = unsafe {
                aclrtMemGetAllocationGranularity(
                    &mut properties(attribute, 0),
                    option,
                    &mut granularity,
                )
            };
            assert_eq!((status, granularity), (0, expected));
        }
    }
    let option = ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF;
    // SAFETY: the places are variables.
    let status = unsafe {
        aclrtMemGetAllocationGranularity(&mut properties(ACL_HBM_MEM_HUGE, 0), option, &mut 0)
    };
    assert_eq!(status, ACL_ERROR_INVALID_PARAM);
}

#[test]
fn only_a_stream_copies_reserved_memory_between_devices() {
    let _session = Session::start();
    let (address, handle) = (reserve(HUGE), physical(HUGE, 0));
    assert_eq!(map(address, HUGE, handle), 0, "{}", message());
    upload(address, &[1.5f32]);
    // SAFETY: addresses and handles are checked.
    unsafe {
        assert_eq!(aclrtSetDevice(1), 0);
        let (there, kind) = (malloc(4), ACL_MEMCPY_DEVICE_TO_DEVICE);
        let status = aclrtMemcpy(there, 4, address, 4, kind);
        assert_eq!(status, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        assert!(message().contains("aclrtMemcpyAsync"));
        assert_eq!(aclrtMemcpyAsync(there, 4, address, 4, kind, null_mut()), 0);
        assert_eq!(aclrtSynchronizeStream(null_mut()), 0, "{}", message());
        assert_eq!(download::<f32>(there, 1), [1.5]);
        assert_eq!(aclrtFree(there), 0);
        assert_eq!(aclrtResetDevice(1), 0);
        assert_eq!(aclrtSetDevice(0), 0);
        assert_eq!(aclrtUnmapMem(address), 0);
        assert_eq!(aclrtFreePhysical(handle), 0);
        assert_eq!(aclrtReleaseMemAddress(address), 0);
    }
}

#[test]
fn what_is_not_given_back_is_reported_and_lost_with_the_device() {
    let session = Session::start();
    let (address, handle) = (reserve(HUGE), physical(HUGE, 1));
    assert_eq!(map(address, HUGE, handle), 0, "{}", message());
    // SAFETY: addresses and handles are checked.
    unsafe {
        assert_eq!(aclrtSetDevice(1), 0);
        assert_eq!(aclrtResetDevice(1), 0);
        assert_eq!(aclrtSetDevice(0), 0);
        assert_eq!(usage(1).used, 0);
        assert_eq!(aclrtMemset(address, 1, 0, 1), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE);
    }
    let report = session.end().join("\n");
    assert!(
        report.contains("2097152 bytes of physical memory"),
        "{report}"
    );
    assert!(report.contains("2097152 addresses reserved"), "{report}");
}

#[test]
fn memory_of_other_processes_is_refused() {
    let _session = Session::start();
    let (mut handle, mut number, mut process) = (physical(HUGE, 0), 0, 0);
    // SAFETY: the places are variables.
    unsafe {
        assert_eq!(aclrtDeviceGetBareTgid(&mut process), 0);
        assert_eq!(process as u32, std::process::id());
        assert_eq!(aclrtDeviceGetBareTgid(null_mut()), ACL_ERROR_INVALID_PARAM);
        let refused = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        let kind = ACL_MEM_HANDLE_TYPE_NONE;
        assert_eq!(
            aclrtMemExportToShareableHandle(handle, kind, 0, &mut number),
            refused
        );
        assert!(message().contains("not emulated"));
        assert_eq!(aclrtMemSetPidToShareableHandle(1, &mut process, 1), refused);
        let own = handle;
        assert_eq!(
            aclrtMemImportFromShareableHandle(1, 0, &mut handle),
            refused
        );
        assert_eq!(handle, own, "nothing was written");
        assert_eq!(aclrtFreePhysical(handle), 0);
    }
}
