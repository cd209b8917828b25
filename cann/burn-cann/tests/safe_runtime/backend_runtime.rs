//! Tests of the backend around its operations: devices, the fallback to the host and its denial, waiting, failures,
//! and servers of remote devices.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use crate::common::Scenario;
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{
    Backend, BoolDType, DType, FloatDType, IntDType, Shape, Slice, TensorData, TensorMetadata,
    read_sync,
};
use burn_cann::backend::{self, CannBackend, CannDevice, CannTensor, Fallback, Path};
use burn_cann::{Cann, Device, Tensor};
use burn_ir::{BackendIr, HandleContainer, TensorId, TensorIr, TensorStatus};

/// Runs an operation for which CANN has no operator.
fn on_host(tensor: CannTensor) -> CannTensor {
    CannBackend::float_hypot(tensor.clone(), tensor)
}

fn tensor(values: &[f32]) -> CannTensor {
    CannBackend::float_from_data(TensorData::from(values), &CannDevice::default())
}

fn data(tensor: CannTensor) -> Vec<f32> {
    let data = read_sync(CannBackend::float_into_data(tensor)).expect("a read");
    data.try_to_vec().expect("of f32")
}

/// Runs a function that panics and returns the text of the panic.
fn panics<T>(run: impl FnOnce() -> T) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(run))
        .err()
        .expect("a panic");
    payload
        .downcast_ref::<String>()
        .cloned()
        .expect("with a text")
}

/// Runs `body` with the scenario's CANN and closes it.
fn with(cann: &Cann, body: impl FnOnce()) {
    backend::install(cann.clone());
    body();
    backend::close();
}

#[test]
fn runs_on_the_host_are_counted() {
    Scenario::new().run(|cann| {
        with(cann, || {
            assert_eq!(backend::fallbacks(), []);
            let x = tensor(&[1.0, 2.0]);
            assert_eq!(data(on_host(x.clone())), [1f32.hypot(1.0), 2f32.hypot(2.0)]);
            on_host(x.clone());
            assert_eq!(backend::fallbacks(), [("float_hypot", 2)]);
            // Runs that an operator refuses count too: log1p takes no f64.
            let wide = CannBackend::float_cast(x.clone(), FloatDType::F64);
            assert_eq!(backend::fallbacks(), [("float_hypot", 2)]);
            CannBackend::float_log1p(wide);
            let found = backend::fallbacks();
            assert!(found.contains(&("float_log1p", 1)), "{found:?}");
            backend::reset_fallbacks();
            assert_eq!(backend::fallbacks(), []);
        });
    });
}

/// A part is written in place if nobody else holds the tensor, and into a copy otherwise.
#[test]
fn a_part_of_a_tensor_is_written_in_place() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let place = |tensor: &CannTensor| tensor.tensor().memory().map(|memory| memory.id());
            let second = [Slice::from(1..2)];
            let x = tensor(&[1.0, 2.0, 3.0]);
            let before = place(&x);
            let x = CannBackend::float_slice_assign(x, &second, tensor(&[5.0]));
            assert_eq!(place(&x), before);
            assert_eq!(data(x.clone()), [1.0, 5.0, 3.0]);

            let view = CannBackend::float_slice(x.clone(), &[Slice::from(0..2)]);
            let written = CannBackend::float_slice_assign(x, &second, tensor(&[7.0]));
            assert_ne!(place(&written), before);
            assert_eq!(data(written), [1.0, 7.0, 3.0]);
            assert_eq!(data(view), [1.0, 5.0]);

            // An element that is repeated can't have several values.
            let one = CannBackend::float_expand(tensor(&[4.0]), Shape::from([3]));
            let written = CannBackend::float_slice_assign(one, &second, tensor(&[5.0]));
            assert_eq!(data(written), [4.0, 5.0, 4.0]);
            assert_eq!(backend::fallbacks(), []);
        });
    });
}

/// A subscriber that keeps the fields of warnings as text.
#[derive(Default, Clone)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _span: &tracing::span::Id, _values: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _span: &tracing::span::Id, _follows: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _span: &tracing::span::Id) {}

    fn exit(&self, _span: &tracing::span::Id) {}
}

