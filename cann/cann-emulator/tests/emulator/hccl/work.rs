//! The work of a rank, in a thread or a process of its own, compared with the definitions of the collectives.

use super::*;

/// Every collective with equal counts.
pub fn every_collective(this: &Rank) {
    let (rank, all) = (this.rank, 0..this.ranks);
    let mine = this.buffer(&brings(rank, 6));
    let sum = |at: usize| all.clone().map(|rank| brings(rank, 6)[at]).sum::<f32>();
    let (comm, stream) = (this.comm, this.stream);
    // SAFETY: handles and addresses are checked.
    unsafe {
        let reduced = this.buffer(&[0f32; 6]);
        ok(HcclAllReduce(mine, reduced, 6, F32, SUM, comm, stream));
        assert_eq!(
            this.read::<f32>(reduced, 6),
            (0..6).map(sum).collect::<Vec<_>>()
        );

        let gathered = this.buffer(&vec![0f32; 6 * this.ranks]);
        ok(HcclAllGather(mine, gathered, 6, F32, comm, stream));
        let expected: Vec<f32> = all.clone().flat_map(|rank| brings(rank, 6)).collect();
        assert_eq!(this.read::<f32>(gathered, 6 * this.ranks), expected);

        // Every rank has all blocks, and each gets the sum of its own.
        let block = this.buffer(&[0f32; 6]);
        ok(HcclReduceScatter(
            gathered, block, 6, F32, SUM, comm, stream,
        ));
        let expected: Vec<f32> = brings(rank, 6)
            .iter()
            .map(|value| value * this.ranks as f32)
            .collect();
        assert_eq!(this.read::<f32>(block, 6), expected);

        let root = this.ranks - 1;
        let told = this.buffer(&brings(rank, 6));
        ok(HcclBroadcast(told, 6, F32, root as u32, comm, stream));
        assert_eq!(this.read::<f32>(told, 6), brings(root, 6));

        let result = this.buffer(&[0f32; 6]);
        ok(HcclReduce(
            mine,
            result,
            6,
            F32,
            HCCL_REDUCE_MAX,
            0,
            comm,
            stream,
        ));
        let expected = if rank == 0 {
            brings(this.ranks - 1, 6)
        } else {
            vec![0.0; 6]
        };
        assert_eq!(this.read::<f32>(result, 6), expected);

        let share = this.buffer(&[0f32; 6]);
        ok(HcclScatter(
            gathered,
            share,
            6,
            F32,
            root as u32,
            comm,
            stream,
        ));
        assert_eq!(this.read::<f32>(share, 6), brings(rank, 6));

        // The result is the transpose: rank r gets from s what s holds for r.
        let send = this.buffer(&brings(rank, 2 * this.ranks));
        let receive = this.buffer(&vec![0f32; 2 * this.ranks]);
        ok(HcclAlltoAll(send, 2, F32, receive, 2, F32, comm, stream));
        let expected: Vec<f32> = all
            .clone()
            .flat_map(|sender| brings(sender, 2 * this.ranks)[2 * rank..][..2].to_vec())
            .collect();
        assert_eq!(this.read::<f32>(receive, 2 * this.ranks), expected);

        ok(HcclBarrier(comm, stream));
        // These calls are in place, and with a count of zero.
        ok(HcclAllReduce(mine, mine, 6, F32, SUM, comm, stream));
        ok(HcclAllReduce(
            null_mut(),
            null_mut(),
            0,
            F32,
            SUM,
            comm,
            stream,
        ));
        assert_eq!(
            this.read::<f32>(mine, 6),
            (0..6).map(sum).collect::<Vec<_>>()
        );
    }
}

