//! Tests of the allocator and of the order of work, on an emulator whose work takes time.

use crate::common::maths::Random;
use crate::common::{Scenario, device};
use burn_cann::{DType, Error, Pinned, Stream, Tensor, ops};

const SIZE: usize = 2048;

/// Computes SwiGLU of a tensor whose first half gates the second: silu(1) times `value`.
fn gated(stream: &Stream, value: f32) -> Tensor {
    let mut x = vec![1.0; SIZE];
    x[SIZE / 2..].fill(value);
    Tensor::from_slice(stream, &x, [SIZE]).unwrap()
}

#[track_caller]
fn is_gated(stream: &Stream, y: &Tensor, value: f32) {
    for found in y.to_vec::<f32>(stream).unwrap() {
        assert!(
            (found - 0.731_058_6 * value).abs() < 1e-5 * value,
            "{found} for {value}"
        );
    }
}

#[test]
fn a_block_is_not_reused_under_the_hands_of_another_stream() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 20_000)
        .run(|cann| {
            let (device, slow) = device(cann);
            let other = device.stream().unwrap();
            let x = gated(&slow, 1.0);
            // The work on x is queued behind other work.
            let busy: Vec<_> = (0..8).map(|_| gated(&slow, 5.0)).collect();
            let y = ops::swi_glu::swi_glu(&slow, &x, 0).unwrap();
            let block = x.memory().unwrap().size();
            let cached = device.statistics().cached;
            drop(x);
            assert_eq!(device.statistics().cached, cached + block);
            // The other stream is empty, so it would come first.
            assert!(!slow.is_idle().unwrap());
            let taken = gated(&other, 9.0);
            is_gated(&slow, &y, 1.0);
            drop((busy, taken));
        });
}

#[test]
fn work_of_other_code_runs_in_order() {
    use cann_sys::runtime::ACL_MEMCPY_DEVICE_TO_DEVICE;
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 5000)
        .run(|cann| {
            let (device, other) = device(cann);
            let stream = device.stream().unwrap();
            let copy = cann.sys().runtime.aclrtMemcpyAsync.get().unwrap();
            // The second half of x, which other work on another stream writes.
            let y = ops::swi_glu::swi_glu(&other, &gated(&other, 3.0), 0).unwrap();
            let half = y.slice(0, SIZE / 4..SIZE / 2).unwrap();
            let z = Tensor::empty(&stream, DType::F32, [SIZE / 4]).unwrap();
            let bytes = SIZE / 4 * DType::F32.size();
            // SAFETY: the copy is of the elements of the two tensors, and on the stream.
            let enqueued = unsafe {
                stream.enqueue::<Error>(
                    &[&half, &z],
                    || Ok(64),
                    |handles| {
                        assert!(!handles.workspace.is_null());
                        let kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
                        let (to, from) = (z.address(), half.address());
                        assert_eq!(copy(to, bytes, from, bytes, kind, handles.stream), 0);
                        Ok(())
                    },
                )
            };
            enqueued.unwrap();
            drop(y);
            is_gated(&stream, &z, 3.0);
        });
}

#[test]
fn a_block_is_reused_on_its_own_stream_at_once_and_in_order() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 2000)
        .run(|cann| {
            let (device, stream) = device(cann);
            let results: Vec<_> = (1..8)
                .map(|value| {
                    ops::swi_glu::swi_glu(&stream, &gated(&stream, value as f32), 0).unwrap()
                })
                .collect();
            // There is one block for the inputs, one for each output and one for the workspace.
            assert_eq!(device.statistics().device_requests, 7 + 2);
            for (place, y) in results.iter().enumerate() {
                is_gated(&stream, y, (place + 1) as f32);
            }
        });
}

#[test]
fn work_of_one_stream_waits_for_its_inputs_on_another() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 20_000)
        .run(|cann| {
            let (device, first) = device(cann);
            let second = device.stream().unwrap();
            let busy: Vec<_> = (0..4).map(|_| gated(&first, 5.0)).collect();
            let x = gated(&first, 3.0);
            let y = ops::swi_glu::swi_glu(&second, &x, 0).unwrap();
            is_gated(&second, &y, 3.0);
            drop(busy);
        });
}

