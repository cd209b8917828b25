//! Some functions as callers see them: memory, errors and absent arguments.

use crate::lent::{Lent, any};
use kernels_export::functions::FUNCTIONS;
use kernels_export::{Any, DlManagedTensor, DlTensor, Value, burn_kernels_error};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

type Results = *mut *mut DlManagedTensor;

#[rustfmt::skip]
unsafe extern "C" {
    fn burn_kernels_functions() -> *const c_char;
    fn burn_kernels_rms_norm(x: *const DlTensor, weight: *const DlTensor, residual: *const DlTensor, gate: *const DlTensor,
        eps: f64, group_size: i64, offset: f64, rounding: *const c_char, gating: *const c_char, results: Results) -> c_int;
    fn burn_kernels_glu(gate: *const DlTensor, up: *const DlTensor, activation: *const c_char, projections: *const c_char,
        limit: f64, up_offset: f64, threshold: f64, results: Results) -> c_int;
    fn burn_kernels_cross_entropy(logits: *const DlTensor, targets: *const DlTensor, ignore_index: i64, smoothing: f64,
        cap: f64, z_loss: f64, reduction: *const c_char, results: Results) -> c_int;
    fn burn_kernels_adam_w(parameter: *const DlTensor, moment_1: *const DlTensor, moment_2: *const DlTensor,
        gradient: *const DlTensor, learning_rate: f64, beta_1: f64, beta_2: f64, epsilon: f64, weight_decay: f64, step: i64,
        results: Results) -> c_int;
    fn __tvm_ffi_layer_norm(own: *mut c_void, arguments: *const Any, count: i32, result: *mut Any) -> c_int;
}

/// Takes a result in f32 and frees it.
fn taken(result: *mut DlManagedTensor) -> (Vec<f32>, Vec<i64>) {
    // SAFETY: the result is one of this library in f32, which nobody freed.
    unsafe {
        let tensor = (*result).tensor;
        let shape = std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize).to_vec();
        let count = shape.iter().product::<i64>() as usize;
        assert_eq!((tensor.code, tensor.bits), (2, 32));
        let values = std::slice::from_raw_parts(tensor.data.cast::<f32>(), count).to_vec();
        (*result).deleter.expect("a deleter")(result);
        (values, shape)
    }
}

/// Returns a pointer to numbers that live as long as the program.
fn kept(numbers: [i64; 2]) -> *mut i64 {
    Box::leak(Box::new(numbers)).as_mut_ptr()
}

fn message() -> String {
    // SAFETY: the pointer is that of a string until the next failure of this thread.
    unsafe { CStr::from_ptr(burn_kernels_error()) }
        .to_string_lossy()
        .into_owned()
}

/// Numbers between -1 and 1 that don't repeat soon.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 51.0)
        .collect()
}

fn norm(
    x: &DlTensor,
    weight: &DlTensor,
    rounding: &CStr,
) -> Result<[*mut DlManagedTensor; 3], c_int> {
    let mut results = [null_mut(); 3];
    let gating = c"none".as_ptr();
    // SAFETY: the tensors live, and there is place for three results.
    let code = unsafe {
        burn_kernels_rms_norm(
            x,
            weight,
            null(),
            null(),
            1e-5,
            0,
            0.0,
            rounding.as_ptr(),
            gating,
            results.as_mut_ptr(),
        )
    };
    (code == 0).then_some(results).ok_or(code)
}