#[test]
fn the_first_run_on_the_host_is_logged_with_its_reason() {
    Scenario::new().run(|cann| {
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            with(cann, || {
                let x = tensor(&[1.0, 2.0]);
                on_host(on_host(x.clone()));
                CannBackend::float_log1p(CannBackend::float_cast(x, FloatDType::F64));
            });
        });
        let found = warnings.0.lock().unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("float_hypot") && found[0].contains("no operator"),
            "{found:?}"
        );
        assert!(
            found[1].contains("float_log1p") && found[1].contains("f64"),
            "{found:?}"
        );
    });
}

#[test]
fn tensors_of_two_devices_don_t_go_together() {
    Scenario::new().set("CANN_EMULATOR_DEVICES", 2).run(|cann| {
        with(cann, || {
            let x = tensor(&[1.0]);
            let y = CannBackend::float_to_device(x.clone(), &CannDevice::new(1));
            let text = panics(|| CannBackend::float_add(x, y));
            for part in ["float_add", "device 1", "copy it there first"] {
                assert!(text.contains(part), "{text}");
            }
        });
    });
}

#[test]
fn the_host_can_be_denied() {
    Scenario::new()
        .set("BURN_CANN_FALLBACK", "deny")
        .run(|cann| {
            with(cann, || {
                assert_eq!(backend::fallback().unwrap(), Fallback::Deny);
                let x = tensor(&[1.0, 2.0]);
                let text = panics(|| on_host(x.clone()));
                for part in ["float_hypot", "no operator", "BURN_CANN_FALLBACK=allow"] {
                    assert!(text.contains(part), "{text}");
                }
                let wide = CannBackend::float_cast(x.clone(), FloatDType::F64);
                let text = panics(|| CannBackend::float_log1p(wide));
                assert!(
                    text.contains("float_log1p") && text.contains("f64"),
                    "{text}"
                );
                assert_eq!(backend::fallbacks(), []);
                // Operations that run on the device still work.
                let zeros =
                    CannBackend::float_zeros(Shape::from([2]), &x.device(), FloatDType::F32);
                assert_eq!(
                    data(CannBackend::float_cat(vec![x, zeros], 0)),
                    [1.0, 2.0, 0.0, 0.0]
                );
                backend::set_fallback(Fallback::Allow);
                on_host(tensor(&[1.0]));
            });
        });
}

#[test]
fn no_tensors_are_an_error_that_says_so() {
    let text = panics(|| CannBackend::float_cat(vec![], 0));
    assert!(
        text.contains("float_cat") && text.contains("at least one"),
        "{text}"
    );
}

#[test]
fn a_setting_without_meaning_is_an_error() {
    Scenario::new()
        .set("BURN_CANN_FALLBACK", "never")
        .run(|cann| {
            with(cann, || {
                let text = CannDevice::open(0).unwrap_err().to_string();
                assert!(
                    text.contains("\"never\"") && text.contains("`deny`"),
                    "{text}"
                );
            });
        });
}

#[test]
fn devices_are_found_opened_once_and_let_go() {
    Scenario::new().set("CANN_EMULATOR_DEVICES", 2).run(|cann| {
        with(cann, || {
            let all = CannDevice::all().unwrap();
            assert_eq!(all, [CannDevice::new(0), CannDevice::new(1)]);
            assert_eq!(CannBackend::device_count(0), 2);
            for device in &all {
                assert_eq!(device.stream().unwrap(), device.stream().unwrap());
            }
            let text = CannDevice::open(2).unwrap_err().to_string();
            assert!(
                text.contains("NPU 2 does not exist") && text.contains("counts 2"),
                "{text}"
            );
            let text = CannDevice::open(1 << 20).unwrap_err().to_string();
            assert!(text.contains("NPU 1048576 does not exist"), "{text}");
            // The tensor moves from one device to the other by way of the host.
            let x = tensor(&[1.0, 2.0]);
            let moved = CannBackend::float_to_device(x.clone(), &all[1]);
            assert_eq!((moved.device(), x.device()), (all[1], all[0]));
            assert_eq!(data(moved), [1.0, 2.0]);
        });
        // Tensors outlive `close`, and later uses open the devices again.
        backend::install(cann.clone());
        let x = tensor(&[3.0]);
        backend::close();
        assert_eq!(data(x), [3.0]);
        let device = Device::open(cann, 0).unwrap();
        let own = Tensor::from_slice(&device.stream().unwrap(), &[4.0f32], [1]).unwrap();
        backend::install(cann.clone());
        let own = CannTensor::new(own).unwrap();
        let turned = own.beside(own.tensor().reshape([1, 1]).unwrap());
        assert_eq!(data(turned.contiguous().unwrap()), [4.0]);
        backend::close();
    });
}