#[test]
fn any_program_on_three_streams_is_as_if_on_one() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 150)
        .run(|cann| {
            let (device, first) = device(cann);
            let streams = [first, device.stream().unwrap(), device.stream().unwrap()];
            for seed in 0..4 {
                let mut random = Random::new(seed);
                let mut tensors: Vec<(Tensor, Vec<i32>)> = Vec::new();
                for step in 0..200 {
                    let stream = &streams[random.below(3)];
                    let values = vec![step; 100 + 100 * random.below(3)];
                    match random.below(5) {
                        0 | 1 => {
                            let tensor =
                                Tensor::from_slice(stream, &values, [values.len()]).unwrap();
                            tensors.push((tensor, values));
                        }
                        2 if !tensors.is_empty() => {
                            drop(tensors.swap_remove(random.below(tensors.len())));
                        }
                        3 if !tensors.is_empty() => {
                            let place = random.below(tensors.len());
                            let (tensor, held) = &mut tensors[place];
                            held.fill(step);
                            let buffer = burn_cann::Pinned::from_slice(&device, held).unwrap();
                            drop(tensor.upload(stream, buffer).unwrap());
                        }
                        _ if !tensors.is_empty() => {
                            let (tensor, held) = &tensors[random.below(tensors.len())];
                            assert_eq!(
                                tensor.to_vec::<i32>(stream).unwrap(),
                                *held,
                                "seed {seed}, step {step}"
                            );
                        }
                        _ => {}
                    }
                }
                for (tensor, held) in &tensors {
                    assert_eq!(tensor.to_vec::<i32>(&streams[0]).unwrap(), *held);
                }
            }
        });
}

#[test]
fn threads_share_a_tensor_on_streams_of_their_own() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 100)
        .run(|cann| {
            let (device, stream) = device(cann);
            let x = gated(&stream, 2.0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let own = device.stream().unwrap();
                        for _ in 0..30 {
                            let y = ops::swi_glu::swi_glu(&own, &x, 0).unwrap();
                            is_gated(&own, &y, 2.0);
                        }
                    });
                }
            });
            drop(x);
            assert_eq!(device.statistics().in_use, 0);
        });
}

#[test]
fn want_of_memory_empties_the_cache_and_then_is_an_error_one_recovers_from() {
    Scenario::new()
        .set("CANN_EMULATOR_MEMORY", 1 << 20)
        .run(|cann| {
            let (device, stream) = device(cann);
            let small: Vec<_> = (0..12)
                .map(|_| Tensor::empty(&stream, DType::U8, [1 << 16]).unwrap())
                .collect();
            drop(small);
            assert!(device.statistics().cached >= 12 << 16);
            let large = Tensor::empty(&stream, DType::U8, [7 << 17]).unwrap();
            let figures = device.statistics();
            assert_eq!((figures.flushes, figures.cached), (1, 0));
            let refused = Tensor::empty(&stream, DType::U8, [1 << 18]);
            let Err(
                error @ Error::OutOfMemory {
                    device: 0,
                    bytes: 0x4_0000,
                    ..
                },
            ) = refused
            else {
                panic!("{refused:?}")
            };
            assert!(error.to_string().contains("out of memory"), "{error}");
            drop(large);
            Tensor::empty(&stream, DType::U8, [1 << 18]).unwrap();
            device.release_cache().unwrap();
            assert_eq!(device.statistics().cached, 0);
            let (free, total) = device.memory().unwrap();
            assert_eq!(free, total, "everything is back with the device");
        });
}

#[test]
fn one_failed_allocation_anywhere_goes_unnoticed() {
    for place in 1..=6 {
        Scenario::new()
            .set("CANN_EMULATOR_OOM_AT", place)
            .run(|cann| {
                let (_device, stream) = device(cann);
                for value in 1..4 {
                    let y =
                        ops::swi_glu::swi_glu(&stream, &gated(&stream, value as f32), 0).unwrap();
                    is_gated(&stream, &y, value as f32);
                }
            });
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn a_failing_operator_is_an_error_and_leaves_nothing() {
    Scenario::new()
        .set("CANN_EMULATOR_FAIL", "aclnnSwiGlu=561003")
        .run(|cann| {
            let (device, stream) = device(cann);
            for _ in 0..3 {
                let error = ops::swi_glu::swi_glu(&stream, &gated(&stream, 1.0), 0).unwrap_err();
                let Error::Call {
                    function,
                    code,
                    message,
                } = error
                else {
                    panic!("{error}")
                };
                assert_eq!(function, "aclnnSwiGlu");
                assert_eq!(code.name(), Some("ACLNN_ERR_INNER_FIND_KERNEL_ERROR"));
                assert!(message.is_some());
            }
            stream.synchronise().unwrap();
            assert_eq!(device.statistics().in_use, 0);
        });
}

#[test]
fn the_peak_is_counted() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let one = Tensor::empty(&stream, DType::U8, [4096]).unwrap();
        let two = Tensor::empty(&stream, DType::U8, [8192]).unwrap();
        drop(one);
        assert_eq!(device.statistics().peak, 4096 + 8192);
        device.reset_peak();
        assert_eq!(device.statistics().peak, 8192);
        drop(two);
    });
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .expect("a number")
        * 4096
}

