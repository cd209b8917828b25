//! Tests of missing functions and failing operators, one after the other: the errors name them, and nothing is left
//! behind.

use crate::common::maths::Random;
use crate::common::{Scenario, device};
use burn_cann::ops::moe::{self, Order};
use burn_cann::ops::{rms_norm, swi_glu};
use burn_cann::{Cann, DType, Device, Error, Platform, Result, Tensor};

/// Runs a program that uses some of everything.
fn program(cann: &Cann) -> Result<()> {
    let device = Device::open(cann, 0)?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let x = Tensor::from_slice(&stream, &[0.5f32; 32], [4, 8])?;
    let gamma = Tensor::from_slice(&stream, &[1.0f32; 8], [8])?;
    let norm = rms_norm::rms_norm(&stream, &x, &gamma, 1e-6)?;
    rms_norm::rms_norm_grad(&other, &x, &x, &norm.rstd, &gamma)?;
    let chosen = moe::gating_top_k_softmax_v2(&other, &norm.y, None, 2, Order::ChoiceFirst)?;
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

/// The operators that the program calls.
const OPERATORS: [&str; 6] = [
    "aclnnRmsNorm",
    "aclnnRmsNormGrad",
    "aclnnMoeGatingTopKSoftmaxV2",
    "aclnnMoeTokenPermute",
    "aclnnMoeTokenUnpermute",
    "aclnnSwiGlu",
];

/// The functions that the program needs besides its operators.
const NEEDED: [&str; 16] = [
    "aclInit",
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
    "aclrtSynchronizeStream",
    "aclrtSynchronizeDevice",
    "aclCreateTensor",
];

/// Hides every function of the runtime, of descriptors and of the program's operators, one after the other. If the
/// program needs the function, it gets an error that names it. Otherwise nothing changes.
#[test]
fn each_missing_function_is_an_error_that_names_it_or_is_not_missed() {
    let operators =
        OPERATORS.map(|operator| [operator.into(), operator.to_owned() + "GetWorkspaceSize"]);
    let functions = [cann_sys::Runtime::NAMES, cann_sys::Meta::NAMES].concat();
    let functions = functions.into_iter().map(str::to_owned);
    // Without the hidden function some things can't be given back, so the report at the end is ignored.
    for function in functions.chain(operators.into_iter().flatten()) {
        Scenario::new()
            .set("BURN_CANN_MISSING", &function)
            .leaks()
            .run(|_| {
                let function = std::env::var("BURN_CANN_MISSING").unwrap();
                let folder = std::env::var_os("CANN_LIB_DIR").unwrap();
                let search = cann_sys::Search::in_folder(folder).hide(&function);
                let result = Cann::load_from(&search).and_then(|cann| program(&cann));
                let operator = function
                    .strip_suffix("GetWorkspaceSize")
                    .unwrap_or(&function);
                let needed = NEEDED.contains(&&*function) || OPERATORS.contains(&operator);
                match result {
                    Ok(()) => assert!(!needed, "{function} is needed, and nobody said so"),
                    // The abilities of a processor without a name are unknown.
                    Err(Error::Refused(_)) => assert_eq!(function, "aclrtGetSocName"),
                    Err(error) => {
                        assert!(matches!(error, Error::Missing(_)), "{function}: {error}");
                        assert!(error.to_string().contains(&function), "{error}");
                    }
                }
            });
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn each_failing_operator_is_an_error_and_nothing_is_left() {
    let codes = [
        161_001, 161_002, 361_001, 561_000, 561_001, 561_002, 561_003, 561_101, 561_103,
    ];
    for operator in OPERATORS {
        for code in codes {
            let failing = format!("{operator}={code}");
            Scenario::new()
                .set("CANN_EMULATOR_FAIL", failing)
                .run(|cann| {
                    let setting = std::env::var("CANN_EMULATOR_FAIL").unwrap();
                    let Err(Error::Call { function, code, .. }) = program(cann) else {
                        panic!("{setting} did not fail")
                    };
                    assert_eq!(format!("{function}={}", code.number()), setting);
                });
            if crate::common::inside() {
                return;
            }
        }
    }
}

/// A number larger than that of the program's requests to the device.
const ALLOCATIONS: u64 = 24;

/// If memory is short once, the request succeeds after the cache is given back, and the program does not notice.
#[test]
fn each_allocation_that_fails_once_is_tried_again() {
    for place in 1..=ALLOCATIONS {
        Scenario::new()
            .set("CANN_EMULATOR_OOM_AT", place)
            .run(|cann| {
                let device = Device::open(cann, 0).unwrap();
                program(cann).unwrap();
                assert!(device.statistics().device_requests < ALLOCATIONS);
            });
        if crate::common::inside() {
            return;
        }
    }
}

/// If memory stays short, the program gets an error at any request, and nothing is left behind.
#[test]
fn memory_may_end_at_every_allocation() {
    for blocks in 0..=ALLOCATIONS {
        Scenario::new()
            .set("CANN_EMULATOR_MEMORY", 512 * blocks)
            .run(|cann| match program(cann) {
                Ok(()) => assert!(std::env::var("CANN_EMULATOR_MEMORY").unwrap() != "0"),
                Err(Error::OutOfMemory { .. }) => {}
                Err(other) => panic!("{other}"),
            });
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn slow_streams_change_nothing() {
    for delay in [0, 50, 700, 5000] {
        Scenario::new()
            .set("CANN_EMULATOR_DELAY_US", delay)
            .run(|cann| program(cann).unwrap());
        if crate::common::inside() {
            return;
        }
    }
}

/// Runs every version with the functions that it is known to lack, and an unknown one.
#[test]
fn every_version_runs_the_program() {
    let versions = [
        "8.0.RC3",
        "8.1.RC1",
        "8.2.RC1",
        "8.3.RC1",
        "8.5.0",
        "9.0.0",
        "9.1.0",
        "unheard of",
    ];
    for version in versions {
        let older = version.starts_with("8.") && version < "8.5";
        let newer = |name: &&str| {
            let since = cann_sys::versions::known(name).versions;
            since.starts_with("8.3") || since.starts_with("8.5") || since.starts_with("9.")
        };
        let lacking = cann_sys::all_names()
            .into_iter()
            .filter(|name| older && newer(name));
        lacking
            .fold(Scenario::new(), Scenario::hide)
            .set("CANN_EMULATOR_VERSION", version)
            .run(|cann| program(cann).unwrap());
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn every_processor_runs_the_program_or_refuses_it() {
    let with = [
        "Ascend910B1",
        "Ascend910B2",
        "Ascend910B2C",
        "Ascend910B3",
        "Ascend910B4",
        "Ascend910B4-1",
        "Ascend910_9391",
        "Ascend910_9392",
        "Ascend910_9381",
        "Ascend910_9382",
        "Ascend910_9372",
        "Ascend910_9362",
        "Ascend910_9363",
    ];
    let without = [
        "Ascend910A",
        "Ascend910ProB",
        "Ascend310P1",
        "Ascend310P3",
        "Ascend310B1",
        "Ascend950PR_9599",
        "Unheard",
    ];
    for soc in with.into_iter().chain(without) {
        Scenario::new().set("CANN_EMULATOR_SOC", soc).run(|cann| {
            let soc = std::env::var("CANN_EMULATOR_SOC").unwrap();
            match program(cann) {
                Ok(()) => assert!(with.contains(&&*soc), "{soc}"),
                Err(Error::Refused(refusal)) => {
                    assert!(without.contains(&&*soc), "{soc}: {refusal}");
                    assert!(refusal.to_string().contains(&soc), "{refusal}");
                }
                Err(other) => panic!("{soc}: {other}"),
            }
        });
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn the_program_runs_where_nothing_is_amiss() {
    Scenario::new().run(|cann| program(cann).unwrap());
}

/// The counts of groups are on the device, where no check sees them.
#[test]
fn work_that_fails_on_the_device_is_an_error_of_its_stream() {
    Scenario::new().run(|cann| failed_work(cann, false));
}

#[test]
fn work_that_fails_on_a_stream_that_is_gone_is_an_error_too() {
    Scenario::new().run(|cann| failed_work(cann, true));
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

/// Checks every way to ask about failed work.
#[test]
fn failed_work_is_an_error_of_queries_marks_and_the_device() {
    use burn_cann::ops::grouped_matmul::{Groups, grouped_matmul};
    Scenario::new().run(|cann| {
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

/// CANN, as the emulator implements it, takes what the checks accept. Operands are random, many of them wrong.
#[test]
fn what_is_not_refused_is_taken() {
    Scenario::new().run(|cann| {
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
                moe::gating_top_k_softmax_v2(&stream, x, None, k, Order::ChoiceFirst).map(drop),
                moe::gating_top_k(&stream, x, Some(y), by_scores(k)).map(drop),
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

fn by_scores(k: usize) -> moe::Gating {
    moe::Gating {
        k,
        scores: moe::Scores::Softmax,
        groups: None,
    }
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
