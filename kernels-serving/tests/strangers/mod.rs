//! Clients that send operations with operands that don't match, without the checks of this crate's own client. Their
//! messages are written here from the documentation of the wire format.

use burn::backend::ir::{CustomOpIr, ScalarIr, TensorIr};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Remote,
    RemoteDevice, Shape,
};
use burn::remote::CustomOpClient;
use burn::tensor::{DType, Device, Int, IntDType, Tensor, TensorData};
use kernels_runtime::ops::moe::experts;
use kernels_runtime::ops::{
    adam_w, attention, cross_entropy, glu, layer_norm, linear_cross_entropy, qk_norm_rope, rms_norm,
};
use kernels_runtime::semantics::*;
use kernels_serving::remote::{self, Server, connect};
use serde::Serialize;
use std::env;
use std::ops::Range;
use std::process::Command;

/// The shape and dtype of a tensor, and its numbers if they are integers.
#[derive(Clone, Debug)]
struct Given {
    shape: Vec<usize>,
    dtype: DType,
    ints: &'static [i64],
}

/// A message of a client, with the results that it expects.
#[derive(Clone, Debug)]
struct Message {
    op: &'static str,
    inputs: Vec<Given>,
    outputs: Vec<Given>,
    /// The key, settings and flags in MessagePack.
    numbers: Vec<u8>,
    /// The same numbers as sent.
    scalars: Vec<ScalarIr>,
}

fn float(shape: impl Into<Vec<usize>>) -> Given {
    Given {
        shape: shape.into(),
        dtype: DType::F32,
        ints: &[],
    }
}

fn ints(shape: impl Into<Vec<usize>>, ints: &'static [i64]) -> Given {
    Given {
        shape: shape.into(),
        dtype: DType::I32,
        ints,
    }
}

/// Returns the schema, the number of bytes, and the bytes in words of eight.
fn scalars(numbers: &[u8]) -> Vec<ScalarIr> {
    let words = numbers.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let start = [4, numbers.len() as u64].into_iter();
    start.chain(words).map(ScalarIr::UInt).collect()
}

fn message(
    op: &'static str,
    inputs: impl Into<Vec<Given>>,
    outputs: impl Into<Vec<Given>>,
    numbers: impl Serialize,
) -> Message {
    let numbers = rmp_serde::to_vec_named(&numbers).expect("numbers and names are MessagePack");
    Message {
        op,
        inputs: inputs.into(),
        outputs: outputs.into(),
        scalars: scalars(&numbers),
        numbers,
    }
}

/// Zero, three, the largest number and infinity in MessagePack.
const OTHERS: [&[u8]; 4] = [
    &[0],
    &[3],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0],
];

/// Returns the places of numbers, flags and absent options in MessagePack, without those of texts.
fn places(numbers: &[u8]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < numbers.len() {
        let (length, is_number) = match numbers[at] {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 => (1, true),
            // For maps and lists, only the first byte.
            0x80..=0x9f => (1, false),
            text @ 0xa0..=0xbf => (1 + usize::from(text & 0x1f), false),
            0xcb => (9, true),
            0xd0 => (2, true),
            other => panic!("{other:#x} is in none of the messages"),
        };
        if is_number {
            places.push(at..at + length);
        }
        at += length;
    }
    places
}

/// A router's key and numbers as they are sent.
#[derive(Serialize)]
struct Routing {
    key: RouterKey,
    num_experts: usize,
    top_k: usize,
    groups: [usize; 2],
    scale: f64,
}

/// The numbers of a forward pass as they are sent: those of the operation, how many tensors open operands are, and which
/// gradients will be wanted.
#[derive(Serialize)]
struct Forward<N> {
    numbers: N,
    lengths: Vec<usize>,
    wanted: Option<Vec<bool>>,
}

/// Returns the numbers of a forward pass of so many float tensors, whose gradients will all be wanted.
fn forward<N>(numbers: N, lengths: impl Into<Vec<usize>>, tensors: usize) -> Forward<N> {
    forward_wanting(numbers, &lengths.into(), Some(&vec![true; tensors]))
}

fn forward_wanting<N>(numbers: N, lengths: &[usize], wanted: Option<&[bool]>) -> Forward<N> {
    Forward {
        numbers,
        lengths: lengths.to_vec(),
        wanted: wanted.map(<[_]>::to_vec),
    }
}

