//! Tests of devices, streams, events, memory and copies on the emulator.

use std::time::{Duration, Instant};

use crate::common::{Scenario, device};
use burn_cann::{Cann, DType, Device, Error, Pinned, Tensor, ops};

#[test]
fn a_machine_is_described() {
    Scenario::new().run(|cann| {
        assert_eq!(cann.device_count().unwrap(), 2);
        assert_eq!(cann.version().numbers(), Some((8, 5)));
        let (device, _stream) = device(cann);
        assert_eq!(cann.soc().name(), "Ascend910B1");
        assert!(device.platform().soc.has_bf16());
        let (free, total) = device.memory().unwrap();
        assert!(free <= total && total > 0);
    });
}

#[test]
fn no_such_device_is_an_error_with_cann_s_words() {
    Scenario::new().run(|cann| {
        let error = Device::open(cann, 77).unwrap_err();
        let Error::Call {
            function, message, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*function, "aclrtSetDevice");
        assert!(message.as_ref().is_some_and(|text| !text.is_empty()));
        assert!(error.to_string().contains("CANN says: "), "{error}");
    });
}

#[test]
fn a_missing_function_is_named() {
    Scenario::new().hide("aclrtCreateStream").run(|cann| {
        let device = Device::open(cann, 0).unwrap();
        let error = device.stream().unwrap_err();
        assert!(matches!(error, Error::Missing(_)));
        assert!(error.to_string().contains("aclrtCreateStream"), "{error}");
    });
}

#[test]
fn what_goes_up_comes_down() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 500)
        .run(|cann| {
            let (device, stream) = device(cann);
            let values: Vec<i32> = (0..1000).collect();
            let tensor = Tensor::from_slice(&stream, &values, [10, 100]).unwrap();
            assert_eq!(tensor.to_vec::<i32>(&stream).unwrap(), values);
            let rows = tensor.slice(0, 3..5).unwrap();
            assert_eq!(rows.to_vec::<i32>(&stream).unwrap(), values[300..500]);
            let bools = Tensor::from_bools(&stream, &[true, false, true], [3]).unwrap();
            assert_eq!(bools.to_bools(&stream).unwrap(), [true, false, true]);

            let buffer = Pinned::from_slice(&device, &[7i32; 200]).unwrap();
            let mut buffer = rows.upload(&stream, buffer).unwrap().wait().unwrap();
            buffer[0] = 8;
            assert_eq!(rows.to_vec::<i32>(&stream).unwrap(), [7; 200]);
            let zeros = Pinned::<f32>::zeroed(&device, 5).unwrap();
            assert_eq!(*zeros, [0.0; 5]);
        });
}

#[test]
fn copies_check_lengths_types_and_strides() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let short = Tensor::from_slice(&stream, &[1.0f32; 3], [2, 2]);
        assert!(matches!(
            short,
            Err(Error::Length {
                found: 3,
                expected: 4
            })
        ));
        let tensor = Tensor::from_slice(&stream, &[1.0f32; 4], [2, 2]).unwrap();
        assert!(matches!(
            tensor.to_vec::<i32>(&stream),
            Err(Error::Dtype { .. })
        ));
        let turned = tensor.transpose(0, 1).unwrap();
        assert!(matches!(
            turned.to_vec::<f32>(&stream),
            Err(Error::Layout(_))
        ));
        let buffer = Pinned::<f32>::zeroed(&device, 4).unwrap();
        assert!(matches!(
            turned.upload(&stream, buffer),
            Err(Error::Layout(_))
        ));
    });
}

#[test]
fn nothing_is_a_tensor_too() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let none = Tensor::from_slice::<f32>(&stream, &[], [0, 4]).unwrap();
        assert!(none.memory().is_none());
        assert!(none.to_vec::<f32>(&stream).unwrap().is_empty());
        assert!(none.reshape([4, 0]).unwrap().spec().is_empty());
    });
}

#[test]
fn buffers_outlive_copies_that_nobody_waits_for() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 20_000)
        .run(|cann| {
            let (device, stream) = device(cann);
            let tensor = Tensor::empty(&stream, DType::F32, [1024]).unwrap();
            let start = Instant::now();
            let buffer = Pinned::from_slice(&device, &[3.0f32; 1024]).unwrap();
            drop(tensor.upload(&stream, buffer).unwrap());
            drop(tensor.download::<f32>(&stream).unwrap());
            assert!(
                start.elapsed() < Duration::from_millis(15),
                "the copies are not waited for"
            );
            assert!(!stream.is_idle().unwrap());
            assert_eq!(tensor.to_vec::<f32>(&stream).unwrap(), [3.0; 1024]);
        });
}

#[test]
fn events_say_how_far_a_stream_is() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 20_000)
        .run(|cann| {
            let (device, stream) = device(cann);
            let start = stream.record_time().unwrap();
            let _tensor = Tensor::from_slice(&stream, &[1.0f32; 8], [8]).unwrap();
            let end = stream.record_time().unwrap();
            assert!(!end.is_complete().unwrap());
            let other = device.stream().unwrap();
            other.wait_for(&end).unwrap();
            assert!(!other.is_idle().unwrap());
            other.synchronise().unwrap();
            assert!(end.is_complete().unwrap());
            assert!(end.milliseconds_since(&start).unwrap() >= 15.0);
        });
}

