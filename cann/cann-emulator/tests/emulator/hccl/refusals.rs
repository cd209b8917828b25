//! Tests that invalid groups, collectives and transfers are refused.

use super::*;

#[test]
fn wrong_arguments_are_refused_before_the_stream() {
    let _session = session(2, 0);
    group(2, |this| {
        let (comm, stream, nothing) = (this.comm, this.stream, null_mut());
        let data = this.buffer(&[0f32; 4]);
        let mut host = [0f32; 4];
        let host: *mut c_void = host.as_mut_ptr().cast();
        let (bf16, i16) = (HCCL_DATA_TYPE_BFP16, HCCL_DATA_TYPE_INT16);
        let (wide, product) = (HCCL_DATA_TYPE_FP64, HCCL_REDUCE_PROD);
        let broadcast = |root| {
            // SAFETY: handles and addresses are checked.
            unsafe { HcclBroadcast(data, 4, F32, root, comm, stream) }
        };
        let send = |to| {
            // SAFETY: handles and addresses are checked.
            unsafe { HcclSend(data, 4, F32, to, comm, stream) }
        };
        let all_reduce = |send, receive, count, dtype, op, comm, stream| {
            // SAFETY: handles and addresses are checked.
            unsafe { HcclAllReduce(send, receive, count, dtype, op, comm, stream) }
        };
        let check = |result, expected| assert_eq!(result, expected, "{}", message());
        each! { check:
            all_reduce(data, data, 4, F32, SUM, nothing, stream), HCCL_E_PTR;
            all_reduce(data, data, 4, F32, SUM, data, stream), HCCL_E_PARA;
            all_reduce(data, data, 4, F32, SUM, comm, nothing), HCCL_E_PTR;
            all_reduce(nothing, data, 4, F32, SUM, comm, stream), HCCL_E_PTR;
            all_reduce(data, host, 4, F32, SUM, comm, stream), HCCL_E_PARA;
            all_reduce(data, data, 1 << 31, F32, SUM, comm, stream), HCCL_E_PARA;
            all_reduce(data, data, 4, wide, SUM, comm, stream), HCCL_E_NOT_SUPPORT;
            all_reduce(data, data, 4, bf16, product, comm, stream), HCCL_E_NOT_SUPPORT;
            all_reduce(data, data, 4, i16, product, comm, stream), HCCL_E_NOT_SUPPORT;
            all_reduce(data, data, 4, HCCL_DATA_TYPE_RESERVED, SUM, comm, stream), HCCL_E_NOT_SUPPORT;
            all_reduce(data, data, 4, F32, HCCL_REDUCE_RESERVED, comm, stream), HCCL_E_PARA;
            all_reduce(data, data, 4, F32, SUM, comm, data), HCCL_E_RUNTIME;
            broadcast(2), HCCL_E_PARA;
            send(this.rank as u32), HCCL_E_PARA;
        }
        // Nothing was enqueued.
        ok(all_reduce(data, data, 4, F32, SUM, comm, stream));
        this.wait();
    });
    // SAFETY: it takes a number, and the text is static.
    unsafe {
        let text = |code| CStr::from_ptr(HcclGetErrorString(code)).to_string_lossy();
        assert!(text(HCCL_E_PTR).contains("NULL"));
        assert!(text(HcclResult(99)).contains("unknown"));
    }
}

#[test]
fn ranks_that_call_different_collectives_fail_and_say_so() {
    let _session = session(2, 0);
    group(2, |this| {
        let data = this.buffer(&[0f32; 8]);
        // SAFETY: handles and addresses are checked.
        unsafe {
            ok(match this.rank {
                0 => HcclAllReduce(data, data, 4, F32, SUM, this.comm, this.stream),
                _ => HcclAllGather(data, data, 4, F32, this.comm, this.stream),
            });
            assert_eq!(
                aclrtSynchronizeStream(this.stream),
                ACL_ERROR_RT_PARAM_INVALID
            );
            assert!(message().contains("the same collectives"), "{}", message());
            let mut error = HCCL_SUCCESS;
            ok(HcclGetCommAsyncError(this.comm, &mut error));
            assert_eq!(error, HCCL_E_REMOTE);
        }
    });
    group(2, |this| {
        let data = this.buffer(&[0f32; 8]);
        // SAFETY: handles and addresses are checked.
        unsafe {
            let count = 4 - this.rank as u64;
            ok(HcclAllReduce(
                data,
                data,
                count,
                F32,
                SUM,
                this.comm,
                this.stream,
            ));
            assert_eq!(
                aclrtSynchronizeStream(this.stream),
                ACL_ERROR_RT_PARAM_INVALID
            );
        }
    });
}

#[test]
fn roots_and_ranks_that_cannot_be_are_refused() {
    let _session = session(2, 0);
    let mut comm = null_mut();
    let mut join = |ranks, root: &HcclRootInfo, rank| {
        // SAFETY: the places are variables.
        unsafe { HcclCommInitRootInfo(ranks, root, rank, &mut comm) }
    };
    let good = root();
    assert_eq!(join(2, &good, 2), HCCL_E_PARA);
    assert_eq!(join(0, &good, 0), HCCL_E_PARA);
    let mut other = good;
    // The number of the group comes after the mark and the process.
    other.internal[20] ^= 1;
    assert_eq!(join(2, &other, 0), HCCL_E_TCP_CONNECT);
    assert!(message().contains("on another machine"));
    other.internal[0] ^= 1;
    assert_eq!(join(2, &other, 0), HCCL_E_PARA);
    ok(join(1, &good, 0));
    // SAFETY: handles are checked.
    unsafe { ok(HcclCommDestroy(comm)) };

    // Both ranks have the same device.
    let (root, come) = (root(), Barrier::new(2));
    std::thread::scope(|scope| {
        let results: Vec<_> = (0..2)
            .map(|rank| {
                let (root, come) = (&root, &come);
                scope.spawn(move || {
                    let mut comm = null_mut();
                    // SAFETY: the places are variables, handles are checked.
                    unsafe {
                        assert_eq!(aclrtSetDevice(0), 0);
                        come.wait();
                        let result = HcclCommInitRootInfo(2, root, rank, &mut comm);
                        if result == HCCL_E_PARA {
                            assert!(message().contains("another rank's"));
                            // The other rank waits for a rank with a device of its own.
                            assert_eq!(aclrtSetDevice(1), 0);
                            ok(HcclCommInitRootInfo(2, root, rank, &mut comm));
                            assert_eq!(aclrtResetDevice(1), 0);
                        }
                        ok(HcclCommDestroy(comm));
                        assert_eq!(aclrtResetDevice(0), 0);
                        result
                    }
                })
            })
            .collect();
        let results: Vec<_> = results
            .into_iter()
            .map(|thread| thread.join().expect("it ends"))
            .collect();
        assert!(results.contains(&HCCL_E_PARA) && results.contains(&HCCL_SUCCESS));
    });
}
