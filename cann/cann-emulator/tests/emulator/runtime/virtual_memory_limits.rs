//! Tests of reservations, physical memory and mappings that are refused.

use super::virtual_memory::{HUGE, map, physical, properties, reserve};
use super::*;
use crate::common::*;

#[test]
fn mappings_that_cannot_be_are_errors() {
    let _session = Session::start();
    let (address, first, other) = (reserve(2 * HUGE), physical(HUGE, 0), physical(HUGE, 1));
    let second = address.wrapping_byte_add(HUGE);
    let check = |at, size, handle, code| assert_eq!(map(at, size, handle), code, "{}", message());
    each! { check:
        null_mut(), HUGE, first, ACL_ERROR_INVALID_PARAM;
        address, HUGE, null_mut(), ACL_ERROR_INVALID_PARAM;
        address, HUGE, address, ACL_ERROR_RT_INVALID_HANDLE;
        address, HUGE / 2, first, ACL_ERROR_RT_PARAM_INVALID;
        address, 2 * HUGE, first, ACL_ERROR_RT_PARAM_INVALID;
        address.wrapping_byte_add(4096), HUGE, first, ACL_ERROR_RT_ADDR_UNALIGNED;
        address.wrapping_byte_add(2 * HUGE), HUGE, first, ACL_ERROR_RT_PARAM_INVALID;
        address.wrapping_byte_sub(HUGE), HUGE, first, ACL_ERROR_RT_PARAM_INVALID;
    }
    // SAFETY: addresses and handles are checked.
    unsafe {
        each! { assert_same:
            aclrtMapMem(address, HUGE, HUGE, first, 0), ACL_ERROR_INVALID_PARAM;
            aclrtMapMem(address, HUGE, 0, first, 1), ACL_ERROR_INVALID_PARAM;
        }
        assert_eq!(map(address, HUGE, first), 0, "{}", message());
        assert_eq!(map(address, HUGE, first), ACL_ERROR_RT_PARAM_INVALID);
        assert_eq!(map(second, HUGE, other), ACL_ERROR_RT_PARAM_INVALID);
        assert!(message().contains("another device"));
        each! { assert_same:
            aclrtUnmapMem(second), ACL_ERROR_RT_PARAM_INVALID;
            aclrtUnmapMem(address.wrapping_byte_add(4096)), ACL_ERROR_RT_PARAM_INVALID;
        }

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
        each! { assert_same:
            aclrtMallocPhysical(null_mut(), HUGE, &good, 0), ACL_ERROR_INVALID_PARAM;
            aclrtMallocPhysical(&mut handle, HUGE, null(), 0), ACL_ERROR_INVALID_PARAM;
            usage(0).used, 0;
        }
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
