//! Weights that a fixture describes and does not store. `generate_families.py` beside the fixtures makes the same bits.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use super::{File, Stored, read, write};

/// Returns a copy of a fixture with a checkpoint of the described weights. It is written once in each process.
pub fn with_weights(fixture: &Path, name: &str) -> PathBuf {
    once("models", name, |target| {
        for file in ["config.json", "golden.safetensors"] {
            put(target, file, |copy| {
                fs::copy(fixture.join(file), copy).unwrap();
            });
        }
        let tensors = described(&fixture.join("weights.json"));
        put(target, "model.safetensors", |copy| write(copy, &tensors));
    })
}

/// Returns the weights that a file describes.
pub fn described(file: &Path) -> File {
    let text = fs::read_to_string(file).unwrap();
    let described: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    let tensors = described.into_iter().map(|(name, how)| {
        let shape = how["shape"].as_array().unwrap().iter();
        let shape: Vec<usize> = shape.map(|size| size.as_u64().unwrap() as usize).collect();
        let [base, scale] = ["base", "scale"].map(|field| how[field].as_f64().unwrap());
        let values = values(&name, shape.iter().product(), base, scale);
        (name, Stored::f32(&shape, &values))
    });
    tensors.collect()
}

/// Returns a copy of a model whose expected values are those that the program reads and writes: without sums of gradients.
pub fn for_the_program(model: &Path, name: &str) -> PathBuf {
    once("checkpoints", name, |target| {
        for file in ["config.json", "model.safetensors"] {
            put(target, file, |copy| {
                fs::copy(model.join(file), copy).unwrap();
            });
        }
        let mut values = read(&model.join("golden.safetensors"));
        values.retain(|name, _| !name.starts_with("grad_by_"));
        put(target, "golden.safetensors", |copy| write(copy, &values));
    })
}

/// Returns a folder that `make` fills, once in each process.
fn once(kind: &str, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kind).join(name);
    let mut written = WRITTEN.lock().unwrap_or_else(|poison| poison.into_inner());
    if written.insert(target.clone()) {
        fs::create_dir_all(&target).unwrap();
        make(&target);
    }
    target
}

/// Writes a file anew. Other processes may read it meanwhile, so it is complete before it has its name.
fn put(folder: &Path, file: &str, fill: impl FnOnce(&Path)) {
    let whole = tempfile::NamedTempFile::new_in(folder.parent().unwrap()).unwrap();
    fill(whole.path());
    whole.persist(folder.join(file)).unwrap();
}

/// Returns values that are spread evenly over `base ± scale`. Nothing is rounded before the last step.
fn values(name: &str, count: usize, base: f64, scale: f64) -> Vec<f32> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let value = |index: u64| {
        let mixed = mix(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 40;
        let spread = (2.0 * mixed as f64 + 1.0 - 16_777_216.0) / 16_777_216.0;
        (base + scale * spread) as f32
    };
    (1..=count as u64).map(value).collect()
}

/// Mixes the state of a SplitMix64 generator.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