/// The numbers of a backward pass as they are sent. `added` is true if a gradient comes with the message.
#[derive(Serialize)]
struct Backward<N> {
    numbers: N,
    lengths: Vec<usize>,
    wanted: Vec<bool>,
    added: bool,
}

/// Returns the numbers of a backward pass of so many float tensors, whose gradients are all wanted.
fn backward<N>(numbers: N, lengths: impl Into<Vec<usize>>, tensors: usize) -> Backward<N> {
    backward_wanting(numbers, &lengths.into(), &vec![true; tensors])
}

fn backward_wanting<N>(numbers: N, lengths: &[usize], wanted: &[bool]) -> Backward<N> {
    Backward {
        numbers,
        lengths: lengths.to_vec(),
        wanted: wanted.to_vec(),
        added: false,
    }
}

/// Returns a valid message for each operation.
fn messages() -> Vec<Message> {
    let norm = RmsNormKey {
        gating: Gating::BeforeNorm,
        ..RmsNormKey::LLAMA
    };
    let norm = (
        rms_norm::Settings {
            eps: 1e-5,
            group_size: None,
        },
        norm,
    );
    let layer_norm = (layer_norm::Settings { eps: 1e-5 }, LayerNormKey::GPT2);
    let (x, row, column) = (|| float([4, 16]), || float([16]), || float([4, 1]));
    let interleaved = GluKey {
        projections: Projections::Chunked,
        ..GluKey::SWIGLU
    };
    let heads = || float([2, 3, 5, 16]);
    let table = || float([1, 5, 16]);
    let keys = || float([2, 1, 7, 16]);
    let attention = (
        attention::Settings::default(),
        attention::Lengths::default(),
        AttentionKey::CAUSAL,
    );
    let turned = || float([2, 5, 3, 16]);
    let angles = || float([1, 3, 16]);
    let prepared = (
        qk_norm_rope::Settings { eps: Some(1e-6) },
        QkNormRopeKey::QWEN3,
    );
    let step = adam_w::Settings {
        learning_rate: 0.01,
        beta_1: 0.9,
        beta_2: 0.99,
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 1,
    };
    let routing = Routing {
        key: RouterKey::MIXTRAL,
        num_experts: 8,
        top_k: 2,
        groups: [1, 1],
        scale: 1.0,
    };
    let chosen = || ints([4, 2], &[0, 1, 5, 3, 2, 4, 7, 6]);
    let map = || ints([4, 2], &[3, 0, 7, 1, 2, 4, 5, 6]);
    let experts = || ints([4, 2], &[0, 1, 2, 1, 0, 2, 2, 1]);
    let mixture = experts::Settings {
        key: MoeExpertsKey::QWEN3,
        limit: None,
    };
    let (gate_up, down) = (|| float([3, 32, 16]), || float([3, 16, 16]));
    let (logits, targets) = (|| float([4, 8]), || ints([4], &[0, 7, -100, 3]));
    let of_loss = cross_entropy::Settings::default();
    let loss = (of_loss, CrossEntropyKey::MEAN);
    let linear = (LinearCrossEntropyKey::MEAN, of_loss);
    let of_hidden = linear_cross_entropy::Wanted {
        hidden: true,
        weight: true,
        bias: false,
    };
    let vocabulary = || float([8, 16]);
    vec![
        message(
            "burn-kernels/cross_entropy",
            [logits(), targets()],
            [float([1]), float([4])],
            forward(loss, [], 1),
        ),
        message(
            "burn-kernels/cross_entropy_backward",
            [float([1]), float([4]), logits(), targets()],
            [logits()],
            backward(loss, [], 1),
        ),
        message(
            "burn-kernels/linear_cross_entropy",
            [x(), vocabulary(), targets()],
            [float([1]), x(), vocabulary()],
            (linear, of_hidden),
        ),
        message(
            "burn-kernels/linear_cross_entropy_scale",
            [float([1]), x(), vocabulary()],
            [x(), vocabulary()],
            (of_hidden, burn::tensor::FloatDType::F32),
        ),
        message(
            "burn-kernels/linear_cross_entropy_backward",
            [float([1]), x(), vocabulary(), targets()],
            [x(), vocabulary()],
            (linear, of_hidden),
        ),
        message(
            "burn-kernels/rms_norm",
            [x(), row(), x()],
            [x(), float([4, 1])],
            forward(norm, [1, 1, 0], 3),
        ),
        message(
            "burn-kernels/add_rms_norm",
            [x(), x(), row()],
            [x(), x(), float([4, 1])],
            forward((norm.0, AddRmsNormKey::LLAMA), [1, 0], 3),
        ),
        message(
            "burn-kernels/rms_norm_backward",
            [x(), float([4, 1]), x(), row(), x()],
            [x(), row(), x()],
            backward(norm, [1, 1, 0], 3),
        ),
        message(
            "burn-kernels/rms_norm_backward",
            [x(), x(), float([4, 1]), x(), row(), x()],
            [x(), row(), x()],
            Backward {
                added: true,
                ..backward(norm, [1, 1, 0], 3)
            },
        ),
        message(
            "burn-kernels/layer_norm",
            [x(), row(), row()],
            [x(), column(), column()],
            forward(layer_norm, [1], 3),
        ),
        message(
            "burn-kernels/layer_norm_backward",
            [x(), column(), column(), x(), row(), row()],
            [x(), row(), row()],
            backward(layer_norm, [1], 3),
        ),
        message(
            "burn-kernels/linear",
            [x(), float([16, 8]), float([8])],
            [float([4, 8])],
            forward((LinearKey::BURN,), [1], 3),
        ),
        message(
            "burn-kernels/linear_backward",
            [float([4, 8]), x(), float([16, 8]), float([8])],
            [x(), float([16, 8]), float([8])],
            backward((LinearKey::BURN,), [1], 3),
        ),
        message(
            "burn-kernels/linear_backward",
            [float([4, 8]), x(), x(), float([16, 8]), float([8])],
            [x(), float([16, 8]), float([8])],
            Backward {
                added: true,
                ..backward((LinearKey::BURN,), [1], 3)
            },
        ),
        message(
            "burn-kernels/glu",
            [x(), x()],
            [x()],
            forward((glu::Settings::default(), GluKey::SWIGLU), [1], 2),
        ),
        message(
            "burn-kernels/glu_backward",
            [x(), float([4, 32])],
            [float([4, 32])],
            backward((glu::Settings::default(), interleaved), [0], 1),
        ),
        message(
            "burn-kernels/packing_glu",
            [x(), x()],
            [x(), float([4, 32])],
            forward((GluKey::SWIGLU,), [], 2),
        ),
        message(
            "burn-kernels/packing_glu_backward",
            [x(), float([4, 32]), x(), x()],
            [x(), x()],
            backward((GluKey::SWIGLU,), [], 2),
        ),
        message(
            "burn-kernels/rope",
            [heads(), table(), table()],
            [heads()],
            forward_wanting((RopeKey::LLAMA,), &[], None),
        ),
        message(
            "burn-kernels/rope_backward",
            [heads(), heads(), table(), table()],
            [heads(), table(), table()],
            backward((RopeKey::LLAMA,), [], 3),
        ),
        message(
            "burn-kernels/qk_norm_rope",
            [heads(), row(), angles(), angles()],
            [turned()],
            forward_wanting(prepared, &[1], None),
        ),
        message(
            "burn-kernels/qk_norm_rope_backward",
            [turned(), heads(), row(), angles(), angles()],
            [heads(), row(), angles(), angles()],
            backward(prepared, [1], 4),
        ),
        message(
            "burn-kernels/attention",
            [heads(), keys(), keys()],
            [heads(), heads(), float([2, 3, 5])],
            forward(&attention, [0, 0], 3),
        ),
        // Inference.
        message(
            "burn-kernels/attention",
            [heads(), keys(), keys()],
            [heads()],
            Forward {
                wanted: None,
                ..forward(&attention, [0, 0], 3)
            },
        ),
        message(
            "burn-kernels/attention_backward",
            [heads(), heads(), float([2, 3, 5]), heads(), keys(), keys()],
            [heads(), keys(), keys()],
            backward(&attention, [0, 0], 3),
        ),
        message(
            "burn-kernels/adam_w",
            [x(), x(), x(), x()],
            [x(), x(), x()],
            forward_wanting((step,), &[], None),
        ),
        message(
            "burn-kernels/route",
            [float([4, 8])],
            [float([4, 2]), ints([4, 2], &[])],
            forward_wanting((&routing, IntDType::I32), &[0], None),
        ),
        message(
            "burn-kernels/route_backward",
            [float([4, 2]), float([4, 8]), chosen()],
            [float([4, 8])],
            backward_wanting((&routing, IntDType::I32), &[0], &[true]),
        ),
        message(
            "burn-kernels/grouped_matmul",
            [x(), ints([3], &[1, 0, 2]), float([3, 16, 32])],
            [float([4, 32])],
            forward_wanting((ExpertLayout::Matmul, None::<Vec<usize>>), &[1], None),
        ),
        message(
            "burn-kernels/grouped_matmul_backward",
            [
                float([4, 32]),
                x(),
                ints([3], &[1, 0, 2]),
                float([3, 16, 32]),
            ],
            [x(), float([3, 16, 32])],
            backward_wanting((ExpertLayout::Matmul, None::<Vec<usize>>), &[1], &[true; 2]),
        ),
        // The host knows the counts.
        message(
            "burn-kernels/grouped_matmul",
            [x(), ints([2], &[1, 3]), float([16, 32]), float([16, 32])],
            [float([4, 32])],
            forward_wanting((ExpertLayout::Matmul, Some(vec![1, 3])), &[2], None),
        ),
        message(
            "burn-kernels/sort_slots",
            [experts()],
            [ints([4, 2], &[]), ints([3], &[])],
            (3, 8),
        ),
        message("burn-kernels/spread", [x(), map()], [float([8, 16])], 8),
        message("burn-kernels/sum_rows", [float([8, 16]), map()], [x()], ()),
        message(
            "burn-kernels/weigh_rows",
            [float([8, 16]), float([4, 2]), map()],
            [x()],
            (),
        ),
        message(
            "burn-kernels/weigh_rows_d_rows",
            [x(), float([4, 2]), map()],
            [float([8, 16])],
            8,
        ),
        message(
            "burn-kernels/weigh_rows_backward",
            [x(), float([8, 16]), float([4, 2]), map()],
            [float([8, 16]), float([4, 2])],
            (),
        ),
        message(
            "burn-kernels/experts",
            [x(), float([4, 2]), experts(), gate_up(), down()],
            [x(), float([8, 32])],
            forward_wanting((mixture,), &[6, 1, 0, 1, 0, 0, 0], Some(&[true; 4])),
        ),
        message(
            "burn-kernels/experts_backward",
            [
                x(),
                float([8, 32]),
                x(),
                float([4, 2]),
                experts(),
                gate_up(),
                down(),
            ],
            [x(), float([4, 2]), gate_up(), down()],
            backward_wanting((mixture,), &[6, 1, 0, 1, 0, 0, 0], &[true; 4]),
        ),
    ]
}

