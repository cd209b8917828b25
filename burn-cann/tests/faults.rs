//! Missing functions and failing operators, one after the other: errors that say so, and nothing left.

mod common;

use burn_cann::ops::{moe, rms_norm, swi_glu};
use burn_cann::{Cann, DType, Device, Error, Platform, Result, Tensor};
use common::maths::Random;
use common::{Scenario, device};

/// Some of everything.
fn program(cann: &Cann) -> Result<()> {
    let device = Device::open(cann, 0)?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let x = Tensor::from_slice(&stream, &[0.5f32; 32], [4, 8])?;
    let gamma = Tensor::from_slice(&stream, &[1.0f32; 8], [8])?;
    let norm = rms_norm::rms_norm(&stream, &x, &gamma, 1e-6)?;
    rms_norm::rms_norm_grad(&other, &x, &x, &norm.rstd, &gamma)?;
    let chosen = moe::gating_top_k_softmax(&other, &norm.y, None, 2)?;
    let permuted = moe::permute(&other, &x, &chosen.experts, None)?;
    moe::unpermute(
        &stream,
        &permuted.tokens,
        &permuted.row_of_slot,
        Some(&chosen.weights),
    )?;
    let y = swi_glu::swi_glu(&stream, &x, 1)?;
    y.to_vec::<f32>(&other)?;
    let mark = other.record()?;
    mark.synchronise()?;
    stream.wait_for(&mark)?;
    device.synchronise()
}

const NEEDED: [&str; 20] = [
    "aclrtSetDevice",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtCreateStream",
    "aclrtMalloc",
    "aclrtMallocHost",
    "aclrtMemcpyAsync",
    "aclrtCreateEventExWithFlag",
    "aclrtRecordEvent",
    "aclrtQueryEventStatus",
    "aclrtStreamWaitEvent",
    "aclrtSynchronizeEvent",
    "aclrtSynchronizeDevice",
    "aclCreateTensor",
    "aclnnRmsNormGetWorkspaceSize",
    "aclnnRmsNorm",
    "aclnnRmsNormGrad",
    "aclnnMoeTokenPermuteGetWorkspaceSize",
    "aclnnMoeTokenUnpermute",
    "aclnnSwiGlu",
];

#[test]
fn each_missing_function_is_an_error_that_names_it() {
    let name = "each_missing_function_is_an_error_that_names_it";
    // What was made before the gap may have no way to be given back, so the end is not looked at.
    for function in NEEDED {
        Scenario::new(name)
            .set("BURN_CANN_MISSING", function)
            .leaks()
            .run(|_| {
                let function = std::env::var("BURN_CANN_MISSING").unwrap();
                let folder = std::env::var_os("CANN_LIB_DIR").unwrap();
                let search = cann_sys::Search::in_folder(folder).hide(&function);
                let cann = Cann::load_from(&search).unwrap();
                let error = program(&cann).expect_err("a function is missing");
                assert!(matches!(error, Error::Missing(_)), "{function}: {error}");
                assert!(error.to_string().contains(&function), "{error}");
            });
        if common::inside() {
            return;
        }
    }
}

#[test]
fn each_failing_operator_is_an_error_and_nothing_is_left() {
    let name = "each_failing_operator_is_an_error_and_nothing_is_left";
    for operator in [
        "aclnnRmsNorm",
        "aclnnRmsNormGrad",
        "aclnnMoeGatingTopKSoftmax",
        "aclnnMoeTokenPermute",
        "aclnnMoeTokenUnpermute",
        "aclnnSwiGlu",
    ] {
        let failing = format!("{operator}=561002");
        Scenario::new(name)
            .set("CANN_EMULATOR_FAIL", failing)
            .run(|cann| {
                let setting = std::env::var("CANN_EMULATOR_FAIL").unwrap();
                let Err(Error::Call { function, code, .. }) = program(cann) else {
                    panic!("{setting} did not fail")
                };
                assert_eq!(
                    (format!("{function}=561002"), code.number()),
                    (setting, 561002)
                );
            });
        if common::inside() {
            return;
        }
    }
}

#[test]
fn the_program_runs_where_nothing_is_amiss() {
    Scenario::new("the_program_runs_where_nothing_is_amiss").run(|cann| program(cann).unwrap());
}

/// Counts of groups are on the device, where no check sees them.
#[test]
fn work_that_fails_on_the_device_is_an_error_of_its_stream() {
    let name = "work_that_fails_on_the_device_is_an_error_of_its_stream";
    // What the failed stream held is lost on purpose.
    Scenario::new(name)
        .leaks()
        .run(|cann| failed_work(cann, false));
}

