//! Measures the cost of a served device: the time of each operation over loopback, the messages of a training step with
//! and without fused kernels, and the rate at which weights are loaded.
//!
//! Run it with `cargo bench --features remote --bench remote`. Client and server are one process on one CPU, so that
//! only the connection makes a difference.

mod messages;

use burn::backend::Flex;
use burn::server::telemetry::{TelemetryProbe, TelemetrySubscription};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_kernels::ops::rms_norm;
use burn_kernels::remote::{self, ServeOptions, Server, connect};
use burn_kernels::semantics::RmsNormKey;
use messages::{Count, EVENTS, PARTS, sum};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The size of the file of weights, in bytes.
const WEIGHTS: usize = 1 << 30;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let (probe, events) = TelemetryProbe::channel(EVENTS);
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0))
        .weights(folder.path())
        .telemetry(probe);
    let server = Server::start::<Flex>([Default::default()], options).expect("it serves");
    let devices = connect(server.address(), server.token()).expect("it answers");
    let served = &devices[0];
    // `cargo test` only checks that the benchmark runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    messages(served, events);
    operations(served, if measured { 5000 } else { 50 });
    weights(
        served,
        folder.path(),
        if measured { WEIGHTS } else { 1 << 20 },
    );
}

/// Prints the messages of each part of a training step.
fn messages(served: &Device, events: TelemetrySubscription) {
    let [fused, plain] = messages::of_a_step(&messages::config(), served, events);
    println!("messages of a training step of the default Qwen3, 4 layers\n");
    println!("| part | fused | without | ratio |\n|---|---|---|---|");
    let row = |name: &str, fused: Count, plain: Count| {
        let text = |count: Count| {
            format!(
                "{} ({} operations, {} drops, {} reads)",
                count.all(),
                count.operations,
                count.drops,
                count.reads
            )
        };
        let ratio = fused.all() as f64 / plain.all() as f64;
        println!(
            "| {name} | {} | {} | {ratio:.2} |",
            text(fused),
            text(plain)
        );
    };
    for (index, name) in PARTS.into_iter().enumerate() {
        row(name, fused[index], plain[index]);
    }
    let both = |parts: &[Count]| sum(&parts[..2]);
    row("forward and backward", both(&fused), both(&plain));
    row("all", sum(&fused), sum(&plain));
}

/// Prints the time of each operation in a chain of dependent ones, on a local and on the served device.
fn operations(served: &Device, count: usize) {
    let add = |x: Tensor<2>| x + 1.0;
    let norm = |x: Tensor<2>| {
        let inputs = rms_norm::Inputs {
            x,
            weight: None,
            gate: None,
        };
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: None,
        };
        let key = RmsNormKey {
            scale: burn_kernels::semantics::Scale::None,
            ..RmsNormKey::LLAMA
        };
        rms_norm::fused(inputs, settings, key).expect("the CPU has the kernel")
    };
    println!("\ntime of an operation on [4, 64], of {count} that depend on each other\n");
    println!("| operation | here | served | difference |\n|---|---|---|---|");
    row("x + 1", served, count, add);
    row("fused RMSNorm", served, count, norm);
    let begun = Instant::now();
    for _ in 0..count {
        let _: f32 = Tensor::<1>::ones([1], served).into_scalar();
    }
    println!(
        "\na value made and read back: {:?}",
        begun.elapsed() / count as u32
    );
}

fn row(name: &str, served: &Device, count: usize, run: impl Fn(Tensor<2>) -> Tensor<2>) {
    let time = |device: &Device| {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let mut x = Tensor::<2>::ones([4, 64], device);
            device.sync().expect("the device answers");
            let begun = Instant::now();
            for _ in 0..count {
                x = run(x);
            }
            device.sync().expect("the device answers");
            best = best.min(begun.elapsed());
            drop(x);
        }
        best / count as u32
    };
    let (here, there) = (time(&Device::flex()), time(served));
    println!(
        "| {name} | {here:?} | {there:?} | {:?} |",
        there.saturating_sub(here)
    );
}

/// Prints the rate of loading weights, and that of copying the file to memory for comparison.
fn weights(served: &Device, folder: &Path, size: usize) {
    let path = folder.join("model.safetensors");
    write(&path, size);
    let rate = |time: Duration| size as f64 / time.as_secs_f64() / 1e9;
    let mut best = [Duration::MAX; 3];
    // The three take turns, so that other load on the machine affects all of them.
    for _ in 0..3 {
        let copy = timed(|| {
            let mut memory = vec![0_u8; size];
            let mut file = File::open(&path).expect("it was written");
            file.read_exact(&mut memory).expect("it is long enough");
            std::hint::black_box(&memory);
        });
        let load = timed(|| {
            let tensor = remote::load_tensor::<1>(served, &path, "w", None).expect("it reads it");
            served.sync().expect("the server answers");
            drop(tensor);
        });
        let cast = timed(|| {
            let dtype = Some(FloatDType::F32);
            let tensor = remote::load_tensor::<1>(served, &path, "w", dtype).expect("it reads it");
            served.sync().expect("the server answers");
            drop(tensor);
        });
        for (best, time) in best.iter_mut().zip([copy, load, cast]) {
            *best = (*best).min(time);
        }
    }
    let [copy, load, cast] = best;
    println!(
        "\n{} MiB of bf16 from a file in the page cache\n",
        size >> 20
    );
    println!("| what | GB/s | part of the copy |\n|---|---|---|");
    let row = |name: &str, time: Duration| {
        println!(
            "| {name} | {:.2} | {:.2} |",
            rate(time),
            copy.as_secs_f64() / time.as_secs_f64()
        );
    };
    row("copied to memory", copy);
    row("loaded by the server", load);
    row("loaded by the server, cast to f32", cast);
    let sent = timed(|| {
        let part = size.min(64 << 20) / 2;
        let data = vec![burn::tensor::bf16::ONE; part];
        let data = burn::tensor::TensorData::new(data, [part]);
        let tensor = Tensor::<1>::from_data(data, (served, DType::BF16));
        served.sync().expect("the server answers");
        drop(tensor);
    });
    let sent = size.min(64 << 20) as f64 / sent.as_secs_f64() / 1e9;
    println!("| sent over the connection (64 MiB) | {sent:.2} | |");
}

fn timed(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

/// Writes a safetensors file with one tensor of bf16.
fn write(path: &Path, size: usize) {
    let header = format!(
        r#"{{"w":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{size}]}}}}"#,
        size / 2
    );
    let mut file = File::create(path).expect("the folder is ours");
    file.write_all(&(header.len() as u64).to_le_bytes())
        .and_then(|()| file.write_all(header.as_bytes()))
        .expect("there is room");
    // A bf16 number near 1.
    let piece = [0x80, 0x3f].repeat(1 << 19);
    for _ in 0..size / piece.len() {
        file.write_all(&piece).expect("there is room");
    }
}