impl Given {
    fn changes(&self) -> Vec<Self> {
        let mut changes = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut changed = self.clone();
            change(&mut changed);
            changes.push(changed);
        };
        for axis in 0..self.shape.len() {
            let size = self.shape[axis];
            for other in [size + 1, size - 1, 0, 1] {
                if other != size {
                    add(&|given| given.shape[axis] = other);
                }
            }
        }
        add(&|given| given.shape.insert(0, 1));
        add(&|given| {
            given.shape.remove(0);
        });
        add(&|given| given.dtype = DType::BF16);
        add(&|given| given.dtype = DType::I64);
        if !self.ints.is_empty() {
            add(&|given| given.ints = &[-1, 2]);
            add(&|given| given.ints = &[i32::MAX as i64, 0]);
        }
        changes
    }

    /// Creates the tensor with operations of Burn.
    fn tensor(&self, device: &Device) -> BackendTensor<Remote> {
        let len: usize = self.shape.iter().product();
        let value = |i: usize| match self.ints {
            [] => ((i * 7919) % 613) as f64 / 613.0 + 0.25,
            ints => ints[i % ints.len()] as f64,
        };
        let values: Vec<f64> = (0..len).map(value).collect();
        let is_int = self.dtype.is_int();
        let dispatch = shaped!(self.shape, D => {
            let data = TensorData::new(values, sizes::<D>(&self.shape));
            let data = data.convert_dtype(self.dtype);
            if is_int {
                Tensor::<D, Int>::from_data(data, (device, self.dtype)).into_dispatch()
            } else {
                Tensor::<D>::from_data(data, (device, self.dtype)).into_dispatch()
            }
        });
        match dispatch.kind {
            DispatchTensorKind::Remote(tensor) => tensor,
            other => panic!("not a served tensor: {other:?}"),
        }
    }
}