#[test]
fn work_that_fails_on_a_stream_that_is_gone_is_an_error_too() {
    let name = "work_that_fails_on_a_stream_that_is_gone_is_an_error_too";
    Scenario::new(name)
        .leaks()
        .run(|cann| failed_work(cann, true));
}

fn failed_work(cann: &Cann, gone: bool) {
    use burn_cann::ops::grouped_matmul::{Groups, grouped_matmul};
    let (device, stream) = device(cann);
    let x = Tensor::from_slice(&stream, &[1.0f32; 8], [4, 2]).unwrap();
    let weight = Tensor::from_slice(&stream, &[1.0f32; 4], [1, 2, 2]).unwrap();
    let list = Tensor::from_slice(&stream, &[99i64], [1]).unwrap();
    let y = grouped_matmul(&stream, &x, &weight, (&list, Groups::Counts), None).unwrap();
    drop((x, weight, list));
    let stream = (!gone).then_some(stream);
    // Another stream reads the result.
    let reader = device.stream().unwrap();
    let error = y.to_vec::<f32>(&reader).unwrap_err();
    assert!(matches!(error, Error::Call { .. }), "{error}");
    drop((y, stream, reader));

    let other = device.stream().unwrap();
    let x = Tensor::from_slice(&other, &[1.0f32; 8], [4, 2]).unwrap();
    assert_eq!(x.to_vec::<f32>(&other).unwrap(), [1.0; 8]);
}

/// However one asks.
#[test]
fn failed_work_is_an_error_of_queries_marks_and_the_device() {
    use burn_cann::ops::grouped_matmul::{Groups, grouped_matmul};
    let name = "failed_work_is_an_error_of_queries_marks_and_the_device";
    Scenario::new(name).leaks().run(|cann| {
        let (device, stream) = device(cann);
        let x = Tensor::from_slice(&stream, &[1.0f32; 8], [4, 2]).unwrap();
        let weight = Tensor::from_slice(&stream, &[1.0f32; 4], [1, 2, 2]).unwrap();
        let list = Tensor::from_slice(&stream, &[99i64], [1]).unwrap();
        let before = stream.record().unwrap();
        let y = grouped_matmul(&stream, &x, &weight, (&list, Groups::Counts), None).unwrap();
        let after = stream.record().unwrap();
        before.synchronise().unwrap();
        for result in [
            after.synchronise(),
            stream.is_idle().map(drop),
            device.synchronise(),
            stream.synchronise(),
        ] {
            let Err(Error::Call { code, .. }) = &result else {
                panic!("{result:?}")
            };
            assert_eq!(code.number(), 507_035);
        }
        drop((x, weight, list, y));
    });
}

/// What the checks let pass, CANN (as the emulator knows it) takes: random operands, many of them wrong.
#[test]
fn what_is_not_refused_is_taken() {
    Scenario::new("what_is_not_refused_is_taken").run(|cann| {
        let (device, stream) = device(cann);
        let platform: &Platform = device.platform();
        let mut random = Random::new(3);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..4000 {
            let operands: Vec<Tensor> = (0..3).map(|_| any_tensor(&stream, &mut random)).collect();
            let [x, y, z] = &operands[..] else {
                unreachable!()
            };
            let k = random.below(4);
            let results = [
                rms_norm::rms_norm(&stream, x, y, 1e-6).map(drop),
                rms_norm::add_rms_norm(&stream, x, y, z, 1e-6).map(drop),
                swi_glu::swi_glu(&stream, x, k).map(drop),
                swi_glu::swi_glu_grad(&stream, x, y, k).map(drop),
                moe::gating_top_k_softmax(&stream, x, None, k).map(drop),
            ];
            for result in results {
                match result {
                    Ok(()) => taken += 1,
                    Err(Error::Refused(_)) => refused += 1,
                    Err(other) => panic!("{x:?}, {y:?}, {z:?}, {k}: {other}"),
                }
            }
        }
        stream.synchronise().unwrap();
        assert!(platform.soc.has_bf16());
        assert!(
            taken > 1000 && refused > 1000,
            "{taken} taken, {refused} refused"
        );
    });
}

fn any_tensor(stream: &burn_cann::Stream, random: &mut Random) -> Tensor {
    let dtypes = [DType::F32, DType::F32, DType::F16, DType::BF16, DType::I32];
    let rank = random.below(4);
    let shape: Vec<usize> = (0..rank)
        .map(|_| [0, 1, 2, 4, 4, 4][random.below(6)])
        .collect();
    let tensor = Tensor::empty(stream, dtypes[random.below(dtypes.len())], shape).unwrap();
    if rank >= 2 && random.below(4) == 0 {
        tensor.transpose(0, rank - 1).unwrap()
    } else {
        tensor
    }
}