#[test]
fn any_thread_may_use_anything() {
    Scenario::new().run(|cann| {
        let (device, stream) = device(cann);
        let tensor = std::thread::scope(|scope| {
            let made = scope.spawn(|| Tensor::from_slice(&stream, &[1.0f32, 2.0], [2]).unwrap());
            made.join().unwrap()
        });
        assert_eq!(tensor.to_vec::<f32>(&stream).unwrap(), [1.0, 2.0]);
        std::thread::spawn(move || drop((tensor, stream, device)))
            .join()
            .unwrap();
    });
}

#[test]
fn two_threads_have_two_devices() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 200)
        .run(|cann| {
            let work = |id: u32, cann: &Cann| {
                let device = Device::open(cann, id).unwrap();
                let stream = device.stream().unwrap();
                let value = 1.0 + id as f32;
                for _ in 0..50 {
                    let x = Tensor::from_slice(&stream, &[value; 64], [2, 32]).unwrap();
                    let y = ops::swi_glu::swi_glu(&stream, &x, 1).unwrap();
                    let expected = value * value / (1.0 + (-value).exp());
                    for found in y.to_vec::<f32>(&stream).unwrap() {
                        assert!((found - expected).abs() < 1e-5);
                    }
                }
                assert!(device.statistics().peak > 0);
            };
            std::thread::scope(|scope| {
                for id in [0, 1] {
                    scope.spawn(move || work(id, cann));
                }
            });
        });
}

#[test]
fn devices_do_not_mix() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let other = Device::open(cann, 1).unwrap();
        let elsewhere = other.stream().unwrap();
        let x = Tensor::from_slice(&elsewhere, &[1.0f32; 8], [2, 4]).unwrap();
        let refused = ops::swi_glu::swi_glu(&stream, &x, 1);
        assert!(matches!(
            refused,
            Err(Error::OtherDevice {
                found: 1,
                stream: 0,
                ..
            })
        ));
        assert!(matches!(
            x.to_vec::<f32>(&stream),
            Err(Error::OtherDevice { .. })
        ));
        let event = elsewhere.record().unwrap();
        assert!(matches!(
            stream.wait_for(&event),
            Err(Error::OtherDevice { .. })
        ));
    });
}

#[test]
fn a_device_is_shared() {
    Scenario::new().run(|cann| {
        let (one, stream) = device(cann);
        let two = Device::open(cann, 0).unwrap();
        let tensor = Tensor::empty(&stream, DType::F32, [1000]).unwrap();
        assert_eq!(one.statistics(), two.statistics());
        assert!(two.statistics().in_use >= 4000);
        drop(tensor);
        assert_eq!(two.statistics().in_use, 0);
    });
}

#[test]
fn the_end_waits_until_nothing_is_left_and_is_final() {
    Scenario::new().leaks().run(|cann| {
        let (device, stream) = device(cann);
        drop(device);
        let early = cann.finalise().unwrap_err();
        assert!(early.to_string().contains("drop all"), "{early}");
        drop(stream);
        cann.finalise().unwrap();
        assert!(matches!(cann.finalise(), Err(Error::Lifetime(_))));
        assert!(matches!(Device::open(cann, 0), Err(Error::Lifetime(_))));
    });
}

#[test]
fn a_stream_without_handles_still_finishes_its_work() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 5000)
        .run(|cann| {
            let (device, stream) = device(cann);
            let x = Tensor::from_slice(&stream, &[1.0f32; 64], [2, 32]).unwrap();
            let y = ops::swi_glu::swi_glu(&stream, &x, 1).unwrap();
            drop((x, stream));
            let other = device.stream().unwrap();
            assert!((y.to_vec::<f32>(&other).unwrap()[0] - 0.731_058_6).abs() < 1e-6);
        });
}

/// A subscriber that collects the functions of spans.
#[derive(Default)]
struct Calls(std::sync::Mutex<Vec<String>>);

impl tracing::field::Visit for &Calls {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "function" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

struct Collector(std::sync::Arc<Calls>);

impl tracing::Subscriber for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("burn_cann")
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        attributes.record(&mut &*self.0);
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn calls_are_traced_by_name() {
    Scenario::new().run(|cann| {
        let calls = std::sync::Arc::new(Calls::default());
        tracing::subscriber::with_default(Collector(calls.clone()), || {
            let (_device, stream) = device(cann);
            let x = Tensor::from_slice(&stream, &[1.0f32; 8], [2, 4]).unwrap();
            ops::swi_glu::swi_glu(&stream, &x, 1).unwrap();
        });
        let calls = calls.0.lock().unwrap();
        for name in [
            "aclrtSetDevice",
            "aclrtMalloc",
            "aclrtMemcpyAsync",
            "aclnnSwiGlu",
        ] {
            assert!(
                calls.iter().any(|call| call.contains(name)),
                "{name} in {calls:?}"
            );
        }
    });
}