/// Runs `$body` with `$D` the number of axes.
macro_rules! shaped {
    ($shape:expr, $D:ident => $body:expr) => {
        match $shape.len() {
            1 => shaped!(@ 1, $D, $body),
            2 => shaped!(@ 2, $D, $body),
            3 => shaped!(@ 3, $D, $body),
            4 => shaped!(@ 4, $D, $body),
            _ => shaped!(@ 5, $D, $body),
        }
    };
    (@ $rank:literal, $D:ident, $body:expr) => {{
        const $D: usize = $rank;
        $body
    }};
}
use shaped;

fn sizes<const D: usize>(shape: &[usize]) -> [usize; D] {
    // A tensor without axes is sent as one with one element.
    std::array::from_fn(|axis| shape.get(axis).copied().unwrap_or(1))
}

/// The outcome of a client's message.
#[derive(Debug)]
enum Answer {
    /// The results are finite numbers.
    Numbers,
    /// The session ended or the read failed, for this reason.
    Refused(String),
}

fn send(device: &Device, message: &Message) -> Answer {
    let inputs: Vec<_> = message
        .inputs
        .iter()
        .map(|one| one.tensor(device))
        .collect();
    let client = CustomOpClient::new(&served(&inputs[0]));
    let inputs: Vec<_> = inputs
        .into_iter()
        .map(|input| match input {
            BackendTensor::Float(tensor) | BackendTensor::Int(tensor) => tensor.into_ir(),
            other => panic!("{other:?}"),
        })
        .collect();
    let output = |given: &Given| {
        let shape = Shape::from(given.shape.clone());
        TensorIr::uninit(client.create_empty_handle(), shape, given.dtype)
    };
    let outputs: Vec<_> = message.outputs.iter().map(output).collect();
    let op = CustomOpIr::with_scalars(message.op, &inputs, &outputs, message.scalars.clone());
    let results = client.register(op);
    for (result, given) in results.into_iter().zip(&message.outputs) {
        if let Err(error) = read(result, given) {
            // After an index out of range, a session on an NPU goes on, and the read returns the reason.
            return Answer::Refused(remote::failure(device).unwrap_or(error));
        }
    }
    Answer::Numbers
}

