//! Tests of descriptors, lists and executors: the protocol of two phases, and violations of it.

use crate::common::*;
use std::time::Duration;

use cann_emulator::abi::{activation::*, runtime::*};
use cann_emulator::{Config, usage};
use cann_sys::errors::*;

/// Runs phase one of SwiGLU over [2, 8].
fn phase_one(x: &Tensor, y: &Tensor) -> (u64, *mut aclOpExecutor) {
    let (mut size, mut executor) = (0, null_mut());
    // SAFETY: handles are checked, the places are variables.
    let status =
        unsafe { aclnnSwiGluGetWorkspaceSize(x.handle, -1, y.handle, &mut size, &mut executor) };
    assert_eq!(status, 0, "{}", message());
    (size, executor)
}

fn operands() -> (Tensor, Tensor) {
    (
        Tensor::floats(F32, &[2, 8], &noise(16, 1)),
        Tensor::empty(F32, &[2, 4]),
    )
}

fn synchronize() {
    // SAFETY: NULL is the default stream.
    let status = unsafe { aclrtSynchronizeStream(null_mut()) };
    assert_eq!(status, 0, "{}", message());
}

#[test]
fn an_executor_is_spent_by_phase_two() {
    let session = Session::start();
    {
        let (x, y) = operands();
        let (size, executor) = phase_one(&x, &y);
        let workspace = malloc(size as usize);
        // SAFETY: handles are checked.
        unsafe {
            assert_eq!(aclnnSwiGlu(workspace, size, executor, null_mut()), 0);
            synchronize();
            assert_eq!(
                aclnnSwiGlu(workspace, size, executor, null_mut()),
                ACLNN_ERR_PARAM_INVALID
            );
            assert!(message().contains("was destroyed"));
            assert_eq!(aclrtFree(workspace), 0);
        }
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn an_executor_is_spent_by_a_phase_two_that_fails_too() {
    let session = Session::start();
    {
        let (x, y) = operands();
        let (size, executor) = phase_one(&x, &y);
        assert!(size > 0);
        // SAFETY: handles are checked.
        unsafe {
            assert_eq!(
                aclnnSwiGlu(null_mut(), size, executor, null_mut()),
                ACLNN_ERR_PARAM_NULLPTR
            );
            assert!(message().contains("the workspace is NULL"));
            assert_eq!(aclDestroyAclOpExecutor(executor), ACLNN_ERR_PARAM_INVALID);
        }
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn an_executor_that_never_runs_must_be_destroyed() {
    let session = Session::start();
    let (x, y) = operands();
    let (_, first) = phase_one(&x, &y);
    phase_one(&x, &y);
    // SAFETY: handles are checked.
    assert_eq!(unsafe { aclDestroyAclOpExecutor(first) }, 0);
    drop((x, y));
    assert_eq!(session.end(), ["1 of kind executor were never destroyed"]);
}

#[test]
fn a_repeatable_executor_runs_often_and_with_other_addresses() {
    let session = Session::start();
    {
        let (x, y) = operands();
        let other = Tensor::floats(F32, &[2, 8], &noise(16, 2));
        let (size, executor) = phase_one(&x, &y);
        let workspace = malloc(size as usize);
        // SAFETY: handles are checked.
        unsafe {
            assert_eq!(aclSetAclOpExecutorRepeatable(executor), 0);
            assert_eq!(aclnnSwiGlu(workspace, size, executor, null_mut()), 0);
            synchronize();
            let first = y.read();
            each! { assert_same:
                aclSetInputTensorAddr(executor, 0, x.handle, other.address), 0;
                aclnnSwiGlu(workspace, size, executor, null_mut()), 0;
            }
            synchronize();
            let second = y.read();
            assert_ne!(first, second);
            each! { assert_same:
                aclSetTensorAddr(executor, 0, x.handle, x.address), 0;
                aclSetOutputTensorAddr(executor, 0, y.handle, other.address), 0;
                aclnnSwiGlu(workspace, size, executor, null_mut()), 0;
            }
            synchronize();
            each! { assert_same:
                download::<f32>(other.address, 8), first;
                y.read(), second;
                aclSetInputTensorAddr(executor, 1, x.handle, x.address), ACLNN_ERR_PARAM_INVALID;
                aclDestroyAclOpExecutor(executor), 0;
                aclrtFree(workspace), 0;
            }
        }
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn addresses_of_an_executor_that_is_not_repeatable_stay() {
    let _session = Session::start();
    let (x, y) = operands();
    let (_, executor) = phase_one(&x, &y);
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(
            aclSetTensorAddr(executor, 0, x.handle, x.address),
            ACLNN_ERR_PARAM_INVALID
        );
        assert!(message().contains("aclSetAclOpExecutorRepeatable"));
        assert_eq!(aclDestroyAclOpExecutor(executor), 0);
    }
}

#[test]
fn operands_live_until_phase_two() {
    let _session = Session::start();
    let (x, y) = operands();
    let (size, executor) = phase_one(&x, &y);
    let workspace = malloc(size as usize);
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclDestroyTensor(x.handle), 0);
        let status = aclnnSwiGlu(workspace, size, executor, null_mut());
        assert_eq!(status, ACLNN_ERR_PARAM_INVALID);
        assert!(message().contains("destroyed between the phases"));
        assert_eq!(aclDestroyTensor(x.handle), ACLNN_ERR_PARAM_INVALID);
        assert_eq!(aclDestroyTensor(null()), 0);
        assert_eq!(aclrtFree(workspace), 0);
    }
}

#[test]
fn a_workspace_freed_before_the_stream_comes_to_it_is_found() {
    let _session = Session::with(Config {
        delay: Duration::from_millis(30),
        ..Config::default()
    });
    let (x, y) = operands();
    let (size, executor) = phase_one(&x, &y);
    let workspace = malloc(size as usize);
    // SAFETY: handles are checked.
    unsafe {
        assert_eq!(aclnnSwiGlu(workspace, size, executor, null_mut()), 0);
        assert_eq!(aclrtFree(workspace), 0);
        let status = aclrtSynchronizeStream(null_mut());
        assert_eq!(status, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
        assert!(message().contains("aclnnSwiGlu: "));
    }
}

#[test]
fn nulls_host_memory_and_unaligned_data_are_refused() {
    let _session = Session::start();
    let (x, y) = operands();
    let (mut size, mut executor) = (0, null_mut());
    // SAFETY: handles are checked, the places are variables.
    unsafe {
        let mut one = |x, y| aclnnSwiGluGetWorkspaceSize(x, -1, y, &mut size, &mut executor);
        assert_eq!(one(null(), y.handle), ACLNN_ERR_PARAM_NULLPTR);
        assert_eq!(one(x.handle, null()), ACLNN_ERR_PARAM_NULLPTR);
        let status = aclnnSwiGluGetWorkspaceSize(x.handle, -1, y.handle, null_mut(), &mut executor);
        assert_eq!(status, ACLNN_ERR_PARAM_NULLPTR);
    }
    let mut host = [0f32; 32];
    let host = host.as_mut_ptr();
    // The address is aligned, so that nothing else is wrong with it.
    let host = host.wrapping_add(host.align_offset(32));
    for (address, word) in [
        (host.cast(), "not a device address"),
        // SAFETY: the address is only compared.
        (unsafe { x.address.byte_add(4) }, "not aligned to 32 bytes"),
    ] {
        let view = descriptor(address, F32, &[2, 4], None, 0, 8);
        let output = descriptor(y.address, F32, &[2, 2], None, 0, 8);
        let status = call!(aclnnSwiGlu: view, -1, output);
        let (_, text) = status.expect_err("it must fail");
        assert!(text.contains(word), "{text}");
        // SAFETY: handles are checked.
        unsafe { (aclDestroyTensor(view), aclDestroyTensor(output)) };
    }
}

#[test]
fn the_executor_of_another_operator_is_refused() {
    let _session = Session::start();
    let (x, y) = operands();
    let (size, executor) = phase_one(&x, &y);
    let workspace = malloc(size as usize);
    // SAFETY: handles are checked.
    unsafe {
        let status = aclnnSwiGluGrad(workspace, size, executor, null_mut());
        assert_eq!(status, ACLNN_ERR_PARAM_INVALID);
        assert!(message().contains("the executor is one of aclnnSwiGlu"));
        assert_eq!(aclrtFree(workspace), 0);
    }
}

#[test]
fn an_operator_fails_when_asked() {
    let _session = Session::with(Config {
        operator_errors: [("aclnnSwiGlu".to_owned(), 561003)].into(),
        ..Config::default()
    });
    let (x, y) = operands();
    let (mut size, mut executor) = (0, null_mut());
    // SAFETY: handles are checked, the places are variables.
    let status =
        unsafe { aclnnSwiGluGetWorkspaceSize(x.handle, -1, y.handle, &mut size, &mut executor) };
    assert_eq!(status, ACLNN_ERR_INNER_FIND_KERNEL_ERROR);
    assert!(executor.is_null());
}

#[test]
fn descriptors_say_what_they_were_told() {
    let _session = Session::start();
    let tensor = Tensor::strided(F32, &[2, 3], Some(&[1, 4]), 5, 64);
    // SAFETY: the arrays are malloc's, as CANN's are new's.
    unsafe {
        let (mut array, mut count) = (null_mut(), 0);
        assert_eq!(aclGetViewShape(tensor.handle, &mut array, &mut count), 0);
        assert_eq!(std::slice::from_raw_parts(array, count as usize), [2, 3]);
        libc::free(array.cast());
        assert_eq!(aclGetViewStrides(tensor.handle, &mut array, &mut count), 0);
        assert_eq!(std::slice::from_raw_parts(array, count as usize), [1, 4]);
        libc::free(array.cast());
        let (mut offset, mut dtype, mut format) = (0, ACL_DT_UNDEFINED, ACL_FORMAT_UNDEFINED);
        assert_eq!(aclGetViewOffset(tensor.handle, &mut offset), 0);
        assert_eq!(aclGetDataType(tensor.handle, &mut dtype), 0);
        assert_eq!(aclGetFormat(tensor.handle, &mut format), 0);
        assert_eq!((offset, dtype, format), (5, F32, ACL_FORMAT_ND));
    }
}

#[test]
fn bad_descriptors_are_null() {
    let _session = Session::start();
    // SAFETY: NULL where an array is needed is refused.
    unsafe {
        let none = aclCreateTensor(
            null(),
            2,
            F32,
            null(),
            0,
            ACL_FORMAT_ND,
            null(),
            0,
            null_mut(),
        );
        assert!(none.is_null());
        assert!(message().contains("is NULL"));
        let shape = [-1];
        let none = aclCreateTensor(
            shape.as_ptr(),
            1,
            F32,
            null(),
            0,
            ACL_FORMAT_ND,
            shape.as_ptr(),
            0,
            null_mut(),
        );
        assert!(none.is_null());
    }
    assert!(
        descriptor(null_mut(), F32, &[4, 4], None, 1, 16).is_null(),
        "it goes past its storage"
    );
    let scalar = descriptor(null_mut(), F32, &[], None, 0, 1);
    assert!(!scalar.is_null(), "a tensor of no axes has one element");
    // SAFETY: handles are checked.
    unsafe { aclDestroyTensor(scalar) };
}

#[test]
fn a_list_owns_its_members() {
    let session = Session::start();
    let address = malloc(64);
    let members: Vec<_> = (0..3)
        .map(|_| descriptor(address, F32, &[4], None, 0, 4).cast_const())
        .collect();
    // SAFETY: handles are checked, the array is valid.
    unsafe {
        let list = aclCreateTensorList(members.as_ptr(), 3);
        let mut count = 0;
        assert_eq!(aclGetTensorListSize(list, &mut count), 0);
        assert_eq!(count, 3);
        assert_eq!(aclDestroyTensorList(list), 0);
        assert_eq!(
            aclDestroyTensor(members[0]),
            ACLNN_ERR_PARAM_INVALID,
            "gone with the list"
        );
        assert_eq!(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID);
        assert_eq!(aclDestroyIntArray(list.cast()), ACLNN_ERR_PARAM_INVALID);
        let ints = aclCreateIntArray([1, 2].as_ptr(), 2);
        assert_eq!(
            aclDestroyTensor(ints.cast()),
            ACLNN_ERR_PARAM_INVALID,
            "another kind"
        );
        assert_eq!(aclDestroyIntArray(ints), 0);
        let mut value = 1.5f32;
        let scalar = aclCreateScalar((&raw mut value).cast(), F32);
        assert_eq!(aclDestroyScalar(scalar), 0);
        assert_eq!(aclrtFree(address), 0);
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

#[test]
fn many_small_operators_leave_nothing_behind() {
    let session = Session::start();
    {
        let (x, y) = operands();
        let before = usage(0).used;
        for _ in 0..20_000 {
            let one = |size: *mut u64, executor: *mut *mut aclOpExecutor| {
                // SAFETY: handles are checked, the places are variables.
                unsafe { aclnnSwiGluGetWorkspaceSize(x.handle, -1, y.handle, size, executor) }
            };
            run(one, aclnnSwiGlu).expect("documented");
        }
        assert_eq!(usage(0).used, before);
    }
    assert_eq!(session.end(), Vec::<String>::new());
}

/// Calls end with a status, whatever the descriptor holds.
#[test]
fn random_descriptors_break_nothing() {
    let _session = Session::start();
    let address = malloc(256);
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let lengths = [0, 1, 2, 3, 8, 64, -1, i64::MAX, 1 << 40, i64::MIN];
    let mut made = 0;
    for _ in 0..20_000 {
        // The numbers are mostly small, and some overflow.
        let mut number = || {
            let most = if next(8) == 0 {
                lengths.len() as u64
            } else {
                6
            };
            lengths[next(most) as usize]
        };
        let shape: Vec<i64> = (0..4).map(|_| number()).collect();
        let strides: Vec<i64> = (0..4).map(|_| number()).collect();
        let storage: Vec<i64> = (0..2).map(|_| number()).collect();
        let offset = number();
        let rank = next(5);
        let strided = next(2) == 0;
        let data = [null_mut(), address][next(2) as usize];
        // SAFETY: the arrays are as long as the ranks say; handles and addresses are checked.
        unsafe {
            let create = |dtype| {
                let strides = if strided { strides.as_ptr() } else { null() };
                let (shape, storage) = (shape.as_ptr(), storage.as_ptr());
                aclCreateTensor(
                    shape,
                    rank,
                    dtype,
                    strides,
                    offset,
                    ACL_FORMAT_ND,
                    storage,
                    2,
                    data,
                )
            };
            let (x, y) = (create(F32), create(F32));
            made += u32::from(!x.is_null());
            let one = |size: *mut u64, executor: *mut *mut aclOpExecutor| {
                aclnnSwiGluGetWorkspaceSize(x, 0, y, size, executor)
            };
            let _ = run(one, aclnnSwiGlu);
            for tensor in [x, y] {
                assert_eq!(aclDestroyTensor(tensor), 0);
            }
        }
    }
    assert!(
        (1000..19_000).contains(&made),
        "{made} of 20000 were possible"
    );
    // SAFETY: handles are checked.
    assert_eq!(unsafe { aclrtFree(address) }, 0);
}

#[test]
fn threads_work_on_their_own_devices_at_once() {
    let session = Session::start();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                let device = number % 2;
                // SAFETY: it takes a number.
                assert_eq!(unsafe { aclrtSetDevice(device) }, 0);
                for seed in 0..200 {
                    let x = Tensor::floats(F32, &[2, 8], &noise(16, seed));
                    let y = Tensor::empty(F32, &[2, 4]);
                    call!(aclnnSwiGlu: x, -1, y).expect("documented");
                    let (x, y) = (x.read(), y.read());
                    let expected = x[0] / (1.0 + (-x[0]).exp()) * x[4];
                    assert!(
                        (y[0] - expected).abs() < 1e-6,
                        "device {device}, seed {seed}"
                    );
                }
                // SAFETY: it takes a number.
                assert_eq!(unsafe { aclrtResetDevice(device) }, 0);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("nothing failed");
    }
    assert_eq!(session.end(), Vec::<String>::new());
}