/// Rank r of two sends r + 1 elements to each rank and leaves one out between the blocks.
pub fn different_counts(this: &Rank) {
    let count = this.rank + 1;
    let send = this.buffer(&brings(this.rank, 8));
    let send_counts = [count as u64; 2];
    let send_offsets = [0, count as u64 + 1];
    let (receive_counts, receive_offsets) = ([1u64, 2], [3u64, 0]);
    let receive = this.buffer(&[0f32; 4]);
    // SAFETY: the arrays are variables, handles are checked.
    unsafe {
        ok(HcclAlltoAllV(
            send,
            send_counts.as_ptr().cast(),
            send_offsets.as_ptr().cast(),
            F32,
            receive,
            receive_counts.as_ptr().cast(),
            receive_offsets.as_ptr().cast(),
            F32,
            this.comm,
            this.stream,
        ));
        let from = |rank: usize| brings(rank, 8)[this.rank * (rank + 2)..][..rank + 1].to_vec();
        let found = this.read::<f32>(receive, 4);
        assert_eq!(
            (found[3..].to_vec(), found[..2].to_vec()),
            (from(0), from(1))
        );

        let receive = this.buffer(&[0f32; 4]);
        ok(HcclAllGatherV(
            send,
            count as u64,
            receive,
            receive_counts.as_ptr().cast(),
            receive_offsets.as_ptr().cast(),
            F32,
            this.comm,
            this.stream,
        ));
        let found = this.read::<f32>(receive, 4);
        assert_eq!(found[3..], brings(0, 1));
        assert_eq!(found[..2], brings(1, 2));

        let part = this.buffer(&[0f32; 2]);
        ok(HcclReduceScatterV(
            send,
            receive_counts.as_ptr().cast(),
            receive_offsets.as_ptr().cast(),
            part,
            count as u64,
            F32,
            SUM,
            this.comm,
            this.stream,
        ));
        let sums: Vec<f32> = (0..count)
            .map(|at| {
                let at = at + receive_offsets[this.rank] as usize;
                brings(0, 8)[at] + brings(1, 8)[at]
            })
            .collect();
        assert_eq!(this.read::<f32>(part, 2)[..count], sums);
    }
}

/// Reductions of three ranks.
pub fn every_reduction(this: &Rank) {
    macro_rules! check {
        ($type:ty, $dtype:expr, $op:expr, $values:expr, $expected:expr) => {{
            let values: [$type; 3] = $values;
            let data = this.buffer(&[values[this.rank]]);
            // SAFETY: handles and addresses are checked.
            unsafe {
                ok(HcclAllReduce(
                    data,
                    data,
                    1,
                    $dtype,
                    $op,
                    this.comm,
                    this.stream,
                ))
            };
            assert_eq!(this.read::<$type>(data, 1), [$expected]);
        }};
    }
    let (product, most, least) = (HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN);
    check!(i8, HCCL_DATA_TYPE_INT8, SUM, [100, 20, 9], -127);
    check!(i16, HCCL_DATA_TYPE_INT16, least, [4, -9, 2], -9);
    check!(i32, HCCL_DATA_TYPE_INT32, product, [-3, 5, 7], -105);
    check!(
        i64,
        HCCL_DATA_TYPE_INT64,
        SUM,
        [1 << 40, 2, 3],
        (1 << 40) + 5
    );
    check!(f32, F32, most, [1.5, -2.0, 9.25], 9.25);
    let half = half::f16::from_f32;
    // Each sum is rounded, so 2048 + 1 is 2048.
    let values = [half(2048.0), half(1.0), half(1.0)];
    check!(half::f16, HCCL_DATA_TYPE_FP16, SUM, values, half(2048.0));
    let brain = half::bf16::from_f32;
    let values = [brain(1.0), brain(2.0), brain(0.5)];
    check!(half::bf16, HCCL_DATA_TYPE_BFP16, SUM, values, brain(3.5));
}

/// Transfers between two ranks.
pub fn transfers(this: &Rank) {
    let (other, comm, stream) = (1 - this.rank as u32, this.comm, this.stream);
    let first = this.buffer(&brings(this.rank, 3));
    let second = this.buffer(&brings(this.rank + 5, 3));
    let places = [(); 2].map(|()| this.buffer(&[0f32; 3]));
    // SAFETY: handles and addresses are checked.
    unsafe {
        if this.rank == 0 {
            ok(HcclSend(first, 3, F32, other, comm, stream));
            ok(HcclSend(second, 3, F32, other, comm, stream));
        } else {
            for place in places {
                ok(HcclRecv(place, 3, F32, other, comm, stream));
            }
            assert_eq!(this.read::<f32>(places[0], 3), brings(0, 3));
            assert_eq!(this.read::<f32>(places[1], 3), brings(5, 3));
        }
        // Both are sent in one call. Single transfers would wait for ever.
        let item = |kind, buf| HcclSendRecvItem {
            sendRecvType: kind,
            buf,
            count: 3,
            dataType: F32,
            remoteRank: other,
        };
        let mut items = [item(HCCL_SEND, first), item(HCCL_RECV, places[0])];
        ok(HcclBatchSendRecv(items.as_mut_ptr(), 2, comm, stream));
        assert_eq!(this.read::<f32>(places[0], 3), brings(other as usize, 3));
    }
}