#[test]
fn without_cann_there_is_an_error_that_says_what_to_do() {
    let folder = std::env::temp_dir().join("burn-cann-nothing-here");
    let scenario = Scenario::new().set("CANN_LIB_DIR", folder.display());
    scenario.alone(|| {
        let text = CannDevice::open(0).unwrap_err().to_string();
        assert!(text.contains("libascendcl"), "{text}");
        assert_eq!(CannBackend::device_count(0), 0);
        let text = panics(|| tensor(&[1.0]));
        assert!(
            text.contains("float_from_data") && text.contains("libascendcl"),
            "{text}"
        );
        assert!(CannBackend::sync(&CannDevice::default()).is_err());
    });
}

#[test]
fn only_reads_and_the_host_s_operations_wait() {
    Scenario::new()
        .set("CANN_EMULATOR_DELAY_US", 500)
        .run(|cann| {
            with(cann, || {
                let x = tensor(&[1.0; 64]);
                let before = cann.waits();
                let y = native_chain(x);
                assert_eq!(cann.waits(), before, "an operation waited");
                assert_eq!(backend::fallbacks(), []);
                data(y);
                assert_eq!(cann.waits(), before + 1);
                // There is one wait for each of the two operands.
                on_host(tensor(&[2.0]));
                assert_eq!(cann.waits(), before + 3);
            });
        });
}

/// Runs some operations of the device. A whole training step has a test of its own.
fn native_chain(x: CannTensor) -> CannTensor {
    let device = x.device();
    let x = CannBackend::float_reshape(x, Shape::from([4, 16]));
    let ones = CannBackend::float_ones(Shape::from([4, 16]), &device, FloatDType::F32);
    let both = CannBackend::float_cat(vec![x, ones], 0);
    let turned =
        CannBackend::float_reshape(CannBackend::float_swap_dims(both, 0, 1), Shape::from([128]));
    let half = CannBackend::float_cast(turned, FloatDType::F16);
    let part = CannBackend::float_slice(half, &[Slice::new(0, Some(64), 1)]);
    CannBackend::float_repeat_dim(CannBackend::float_cast(part, FloatDType::F32), 0, 2)
}

#[test]
fn views_take_no_memory_and_copies_are_counted() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let x = tensor(&[0.5; 4096]);
            let device = x.stream().device();
            let held = device.statistics().in_use;
            let square = CannBackend::float_reshape(x, Shape::from([64, 64]));
            let turned = CannBackend::float_swap_dims(square.clone(), 0, 1);
            let part = CannBackend::float_slice(turned.clone(), &[Slice::new(3, Some(9), 2)]);
            let wide = CannBackend::float_expand(part, Shape::from([5, 3, 64]));
            let split = CannBackend::float_reshape(turned.clone(), Shape::from([8, 8, 64]));
            assert_eq!((device.statistics().in_use, backend::copies()), (held, 0));
            let flat = CannBackend::float_reshape(turned, Shape::from([4096]));
            assert_eq!(
                (device.statistics().in_use, backend::copies()),
                (2 * held, 1)
            );
            assert_eq!(backend::fallbacks(), []);
            drop((square, wide, split, flat));
            assert_eq!(device.statistics().in_use, 0);
        });
    });
}

#[test]
fn want_of_memory_is_a_panic_that_says_so_and_leaves_nothing() {
    Scenario::new()
        .set("CANN_EMULATOR_MEMORY", 1 << 20)
        .run(|cann| {
            with(cann, || {
                let x = tensor(&[1.0; 1024]);
                let device = x.device();
                let large = Shape::from([1024, 1024]);
                let zeros = || CannBackend::float_zeros(large.clone(), &device, FloatDType::F32);
                let text = panics(zeros);
                for part in ["float_zeros", "out of memory", "4194304"] {
                    assert!(text.contains(part), "{text}");
                }
                // Others still run.
                let y = CannBackend::float_repeat_dim(x.clone(), 0, 2);
                assert_eq!(data(y), [1.0; 2048]);
            });
        });
}