/// Returns the number of rounds, each of three operations. There are a hundred thousand operations, or as many as the
/// variable says: `.ci/run --long` sets more, because small leaks show late.
fn rounds() -> usize {
    match std::env::var("SMALL_OPERATIONS") {
        Ok(operations) => {
            operations
                .parse::<usize>()
                .expect("SMALL_OPERATIONS is a number")
                / 3
        }
        Err(_) => 34_000,
    }
}

/// Each round calls two operators, uploads a little and downloads a little.
#[test]
fn small_operations_grow_nothing() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let gamma = Tensor::from_slice(&stream, &[1.0f32; 32], [32]).unwrap();
        let round = |count: usize| {
            for step in 0..count {
                let x = Tensor::from_slice(&stream, &[0.5f32; 64], [2, 32]).unwrap();
                let y = ops::rms_norm::rms_norm(&stream, &x, &gamma, 1e-6)
                    .unwrap()
                    .y;
                let z = ops::swi_glu::swi_glu(&stream, &y, 1).unwrap();
                // The host waits now and then, because work in flight would grow otherwise.
                if step % 50 == 49 {
                    assert_eq!(z.to_vec::<f32>(&stream).unwrap().len(), 32);
                }
            }
            stream.synchronise().unwrap();
        };
        round(2000);
        let (before, figures) = (resident(), device.statistics());
        let (executors, pinned) = (device.executor_statistics(), device.pinned_statistics());
        round(rounds());
        let after = device.statistics();
        assert_eq!(
            after.device_requests, figures.device_requests,
            "nothing more from the device"
        );
        assert_eq!((after.in_use, after.peak), (figures.in_use, figures.peak));
        assert_eq!(device.executor_statistics().kept, 2);
        assert_eq!(device.executor_statistics().misses, executors.misses);
        // The host was asked for as many buffers as were in use at once, which may be a few more than before.
        let asked = device.pinned_statistics().misses - pinned.misses;
        assert!(asked <= 50, "{asked} more from the host");
        let grown = resident().saturating_sub(before);
        assert!(grown < 16 << 20, "the process grew by {grown} bytes");
    });
}

#[test]
fn pinned_memory_is_kept_for_the_next_buffer() {
    let scenario = Scenario::new();
    scenario.set("CANN_EMULATOR_DELAY_US", 5000).run(|cann| {
        let (device, stream) = device(cann);
        let one = Pinned::from_slice(&device, &[1.0f32; 100]).unwrap();
        let address = one.as_ptr();
        drop(one);
        let two = Pinned::<u8>::zeroed(&device, 390).unwrap();
        assert_eq!(two.as_ptr(), address.cast());
        assert_eq!(two[..], [0; 390], "nothing of the last buffer is left");
        let figures = device.pinned_statistics();
        assert_eq!((figures.hits, figures.misses, figures.cached), (1, 1, 0));
        drop(two);

        // A buffer that a copy still uses is not free.
        let x = Tensor::empty(&stream, DType::F32, [100]).unwrap();
        let buffer = Pinned::from_slice(&device, &[2.0f32; 100]).unwrap();
        drop(x.upload(&stream, buffer).unwrap());
        let other = Pinned::from_slice(&device, &[3.0f32; 100]).unwrap();
        assert_eq!(x.to_vec::<f32>(&stream).unwrap(), [2.0; 100]);
        drop(other);

        stream.synchronise().unwrap();
        assert!(device.pinned_statistics().cached > 0);
        device.release_cache().unwrap();
        assert_eq!(device.pinned_statistics().cached, 0);
        device.keep_pinned(0);
        drop(Pinned::from_slice(&device, &[1u8; 10]).unwrap());
        assert_eq!(device.pinned_statistics().cached, 0);
    });
}