fn served(tensor: &BackendTensor<Remote>) -> RemoteDevice {
    use burn::backend::TensorMetadata;
    match tensor {
        BackendTensor::Float(tensor) | BackendTensor::Int(tensor) => tensor.device(),
        other => panic!("{other:?}"),
    }
}

/// Reads the numbers of a tensor, or returns the reason why they can't be read.
fn read(tensor: FloatTensor<Remote>, given: &Given) -> Result<(), String> {
    let is_int = given.dtype.is_int();
    let kind = if is_int {
        BackendTensor::Int(tensor)
    } else {
        BackendTensor::Float(tensor)
    };
    let dispatch = DispatchTensor {
        kind: DispatchTensorKind::Remote(kind),
        autodiff: DispatchAutodiffContext::Disabled,
    };
    let data = shaped!(given.shape, D => if is_int {
        Tensor::<D, Int>::from_dispatch(dispatch).try_into_data()
    } else {
        Tensor::<D>::from_dispatch(dispatch).try_into_data()
    });
    let data = data.map_err(|error| error.to_string())?;
    assert!(data.iter::<f64>().all(f64::is_finite), "{data:?}");
    Ok(())
}

/// The environment variable with the server to visit, and the step and first message of the visit.
const VISIT: &str = "VISIT_AS_A_STRANGER";
/// The number of messages of one process. Burn's client keeps a busy thread for every session that the process ever
/// had, and its fusion further ones.
const AT_A_TIME: usize = 8;

