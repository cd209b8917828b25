//! Tests of groups with a configuration.

use super::*;

/// A record as `HcclCommConfigInit` of CANN's header fills it, with the fields of its first version.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    size: usize,
    mark: u32,
    version: u32,
    reserved: u64,
    buffer_megabytes: u32,
    deterministic: u32,
    name: [u8; 128],
}

fn record(name: &[u8]) -> Record {
    let mut record = Record {
        size: size_of::<Record>(),
        mark: 0xf0f0_f0f0,
        version: 1,
        reserved: 0,
        buffer_megabytes: u32::MAX,
        deterministic: u32::MAX,
        name: [0; 128],
    };
    record.name[..name.len()].copy_from_slice(name);
    record
}

/// Makes a group of one rank.
fn start(record: &Record, comm: *mut HcclComm) -> HcclResult {
    let (root, config) = (root(), std::ptr::from_ref(record).cast());
    // SAFETY: the root, the record and the place are variables.
    unsafe { HcclCommInitRootInfoConfig(1, &root, 0, config, comm) }
}

/// Returns the name of a group of one rank, which is destroyed.
fn name_of(record: &Record) -> String {
    let (mut comm, mut name) = (null_mut(), [0; 128]);
    ok(start(record, &mut comm));
    // SAFETY: the places are variables, handles are checked.
    unsafe {
        ok(HcclGetCommName(comm, name.as_mut_ptr()));
        ok(HcclCommDestroy(comm));
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    }
}

#[test]
fn a_configuration_names_a_group() {
    let session = session(1, 0);
    // SAFETY: it takes nothing.
    assert_eq!(unsafe { HcclGetCommConfigCapability() }, 3);
    assert_eq!(name_of(&record(b"group_a")), "group_a");
    assert!(name_of(&record(b"")).starts_with("cann_emulator_group_"));
    let set = Record {
        buffer_megabytes: 200,
        deterministic: 1,
        ..record(b"b")
    };
    assert_eq!(name_of(&set), "b");
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn wrong_configurations_are_refused() {
    let _session = session(1, 0);
    let right = record(b"a");
    let mut comm = null_mut();
    for wrong in [
        Record { size: 24, ..right },
        Record { mark: 0, ..right },
        Record {
            version: 0,
            ..right
        },
        Record {
            reserved: 1,
            ..right
        },
        Record {
            buffer_megabytes: 0,
            ..right
        },
        Record {
            deterministic: 3,
            ..right
        },
        Record {
            name: [b'a'; 128],
            ..right
        },
    ] {
        assert_eq!(start(&wrong, &mut comm), HCCL_E_PARA, "{}", message());
    }
    assert_eq!(start(&right, null_mut()), HCCL_E_PTR);
    let root = root();
    // SAFETY: the root and the place are variables, and NULL is checked.
    let result = unsafe { HcclCommInitRootInfoConfig(1, &root, 0, std::ptr::null(), &mut comm) };
    assert_eq!(result, HCCL_E_PTR);
    assert!(comm.is_null());
}