#[test]
fn an_operator_that_fails_is_a_panic_that_names_it() {
    Scenario::new()
        .set("CANN_EMULATOR_FAIL", "aclnnCat=561002")
        .run(|cann| {
            with(cann, || {
                let x = tensor(&[1.0, 2.0]);
                let text = panics(|| CannBackend::float_cat(vec![x.clone(), x.clone()], 0));
                for part in ["float_cat", "aclnnCat", "561002"] {
                    assert!(text.contains(part), "{text}");
                }
                assert_eq!(
                    backend::fallbacks(),
                    [],
                    "a failure is not hidden on the host"
                );
                assert_eq!(data(x), [1.0, 2.0]);
            });
        });
}

/// The device finds an index out of range long after the call has returned.
#[test]
fn work_that_fails_on_the_device_is_told_by_reads() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = CannDevice::default();
        let z = fails(&device);
        let error = CannBackend::sync(&device).unwrap_err().to_string();
        assert!(error.contains("did not finish its work"), "{error}");
        for _ in 0..2 {
            let error = read_sync(CannBackend::float_into_data(z.clone()))
                .unwrap_err()
                .to_string();
            assert!(error.contains("can't be read from Npu(0)"), "{error}");
        }
        drop(z);
        backend::close();
    });
}

/// Checks that an empty tensor holds nothing that was freed before, by whomever.
#[test]
fn empty_tensors_are_zeros() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let device = CannDevice::default();
            for size in [1usize, 3, 128, 1000, 5000] {
                drop(tensor(&vec![-7.5; size]));
                let shape = Shape::from([size]);
                let floats = CannBackend::float_empty(shape.clone(), &device, FloatDType::F32);
                assert_eq!(data(floats), vec![0.0; size]);
                drop(tensor(&vec![-7.5; size]));
                let ints = CannBackend::int_empty(shape.clone(), &device, IntDType::I32);
                let ints = read_sync(CannBackend::int_into_data(ints)).unwrap();
                assert_eq!(ints, TensorData::new(vec![0i32; size], [size]));
                drop(tensor(&vec![-7.5; size]));
                let bools = CannBackend::bool_empty(shape, &device, BoolDType::Native);
                let bools = read_sync(CannBackend::bool_into_data(bools)).unwrap();
                assert!(bools.bytes().iter().all(|byte| *byte == 0));
            }
        });
    });
}

/// Checks that failed work on a thread's own stream is reported there and nowhere else.
#[test]
fn a_thread_with_streams_of_its_own_fails_alone() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = CannDevice::default();
        let shared = tensor(&[1.0, 2.0]);
        for told in [true, false] {
            let read = |tensor| read_sync(CannBackend::float_into_data(tensor));
            let given = tensor(&[5.0]);
            let carried = std::thread::spawn(move || {
                backend::own_streams();
                // This copies values to a stream of this thread.
                assert_ne!(given.stream(), &device.stream().unwrap());
                let here = CannBackend::float_to_device(given, &device);
                assert_eq!(here.stream(), &device.stream().unwrap());
                let here = CannBackend::float_add(here.clone(), here);
                let failed = fails(&device);
                if told {
                    read(failed).unwrap_err();
                } else {
                    while matches!(failed.stream().is_idle(), Ok(false)) {}
                    drop(failed);
                }
                backend::give_streams_back();
                here
            });
            let carried = carried.join().unwrap();
            CannBackend::sync(&device).unwrap();
            let sum = CannBackend::float_add(shared.clone(), shared.clone());
            assert_eq!(data(sum), [2.0, 4.0]);
            if told {
                // A tensor of the failed stream can't be used here either.
                let text = panics(|| CannBackend::float_add(carried.clone(), carried.clone()));
                assert!(text.contains("work that failed before"), "{text}");
            }
        }
        drop(shared);
        backend::close();
    });
}

/// Returns the result of an index out of range.
fn fails(device: &CannDevice) -> CannTensor {
    let places = CannBackend::int_from_data(TensorData::from([0i32, 7]), device);
    let y = CannBackend::float_select(tensor(&[1.0, 2.0]), 0, places);
    CannBackend::float_add(y.clone(), y)
}