/// Sends each operation unchanged, and then every `step`-th of those with a changed operand, result or number, while a
/// good client checks its own results. The strangers are other processes that run the test `name` again, which calls
/// [`visit_if_told`] first.
pub fn visit(server: &Server, name: &str, step: usize) {
    let good = connect(server.address(), server.token()).unwrap().remove(0);
    let expected = norm(&good);
    let total = all(step).len();
    let mut refused = 0;
    for from in (0..total).step_by(AT_A_TIME) {
        let visit = format!("{} {} {step} {from}", server.address(), server.token());
        let stranger = Command::new(env::current_exe().expect("a path"))
            .args([name, "--exact", "--nocapture"])
            .env(VISIT, visit)
            .output()
            .expect("the test's own program runs");
        let text = String::from_utf8_lossy(&stranger.stdout).into_owned()
            + &String::from_utf8_lossy(&stranger.stderr);
        assert!(stranger.status.success(), "{text}");
        let said = text.lines().find_map(|line| line.strip_prefix("refused: "));
        let of_this: usize = said.expect("a count").parse().expect("a count");
        refused += of_this;
        assert_eq!(norm(&good), expected, "beside {from} and those after it");
    }
    assert!(refused > total / 2, "{refused} of {total} were refused");
}

/// Visits the server if this process is a stranger. Returns `true` if it is.
pub fn visit_if_told() -> bool {
    let Ok(visit) = env::var(VISIT) else {
        return false;
    };
    let words: Vec<&str> = visit.split(' ').collect();
    let [address, token, step, from] = words[..] else {
        panic!("{visit}");
    };
    let (step, from): (usize, usize) = (step.parse().unwrap(), from.parse().unwrap());
    let mut refused = 0;
    let all = all(step).into_iter();
    for (message, is_right) in all.skip(from).take(AT_A_TIME) {
        let device = connect(address, token).unwrap().remove(0);
        match send(&device, &message) {
            Answer::Numbers => {}
            Answer::Refused(why) => {
                assert!(!is_right && is_sentence(&why), "{message:?}: {why}");
                refused += 1;
            }
        }
    }
    println!("\nrefused: {refused}");
    true
}

/// Returns the messages of a visit to a server, each with `true` if it is valid.
fn all(step: usize) -> Vec<(Message, bool)> {
    let mut all = Vec::new();
    for message in messages() {
        let changed = changes(&message).into_iter().step_by(step);
        all.push((message, true));
        all.extend(changed.map(|message| (message, false)));
    }
    all
}

fn changes(message: &Message) -> Vec<Message> {
    let mut changes = Vec::new();
    for place in 0..message.inputs.len() {
        for changed in message.inputs[place].changes() {
            let mut message = message.clone();
            message.inputs[place] = changed;
            changes.push(message);
        }
    }
    for place in 0..message.outputs.len() {
        let mut larger = message.clone();
        larger.outputs[place].shape[0] += 1;
        let mut other = message.clone();
        other.outputs[place].dtype = DType::F64;
        changes.extend([larger, other]);
    }
    for place in 0..message.scalars.len() {
        for number in [0, 3, u64::MAX] {
            let mut message = message.clone();
            if message.scalars[place] != ScalarIr::UInt(number) {
                message.scalars[place] = ScalarIr::UInt(number);
                changes.push(message);
            }
        }
    }
    for place in places(&message.numbers) {
        for other in OTHERS {
            if message.numbers[place.clone()] != *other {
                let mut numbers = message.numbers.clone();
                numbers.splice(place.clone(), other.iter().copied());
                let scalars = scalars(&numbers);
                changes.push(Message {
                    numbers,
                    scalars,
                    ..message.clone()
                });
            }
        }
    }
    changes
}

/// Returns `true` if a reason names the operation, or CANN's operation that found an index out of range.
fn is_sentence(why: &str) -> bool {
    why.starts_with("`burn-kernels/")
        || why.starts_with("mixture of experts: ")
        || why.starts_with("moe_")
        || why.starts_with("router: ")
        || why.starts_with("grouped matmul: ")
        || why.starts_with("the NPU failed: ")
        || (why.contains("Npu(0)") && why.contains("CANN says: aclr"))
        || why.contains("since the last read were")
}

fn norm(device: &Device) -> Vec<f32> {
    let x = Tensor::<2>::from_data([[1.0, 2.0, 3.0, 4.0_f32]; 3], device);
    let inputs = rms_norm::Inputs {
        weight: Some(Tensor::from_data([1.0, 0.5, 2.0, 1.5_f32], device)),
        x,
        gate: None,
    };
    let settings = rms_norm::Settings {
        eps: 1e-5,
        group_size: None,
    };
    let y = rms_norm::fused(inputs, settings, RmsNormKey::LLAMA).expect("a kernel");
    y.into_data().try_to_vec().expect("of f32")
}
