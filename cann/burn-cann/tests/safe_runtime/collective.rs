//! Tests of groups of devices: sums, calls that differ, and lost devices.

use std::time::{Duration, Instant};

use crate::common::Scenario;
use burn_cann::{Cann, Device, Group, Layout, Result, Stream, Tensor};
use half::{bf16, f16};

/// A device in a group, with a stream of its own.
struct Rank {
    device: Device,
    stream: Stream,
}

fn ranks(cann: &Cann, ids: &[u32]) -> Vec<Rank> {
    let open = |id: &u32| {
        let device = Device::open(cann, *id).unwrap();
        let stream = device.stream().unwrap();
        Rank { device, stream }
    };
    ids.iter().map(open).collect()
}

fn group(ranks: &[Rank]) -> Result<Group> {
    Group::new(
        &ranks
            .iter()
            .map(|rank| rank.device.clone())
            .collect::<Vec<_>>(),
    )
}

fn put(rank: &Rank, values: &[f32]) -> Tensor {
    Tensor::from_slice(&rank.stream, values, [values.len()]).unwrap()
}

/// Returns the error of a wait, which must not take long. The emulator's own limit is half an hour.
fn lost(stream: &Stream) -> String {
    let begun = Instant::now();
    let error = stream.synchronise().unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    error
}

#[test]
fn devices_in_any_order_add_up() {
    let scenario = Scenario::new();
    let scenario = scenario
        .set("CANN_EMULATOR_DEVICES", 3)
        .set("CANN_EMULATOR_DELAY_US", 500);
    scenario.run(|cann| {
        for ids in [&[0, 1][..], &[2, 0, 1], &[1, 2]] {
            let ranks = ranks(cann, ids);
            let group = group(&ranks).unwrap();
            // One thread calls for all, twice, and each result is used without a wait.
            let twice = |rank: &Rank| {
                let x = put(rank, &[1.0, rank.device.id() as f32, 0.5]);
                let sum = group.sum(&rank.stream, &x)?;
                group.sum(&rank.stream, &sum)
            };
            let sums: Vec<_> = ranks.iter().map(|rank| twice(rank).unwrap()).collect();
            let (count, total) = (ids.len() as f32, ids.iter().sum::<u32>() as f32);
            for (rank, sum) in ranks.iter().zip(sums) {
                let expected = [count * count, total * count, 0.5 * count * count];
                assert_eq!(sum.to_vec::<f32>(&rank.stream).unwrap(), expected);
            }
        }
    });
}

#[test]
fn half_types_views_and_empty_tensors_add_up() {
    Scenario::new().run(|cann| {
        let ranks = ranks(cann, &[0, 1]);
        let group = group(&ranks).unwrap();
        let sums = |make: &dyn Fn(&Stream) -> Tensor| -> Vec<Tensor> {
            let sum = |rank: &Rank| group.sum(&rank.stream, &make(&rank.stream)).unwrap();
            ranks.iter().map(sum).collect()
        };
        let halves =
            sums(&|stream| Tensor::from_slice(stream, &[f16::from_f32(1.5)], [1]).unwrap());
        let found = halves[1].to_vec::<f16>(&ranks[1].stream).unwrap();
        assert_eq!(found, [f16::from_f32(3.0)]);
        let brains =
            sums(&|stream| Tensor::from_slice(stream, &[bf16::from_f32(1.5)], [1]).unwrap());
        let found = brains[0].to_vec::<bf16>(&ranks[0].stream).unwrap();
        assert_eq!(found, [bf16::from_f32(3.0)]);
        let parts = sums(&|stream| {
            let all = Tensor::from_slice(stream, &[1f32, 2.0, 3.0, 4.0], [4]).unwrap();
            all.with_layout(Layout::strided([2], [1], 2).unwrap())
                .unwrap()
        });
        assert_eq!(
            parts[0].to_vec::<f32>(&ranks[0].stream).unwrap(),
            [6.0, 8.0]
        );
        let empty = sums(&|stream| Tensor::from_slice::<f32>(stream, &[], [0]).unwrap());
        assert_eq!(empty[0].shape(), [0]);
    });
}

#[test]
fn what_can_t_be_added_up_is_refused() {
    Scenario::new().run(|cann| {
        let ranks = ranks(cann, &[0, 1]);
        let alone = group(&ranks[..1]).unwrap_err().to_string();
        assert!(alone.contains("at least two devices"), "{alone}");
        let one = [&ranks[0], &ranks[0]].map(|rank| rank.device.clone());
        let twice = Group::new(&one).unwrap_err().to_string();
        assert!(
            twice.contains("HcclCommInitAll") && twice.contains("twice"),
            "{twice}"
        );

        let group = group(&ranks).unwrap();
        let stream = &ranks[0].stream;
        let ints = Tensor::from_slice(stream, &[1i32], [1]).unwrap();
        let error = group.sum(stream, &ints).unwrap_err().to_string();
        assert!(
            error.contains("i32") && error.contains("f32, f16 and bf16"),
            "{error}"
        );
        let other = ranks[0].device.stream().unwrap();
        let x = put(&ranks[0], &[1.0]);
        let sum = group.sum(stream, &x).unwrap();
        let error = group.sum(&other, &x).unwrap_err().to_string();
        assert!(
            error.contains("NPU 0 took part with another stream"),
            "{error}"
        );
        // The group works on.
        group
            .sum(&ranks[1].stream, &put(&ranks[1], &[2.0]))
            .unwrap();
        assert_eq!(sum.to_vec::<f32>(stream).unwrap(), [3.0]);
    });
}