/// A stream never recovers from a failure, so the device gets another. Only the tensors of the failed one are lost.
#[test]
fn after_work_that_failed_the_device_goes_on() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = CannDevice::default();
        for round in 0..3 {
            let before = tensor(&[1.0, 2.0]);
            let failed = fails(&device);
            let read = |tensor: CannTensor| read_sync(CannBackend::float_into_data(tensor));
            read(failed.clone()).unwrap_err();

            let fresh = tensor(&[3.0, 4.0]);
            CannBackend::sync(&device).unwrap();
            let sum = CannBackend::float_add(fresh.clone(), fresh.clone());
            assert_eq!(data(sum), [6.0, 8.0], "round {round}");
            // Work of the failed stream can't be used in any operation.
            for (a, b) in [(&fresh, &failed), (&failed, &fresh), (&before, &before)] {
                let text = panics(|| CannBackend::float_add(a.clone(), b.clone()));
                assert!(text.contains("float_add on the NPU"), "{text}");
                assert!(text.contains("work that failed before"), "{text}");
                assert!(text.contains("out of range"), "{text}");
            }
            read(before).unwrap_err();
        }
        assert_eq!(data(tensor(&[5.0])), [5.0]);
        backend::close();
    });
}

/// The next user of a device, such as another client of a server, need not have caused its failure.
#[test]
fn tensors_made_after_a_failure_are_sound() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = CannDevice::default();
        let read = |tensor| read_sync(CannBackend::float_into_data(tensor));
        for round in 0..3 {
            let old = tensor(&[1.0, 2.0]);
            let places = CannBackend::int_from_data(TensorData::from([0i32, 7]), &device);
            let lost = CannBackend::float_select(old.clone(), 0, places);
            // The failure is reported by a read, by a wait, or not at all.
            match round {
                0 => assert!(read(lost.clone()).is_err()),
                1 => assert!(CannBackend::sync(&device).is_err()),
                _ => while matches!(old.stream().is_idle(), Ok(false)) {},
            }
            let new = tensor(&[5.0, 6.0]);
            assert_eq!(data(new.clone()), [5.0, 6.0]);
            CannBackend::sync(&device).unwrap();
            // Earlier tensors are reported as lost, and so are results made of them.
            read(old.clone()).unwrap_err();
            for (one, other) in [(&old, &new), (&new, &lost)] {
                let said = panics(|| CannBackend::float_add(one.clone(), other.clone()));
                assert!(said.contains("work that failed before"), "{said}");
            }
            assert_eq!(data(new), [5.0, 6.0]);
        }
        backend::close();
    });
}

#[test]
fn a_function_that_the_toolkit_lacks_is_the_host_s_to_do() {
    Scenario::new().hide("aclnnCat").run(|cann| {
        with(cann, || {
            let x = tensor(&[1.0, 2.0]);
            let y = CannBackend::float_cat(vec![x.clone(), x], 0);
            assert_eq!(data(y), [1.0, 2.0, 1.0, 2.0]);
            assert_eq!(backend::fallbacks(), [("float_cat", 1)]);
        });
    });
}

/// Checks the mask for long sequences, which is shared, against the composition.
#[test]
fn long_causal_attention_is_what_it_is_composed_of() {
    use burn_backend::ops::attention::attention_fallback;
    use burn_backend::ops::{AttentionModuleOptions, ModuleOps};
    Scenario::new().run(|cann| {
        with(cann, || {
            let heads = |length: usize, step: usize| {
                let values: Vec<f32> = (0..length * 4)
                    .map(|place| (place * step % 17) as f32 / 8.0 - 1.0)
                    .collect();
                CannBackend::float_reshape(tensor(&values), Shape::from([1, 1, length, 4]))
            };
            let causal = AttentionModuleOptions {
                is_causal: true,
                ..Default::default()
            };
            let (query, key, value) = (heads(5, 3), heads(2060, 5), heads(2060, 7));
            let composed = attention_fallback::<CannBackend>(
                query.clone(),
                key.clone(),
                value.clone(),
                None,
                None,
                causal,
            );
            let found = CannBackend::attention(query, key, value, None, None, causal);
            for (found, composed) in data(found).into_iter().zip(data(composed)) {
                assert!(
                    (found - composed).abs() < 1e-5,
                    "{found}, composed {composed}"
                );
            }
            assert_eq!(backend::fallbacks(), []);
        });
    });
}