#[test]
fn a_strided_tensor_is_normalised() {
    let (rows, width) = (3, 5);
    let (mut x, mut weight) = (numbers(rows * 7), numbers(width));
    let given = Lent::f32(&mut x, &[rows as i64, width as i64], &[7, 1]);
    let scale = Lent::f32(&mut weight, &[width as i64], &[1]);
    let [y, rstd, sum] = norm(&given.tensor, &scale.tensor, c"llama").expect("results");
    assert!(sum.is_null());
    let ((y, shape), (rstd, rows_of)) = (taken(y), taken(rstd));
    assert_eq!((shape, rows_of), (vec![3, 5], vec![3]));
    for row in 0..rows {
        let x = x[row * 7..][..width].iter().map(|x| f64::from(*x));
        let r = 1.0 / (x.clone().map(|x| x * x).sum::<f64>() / width as f64 + 1e-5).sqrt();
        // A few roundings of f32.
        assert!((f64::from(rstd[row]) - r).abs() < 1e-6 * r);
        for ((y, x), w) in y[row * width..].iter().zip(x).zip(&weight) {
            assert!((f64::from(*y) - x * r * f64::from(*w)).abs() < 1e-6);
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let (mut x, mut weight) = (numbers(12), numbers(4));
    let x = Lent::f32(&mut x, &[3, 4], &[4, 1]);
    let weight = Lent::f32(&mut weight, &[4], &[1]);
    let refused = |change: &dyn Fn(&mut DlTensor), code: c_int, says: &str| {
        let mut changed = x.tensor;
        change(&mut changed);
        assert_eq!(
            norm(&changed, &weight.tensor, c"llama"),
            Err(code),
            "{says}"
        );
        assert!(message().contains(says), "{}", message());
    };
    refused(
        &|x| x.device[0] = 2,
        -1,
        "rms_norm: x: the tensor must be on the CPU",
    );
    refused(
        &|x| x.bits = 64,
        -1,
        "elements of DLPack's code 2 with 64 bits",
    );
    refused(&|x| x.ndim = -1, -1, "a tensor of -1 axes");
    refused(
        &|x| x.shape = kept([-3, 4]),
        -1,
        "a tensor of shape [-3, 4]",
    );
    refused(&|x| x.strides = kept([-4, 1]), -1, "they must be positive");
    refused(
        &|x| x.strides = kept([i64::MAX, 1]),
        -1,
        "they must be positive",
    );
    refused(&|x| x.data = null_mut(), -1, "must be aligned");
    refused(&|x| x.byte_offset = 1, -1, "must be aligned");
    // What a kernel checks itself, it says by a panic.
    refused(
        &|x| x.shape = kept([4, 3]),
        -2,
        "rms_norm: a weight of 4 elements is not one of an axis of 3",
    );
    refused(&|x| x.strides = kept([1, 3]), -2, "not read in place");
    let mut results = [null_mut(); 3];
    // SAFETY: the tensors live, and there is place for three results.
    let grouped = unsafe {
        burn_kernels_rms_norm(
            &x.tensor,
            null(),
            null(),
            null(),
            1e-5,
            -2,
            0.0,
            c"llama".as_ptr(),
            c"none".as_ptr(),
            results.as_mut_ptr(),
        )
    };
    assert_eq!(grouped, -1);
    assert_eq!(
        message(),
        "rms_norm: group_size: a number from 0 on is expected, and not -2"
    );
    assert_eq!(norm(&x.tensor, &weight.tensor, c"lama"), Err(-1));
    assert_eq!(
        message(),
        "rms_norm: rounding: unknown rounding `lama`; known are llama, gemma"
    );
}

#[test]
fn absent_arguments_are_null_and_nan() {
    let (mut gate, mut up, mut results) = (numbers(8), numbers(8), [null_mut(); 1]);
    let [gate, up] = [&mut gate, &mut up].map(|values| Lent::f32(values, &[2, 4], &[4, 1]));
    let glu = |up: *const DlTensor,
               projections: &CStr,
               limit: f64,
               results: &mut [*mut DlManagedTensor; 1]| {
        // SAFETY: the tensors live, and there is place for the result.
        unsafe {
            burn_kernels_glu(
                &gate.tensor,
                up,
                c"relu".as_ptr(),
                projections.as_ptr(),
                limit,
                0.0,
                f64::NAN,
                results.as_mut_ptr(),
            )
        }
    };
    assert_eq!(glu(&up.tensor, c"separate", f64::NAN, &mut results), 0);
    let squares: Vec<f32> = numbers(8).iter().map(|x| x.max(0.0) * x).collect();
    assert_eq!(taken(results[0]), (squares, vec![2, 4]));
    assert_eq!(glu(null(), c"chunked", 0.25, &mut results), 0);
    assert_eq!(taken(results[0]).1, [2, 2]);
    assert_eq!(glu(null(), c"separate", f64::NAN, &mut results), -2);
    for limit in [0.0, -1.0, f64::INFINITY] {
        assert_eq!(glu(&up.tensor, c"separate", limit, &mut results), -1);
        assert!(message().starts_with("glu: limit: a number above 0"));
    }
}

#[test]
fn a_class_that_there_is_not_is_refused() {
    let (mut logits, mut results) = (numbers(6), [null_mut(); 2]);
    let logits = Lent::f32(&mut logits, &[2, 3], &[3, 1]);
    let mut loss = |mut targets: [i64; 2]| {
        let targets = Lent::of(&mut targets, &[2], &[1], (0, 64));
        // SAFETY: the tensors live, and there is place for the results.
        unsafe {
            burn_kernels_cross_entropy(
                &logits.tensor,
                &targets.tensor,
                -100,
                0.0,
                f64::NAN,
                0.0,
                c"mean".as_ptr(),
                results.as_mut_ptr(),
            )
        }
    };
    assert_eq!(loss([1, 3]), -1);
    assert!(
        message().ends_with("token 1 has the class 3; there are 3 classes, and -100 is ignored")
    );
    assert_eq!(loss([1, -100]), 0);
    let x = numbers(3).map_f64();
    let expected = x.iter().map(|x| x.exp()).sum::<f64>().ln() - x[1];
    let (loss, shape) = taken(results[0]);
    assert!(shape.is_empty() && (f64::from(loss[0]) - expected).abs() < 1e-6);
    taken(results[1]);
}

trait InF64 {
    fn map_f64(&self) -> Vec<f64>;
}

impl InF64 for Vec<f32> {
    fn map_f64(&self) -> Vec<f64> {
        self.iter().map(|x| f64::from(*x)).collect()
    }
}

#[test]
fn a_step_changes_memory_that_nothing_else_has() {
    let mut memory = vec![[0.5_f32; 4], [0.0; 4], [0.0; 4], [2.0; 4]];
    let all = memory.concat().into_iter();
    let mut flat: Vec<f32> = all.collect();
    let part = |flat: &mut Vec<f32>, at: usize| Lent::f32(&mut flat[at..at + 4], &[4], &[1]);
    let with = |tensors: [&DlTensor; 4], number, beta_1, epsilon| {
        let [parameter, first, second, gradient] = tensors;
        // SAFETY: the tensors live, and the function returns no tensors.
        unsafe {
            burn_kernels_adam_w(
                parameter,
                first,
                second,
                gradient,
                0.1,
                beta_1,
                0.999,
                epsilon,
                0.0,
                number,
                null_mut(),
            )
        }
    };
    let step = |tensors: [&DlTensor; 4], number| with(tensors, number, 0.9, 1e-8);
    let [p, a, b, g] = [0, 4, 8, 12].map(|at| part(&mut flat, at));
    let tensors = [&p.tensor, &a.tensor, &b.tensor, &g.tensor];
    assert_eq!(step(tensors, 0), -1);
    assert_eq!(step(tensors, -1), -1);
    assert_eq!(with(tensors, 1, 1.0, 1e-8), -1);
    assert_eq!(
        message(),
        "adam_w: beta_1: a number from 0 to below 1 is expected, and not 1"
    );
    assert_eq!(with(tensors, 1, f64::NAN, 1e-8), -1);
    assert_eq!(with(tensors, 1, 0.9, -1e-8), -1);
    let overlapping = part(&mut flat, 2);
    assert_eq!(
        step([&p.tensor, &overlapping.tensor, &b.tensor, &g.tensor], 1),
        -1
    );
    assert!(message().ends_with("must not overlap"), "{}", message());
    assert_eq!(
        step([&p.tensor, &a.tensor, &b.tensor, &overlapping.tensor], 1),
        -1
    );
    assert_eq!(step(tensors, 1), 0);
    // The first step is as long as the rate, against the gradient.
    memory = flat
        .chunks(4)
        .map(|part| part.try_into().expect("four"))
        .collect();
    for (found, expected) in memory.iter().zip([0.4, 0.2, 0.004, 2.0]) {
        assert!(
            found.iter().all(|x| (x - expected).abs() < 1e-6),
            "{memory:?}"
        );
    }
}

#[test]
fn a_host_of_tvm_ffi_gives_the_places_of_results() {
    let [mut x, mut w, mut y, mut mean, mut rstd] = [
        numbers(8),
        vec![1.0; 4],
        vec![9.0; 8],
        vec![9.0; 2],
        vec![9.0; 2],
    ];
    let x = Lent::f32(&mut x, &[2, 4], &[4, 1]);
    let w = Lent::f32(&mut w, &[4], &[1]);
    let outputs = [
        Lent::f32(&mut y, &[2, 4], &[4, 1]),
        Lent::f32(&mut mean, &[2], &[1]),
        Lent::f32(&mut rstd, &[2], &[1]),
    ];
    let tensor = |lent: &Lent| lent.packed();
    // The last one is an object: a tensor behind a header.
    let mut object = [0_u64; 3 + size_of::<DlTensor>() / 8];
    // SAFETY: there is place for a tensor behind the header.
    unsafe {
        object
            .as_mut_ptr()
            .add(3)
            .cast::<DlTensor>()
            .write(outputs[2].tensor)
    };
    let none = any(0, Value { integer: 0 });
    let mut arguments = vec![tensor(&x), tensor(&w), none, any(3, Value { float: 1e-5 })];
    arguments.extend([
        tensor(&outputs[0]),
        none,
        any(
            70,
            Value {
                pointer: object.as_ptr().cast(),
            },
        ),
    ]);
    let call = |arguments: &[Any]| {
        let mut result = none;
        // SAFETY: the arguments are what their types say.
        unsafe {
            __tvm_ffi_layer_norm(
                null_mut(),
                arguments.as_ptr(),
                arguments.len() as i32,
                &mut result,
            )
        }
    };
    assert_eq!(call(&arguments), 0);
    let given = numbers(8).map_f64();
    for (row, (y, rstd)) in given.chunks(4).zip(y.chunks(4).zip(&rstd)) {
        let mean = row.iter().sum::<f64>() / 4.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        let r = 1.0 / (variance + 1e-5).sqrt();
        assert!((f64::from(*rstd) - r).abs() < 1e-5 * r);
        assert!(
            row.iter()
                .zip(y)
                .all(|(x, y)| (f64::from(*y) - (x - mean) * r).abs() < 1e-5)
        );
    }
    assert_eq!(mean, [9.0; 2], "a place that was not given");
    assert_eq!(call(&arguments[1..]), -1);
    let wrong = |at: usize, value: Any| {
        let mut arguments = arguments.clone();
        arguments[at] = value;
        call(&arguments)
    };
    assert_eq!(wrong(0, none), -1, "a missing tensor");
    assert_eq!(
        wrong(
            3,
            any(
                8,
                Value {
                    pointer: c"1".as_ptr().cast()
                }
            )
        ),
        -1,
        "a string"
    );
    assert_eq!(
        wrong(4, tensor(&outputs[1])),
        -1,
        "a place of another shape"
    );
    assert_eq!(wrong(3, any(3, Value { float: f64::NAN })), -1, "an eps");
}

#[test]
fn nothing_is_written_if_one_result_does_not_fit() {
    let [mut x, mut w, mut memory] = [numbers(8), vec![1.0; 4], vec![9.0; 12]];
    let x = Lent::f32(&mut x, &[2, 4], &[4, 1]);
    let w = Lent::f32(&mut w, &[4], &[1]);
    let mut part = |start: usize, shape: &[i64], strides: &[i64]| {
        Lent::f32(&mut memory[start..], shape, strides)
    };
    let y = part(0, &[2, 4], &[4, 1]);
    let [mean, other, apart, within] = [
        part(8, &[2], &[1]),
        part(8, &[1], &[1]),
        part(8, &[2], &[2]),
        part(6, &[2], &[1]),
    ];
    let none = any(0, Value { integer: 0 });
    let call = |places: [Any; 3]| {
        let eps = any(3, Value { float: 1e-5 });
        let arguments = [[x.packed(), w.packed(), none, eps].as_slice(), &places].concat();
        // SAFETY: the arguments are what their types say.
        unsafe { __tvm_ffi_layer_norm(null_mut(), arguments.as_ptr(), 7, null_mut()) }
    };
    for wrong in [&other, &apart, &within, &x, &w] {
        assert_eq!(call([y.packed(), wrong.packed(), none]), -1);
    }
    assert_eq!(call([x.packed(), none, none]), -1, "in the memory of x");
    assert_eq!(memory, [9.0; 12]);
    assert_eq!(call([y.packed(), mean.packed(), none]), 0);
    assert!(memory[..10].iter().all(|x| *x != 9.0) && memory[10..] == [9.0; 2]);
}

#[test]
fn the_list_is_what_callers_read() {
    // SAFETY: the text lives forever.
    let text = unsafe { CStr::from_ptr(burn_kernels_functions()) }
        .to_str()
        .expect("text");
    assert_eq!(text.lines().count(), FUNCTIONS.len());
    for (line, function) in text.lines().zip(FUNCTIONS) {
        let [name, arguments, results] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(name, function.name);
        assert!(function.documentation.ends_with('.'));
        let kinds = [
            "tensor", "tensor?", "float", "float?", "int", "bool", "name",
        ];
        assert!(
            arguments
                .split(',')
                .all(|one| kinds.contains(&one.split(':').next_back().unwrap_or("")))
        );
        assert_eq!(
            results.split(',').filter(|name| !name.is_empty()).count(),
            function.results.len()
        );
    }
}
