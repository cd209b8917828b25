//! Measures the attribute's cost in compile time: 200 annotated structs, and the same structs with methods written by
//! hand.
//!
//! Run it with `cargo test --workspace --bench compile_time` (or `cargo bench --bench compile_time`).
//!
//! Both are compiled by the `rustc` of this machine against the workspace's own development build, with the flags that
//! Cargo passes: metadata only for `cargo check`, and for `cargo build` code without optimisation, which is Cargo's
//! default, and at this workspace's level. The times leave out Cargo's own work, so the ratios are upper bounds. Every
//! method is instantiated, because unused generic methods are not compiled.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const STRUCTS: usize = 200;
const ROUNDS: usize = 5;

/// The name of a step of Cargo, the output that `rustc` emits in it, and the optimisation level.
const STEPS: [(&str, &str, u8); 3] = [
    ("check", "metadata", 0),
    ("build", "metadata,link", 0),
    ("build, opt-level = 1", "metadata,link", 1),
];

fn main() {
    let libraries = Libraries::build();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile-time");
    std::fs::create_dir_all(&folder).expect("a folder in target");
    let crates = [
        ("annotated", source(annotated)),
        ("by_hand", source(by_hand)),
    ];
    let crates = crates.map(|(name, source)| {
        let file = folder.join(name).with_extension("rs");
        std::fs::write(&file, source).expect("a file in target");
        file
    });
    println!("{STRUCTS} structs, median of {ROUNDS} rounds in turn:");
    for (step, emit, level) in STEPS {
        let mut rounds: Vec<[Duration; 2]> = (0..ROUNDS)
            .map(|_| [&crates[0], &crates[1]].map(|file| libraries.compile(file, emit, level)))
            .collect();
        rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let [attribute, hand] = [0, 1].map(|which| {
            let mut times: Vec<_> = rounds.iter().map(|round| round[which]).collect();
            times.sort();
            times[ROUNDS / 2]
        });
        println!(
            "  {step}: annotated {attribute:.2?}, by hand {hand:.2?}; ratio {:.3} ({:.3} to {:.3})",
            ratio(&rounds[ROUNDS / 2]),
            ratio(&rounds[0]),
            ratio(&rounds[ROUNDS - 1]),
        );
    }
}

fn ratio([attribute, hand]: &[Duration; 2]) -> f64 {
    attribute.as_secs_f64() / hand.as_secs_f64()
}

/// The crates that the sources use, as built by Cargo.
struct Libraries {
    externs: Vec<String>,
    dependencies: PathBuf,
}

impl Libraries {
    fn build() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args([
                "build",
                "--workspace",
                "--all-targets",
                "--message-format=json",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let messages = String::from_utf8(output.stdout).expect("JSON");
        let artifacts: Vec<Value> = messages
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|message: &Value| message["reason"] == "compiler-artifact")
            .collect();
        let library = |name: &str| -> PathBuf {
            let artifact = artifacts.iter().find(|artifact| {
                artifact["target"]["name"] == name
                    && artifact["target"]["kind"] == serde_json::json!(["lib"])
            });
            let files =
                artifact.expect("a library of the workspace's build")["filenames"].as_array();
            let mut files = files.expect("files").iter().filter_map(Value::as_str);
            files
                .find(|file| file.ends_with(".rlib"))
                .expect("an rlib")
                .into()
        };
        let (burn, burn_kernels) = (library("burn"), library("burn_kernels"));
        let dependencies = burn.parent().expect("a folder").to_owned();
        let dependencies = match dependencies.ends_with("deps") {
            true => dependencies,
            false => dependencies.join("deps"),
        };
        Self {
            externs: vec![
                format!("burn={}", burn.display()),
                format!("burn_kernels={}", burn_kernels.display()),
            ],
            dependencies,
        }
    }

    /// Returns the time to compile a file with the flags of the development profile.
    fn compile(&self, file: &Path, emit: &str, level: u8) -> Duration {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args([
                "--edition=2024",
                "--crate-type=lib",
                "-Cdebug-assertions=on",
            ])
            .arg(format!("-Copt-level={level}"))
            .arg(format!("--emit={emit}"))
            .arg("--out-dir")
            .arg(file.parent().expect("a folder"))
            .arg("-L")
            .arg(format!("dependency={}", self.dependencies.display()));
        for library in &self.externs {
            rustc.arg("--extern").arg(library);
        }
        let start = Instant::now();
        let status = rustc.arg(file).status().expect("rustc runs");
        let time = start.elapsed();
        assert!(status.success(), "{} does not compile", file.display());
        time
    }
}

/// Returns the source of a crate with [`STRUCTS`] structs, alternately norms and gated MLPs. `written` returns the
/// attribute and the methods of one struct.
fn source(written: fn(Kind) -> (&'static str, &'static str)) -> String {
    let mut source = "#![allow(dead_code)]\n\
                      use burn::module::{Module, Param};\n\
                      use burn::nn::Linear;\n\
                      use burn::tensor::Tensor;\n"
        .to_owned();
    for i in 0..STRUCTS {
        let kind = if i % 2 == 0 { Kind::Norm } else { Kind::Mlp };
        let (attribute, methods) = written(kind);
        let fields = match kind {
            Kind::Norm => "weight: Param<Tensor<1>>, eps: f64",
            Kind::Mlp => "gate_proj: Linear, up_proj: Linear, down_proj: Linear",
        };
        let block = match methods {
            "" => String::new(),
            methods => format!("impl Layer{i} {{ {methods} }}\n"),
        };
        write!(
            source,
            "{attribute}\n\
             #[derive(Module, Debug)]\n\
             pub struct Layer{i} {{ {fields} }}\n\
             {block}\
             pub fn use_{i}(layer: &Layer{i}, x: Tensor<3>) -> [Tensor<3>; 2] {{\n\
                 [layer.forward(x.clone()), layer.forward_reference(x)]\n\
             }}\n"
        )
        .expect("a String takes all");
    }
    source
}

#[derive(Clone, Copy)]
enum Kind {
    Norm,
    Mlp,
}

fn annotated(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Norm => ("#[burn_kernels::fused_kernel(\"npu_fused_rmsnorm\")]", ""),
        Kind::Mlp => ("#[burn_kernels::fused_kernel(\"npu_fused_swiglu\")]", ""),
    }
}

/// Returns the methods to write without the attribute: the composition, and the same as a reference.
fn by_hand(kind: Kind) -> (&'static str, &'static str) {
    let methods = match kind {
        Kind::Norm => {
            "pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
                let mean_square = x.clone().square().mean_dim(D - 1);
                let normalised = x / mean_square.add_scalar(self.eps).sqrt();
                normalised * self.weight.val().unsqueeze()
            }
            pub fn forward_reference<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
                let mean_square = x.clone().square().mean_dim(D - 1);
                let normalised = x / mean_square.add_scalar(self.eps).sqrt();
                normalised * self.weight.val().unsqueeze()
            }"
        }
        Kind::Mlp => {
            "pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
                let gate = self.gate_proj.forward(x.clone());
                let up = self.up_proj.forward(x);
                self.down_proj.forward(burn::tensor::activation::silu(gate) * up)
            }
            pub fn forward_reference<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
                let gate = self.gate_proj.forward(x.clone());
                let up = self.up_proj.forward(x);
                self.down_proj.forward(burn::tensor::activation::silu(gate) * up)
            }"
        }
    };
    ("", methods)
}