#[test]
fn threads_share_a_device() {
    Scenario::new().run(|cann| {
        with(cann, || {
            std::thread::scope(|scope| {
                for thread in 0..4u8 {
                    scope.spawn(move || {
                        for round in 0..20u8 {
                            let value = f32::from(thread) * 32.0 + f32::from(round);
                            let x = tensor(&[value; 33]);
                            let y = CannBackend::float_repeat_dim(x, 0, 3);
                            assert_eq!(data(y), [value; 99]);
                        }
                    });
                }
            });
        });
    });
}

#[test]
fn a_seed_repeats_random_numbers() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let device = CannDevice::default();
            let draw = |dtype| {
                CannBackend::seed(&device, 7);
                let normal = burn_backend::Distribution::Normal(0.0, 1.0);
                let once = CannBackend::float_random(Shape::from([50]), normal, &device, dtype);
                let again = CannBackend::float_random(Shape::from([50]), normal, &device, dtype);
                let read = |tensor| read_sync(CannBackend::float_into_data(tensor)).unwrap();
                (read(once), read(again))
            };
            for dtype in [FloatDType::F32, FloatDType::BF16] {
                let (first, second) = draw(dtype);
                assert_ne!(first.as_bytes(), second.as_bytes());
                assert_eq!(draw(dtype), (first, second));
            }
        });
    });
}

/// Does what a server of remote devices does: it keeps tensors by number, as handles of one type.
fn over_handles<B: BackendIr>(device: &B::Device) -> TensorData {
    let mut handles = HandleContainer::<B::Handle>::new();
    let [float, int] = [TensorId::new(1), TensorId::new(2)];
    handles.register_float_tensor::<B>(
        &float,
        B::float_from_data(TensorData::from([1.5f32]), device),
    );
    handles.register_int_tensor::<B>(&int, B::int_from_data(TensorData::from([2i32]), device));
    let named = |id, dtype, status| TensorIr {
        id,
        shape: Shape::from([1]),
        status,
        dtype,
    };
    let x = handles.get_float_tensor::<B>(&named(float, DType::F32, TensorStatus::ReadOnly));
    let n = handles.get_int_tensor::<B>(&named(int, DType::I32, TensorStatus::ReadWrite));
    assert!(handles.has_handle(&float) && !handles.has_handle(&int));
    let y = B::float_cat(vec![x, B::int_into_float(n, FloatDType::F32)], 0);
    read_sync(B::float_into_data(y)).unwrap()
}

#[test]
fn burn_s_representation_takes_the_backend() {
    Scenario::new().run(|cann| {
        with(cann, || {
            let found = over_handles::<CannBackend>(&CannDevice::default());
            assert_eq!(found, TensorData::from([1.5f32, 2.0]));
        });
    });
}

#[test]
fn the_types_that_are_kept_are_said() {
    let device = CannDevice::default();
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I64, DType::U8] {
        assert!(CannBackend::supports_dtype(&device, dtype), "{dtype:?}");
    }
    assert!(!CannBackend::supports_dtype(&device, DType::Flex32));
    let words = DType::Bool(burn_backend::BoolStore::U32);
    assert!(!CannBackend::supports_dtype(&device, words));
}

#[test]
fn what_the_device_does_not_keep_is_an_error_that_says_what_to_use() {
    Scenario::new().run(|cann| {
        with(cann, || {
            use burn_backend::ops::BoolTensorOps;
            let words = DType::Bool(burn_backend::BoolStore::U32);
            let data = TensorData::from([true, false]).convert_dtype(words);
            let text = panics(|| CannBackend::bool_from_data(data, &CannDevice::default()));
            assert!(
                text.contains("bool_from_data") && text.contains("one byte"),
                "{text}"
            );
        });
    });
}

#[test]
fn operations_are_listed_with_their_paths() {
    let path = |name| {
        let found = backend::ops().find(|operation| operation.name() == name);
        found.map(|operation| (operation.family(), operation.path()))
    };
    assert_eq!(path("float_cat"), Some(("float", Path::Native)));
    assert_eq!(path("int_permute"), Some(("int", Path::View)));
    assert_eq!(path("bool_into_data"), Some(("bool", Path::Data)));
    assert_eq!(
        path("log_softmax").map(|(family, _)| family),
        Some("activation")
    );
    assert_eq!(path("deform_conv2d"), Some(("module", Path::Host)));
    assert_eq!(path("no_such"), None);
    assert!(backend::ops().count() > 400);
}
