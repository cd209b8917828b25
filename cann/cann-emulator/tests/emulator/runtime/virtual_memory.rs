//! Tests of reserved addresses and of the physical memory that is mapped to them.

use super::*;

pub(super) const HUGE: usize = 2 << 20;

pub(super) fn properties(attribute: aclrtMemAttr, device: u32) -> aclrtPhysicalMemProp {
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

pub(super) fn reserve(size: usize) -> *mut c_void {
    let mut address = null_mut();
    // SAFETY: the place is a variable.
    let status = unsafe { aclrtReserveMemAddress(&mut address, size, 0, null_mut(), 1) };
    assert_eq!(status, 0, "{}", message());
    address
}

pub(super) fn physical(size: usize, device: u32) -> aclrtDrvMemHandle {
    let (mut handle, properties) = (null_mut(), properties(ACL_HBM_MEM_HUGE, device));
    // SAFETY: the places are variables.
    let status = unsafe { aclrtMallocPhysical(&mut handle, size, &properties, 0) };
    assert_eq!(status, 0, "{}", message());
    handle
}

pub(super) fn map(address: *mut c_void, size: usize, handle: aclrtDrvMemHandle) -> aclError {
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
    let mut byte = 0u8;
    let mut attributes = aclrtPtrAttributes {
        location: aclrtMemLocation {
            id: 7,
            type_: ACL_MEM_LOCATION_TYPE_HOST,
        },
        pageSize: 0,
        rsv: [0; 4],
    };
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
        each! { assert_same:
            aclrtPointerGetAttributes(second, &mut attributes), 0;
            attributes.location.type_, ACL_MEM_LOCATION_TYPE_DEVICE;
            attributes.location.id, 0;
            aclrtMemset(second, HUGE + 1, 0, HUGE + 1), ACL_ERROR_RT_PARAM_INVALID;
        }
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