/// The device whose call comes second gets the error, and the other does not wait for it.
#[test]
fn calls_that_differ_are_an_error_of_all() {
    let scenario = Scenario::new().leaks();
    scenario.run(|cann| {
        let ranks = ranks(cann, &[0, 1]);
        let group = group(&ranks).unwrap();
        group
            .sum(&ranks[0].stream, &put(&ranks[0], &[1.0, 2.0]))
            .unwrap();
        let other = put(&ranks[1], &[1.0]);
        let error = group.sum(&ranks[1].stream, &other).unwrap_err().to_string();
        let expected = "NPU 1 reduces 1 elements of f32 where NPU 0 reduces 2 of f32";
        assert!(error.contains(expected), "{error}");
        assert!(lost(&ranks[0].stream).contains(expected));
        let again = group.sum(&ranks[1].stream, &other).unwrap_err();
        assert!(again.to_string().contains(expected), "{again}");
    });
}

#[test]
fn a_member_that_leaves_is_an_error_of_those_who_wait() {
    let scenario = Scenario::new().leaks();
    scenario.run(|cann| {
        let ranks = ranks(cann, &[0, 1]);
        let group = group(&ranks).unwrap();
        let members: Vec<_> = ranks
            .iter()
            .map(|rank| group.join(&rank.device).unwrap())
            .collect();
        let sum = |rank: &Rank| group.sum(&rank.stream, &put(rank, &[1.0]));
        let found = [sum(&ranks[0]), sum(&ranks[1])].map(Result::unwrap);
        let mut members = members.into_iter();
        let first = members.next();
        drop(members);
        // The member did its part before it left.
        assert_eq!(found[0].to_vec::<f32>(&ranks[0].stream).unwrap(), [2.0]);
        sum(&ranks[0]).unwrap();
        let error = lost(&ranks[0].stream);
        assert!(
            error.contains("NPU 1 is lost for the group of NPU 0, NPU 1"),
            "{error}"
        );
        let again = group.sum(&ranks[0].stream, &found[0]);
        assert!(again.is_err() && group.join(&ranks[1].device).is_err());
        drop(first);
    });
}

#[test]
fn a_lost_device_is_an_error_of_the_others() {
    // The device is lost with each of the first tasks in turn: uploads, and the sums themselves.
    for task in 1..=6 {
        let scenario = Scenario::new().leaks();
        let scenario = scenario.set("CANN_EMULATOR_LOSE_DEVICE_AT", task);
        scenario.run(|cann| {
            let ranks = ranks(cann, &[0, 1]);
            let group = group(&ranks).unwrap();
            let step = |rank: &Rank| -> Result<()> {
                let sum = group.sum(
                    &rank.stream,
                    &Tensor::from_slice(&rank.stream, &[1f32], [1])?,
                )?;
                group.sum(&rank.stream, &sum).map(drop)
            };
            let asked: Vec<_> = ranks.iter().map(step).collect();
            let begun = Instant::now();
            let waited = ranks.iter().map(|rank| rank.stream.synchronise());
            let ends: Vec<_> = asked
                .into_iter()
                .zip(waited)
                .map(|(asked, waited)| asked.and(waited))
                .collect();
            assert!(begun.elapsed() < Duration::from_secs(20));
            assert!(ends.iter().any(Result::is_err), "{ends:?}");
            for error in ends.iter().filter_map(|end| end.as_ref().err()) {
                let said = error.to_string();
                assert!(said.contains("lost"), "{said}");
            }
        });
        if crate::common::inside() {
            return;
        }
    }
}

/// Nobody has told the group of the device then.
#[test]
fn a_device_lost_before_its_first_sum_is_an_error_of_the_others() {
    let scenario = Scenario::new().leaks();
    let scenario = scenario.set("CANN_EMULATOR_LOSE_DEVICE_AT", 1);
    scenario.run(|cann| {
        let ranks = ranks(cann, &[0, 1]);
        let group = group(&ranks).unwrap();
        let upload = Tensor::from_slice(&ranks[0].stream, &[1f32], [1]);
        let first = upload.and_then(|_| ranks[0].stream.synchronise());
        assert!(first.unwrap_err().to_string().contains("lost"));
        group
            .sum(&ranks[1].stream, &put(&ranks[1], &[1.0]))
            .unwrap();
        let said = lost(&ranks[1].stream);
        assert!(said.contains("NPU 0 is lost"), "{said}");
    });
}
