//! Tests of `kernels quantize`: the files of llama.cpp, folders that load, and every refusal.

mod by_importance;
mod to_gguf;

use crate::common::{errors, fixture, floats, json, kernels, write_ids};
use data_encoding::HEXLOWER;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

fn quantize(model: &Path, to: &str, out: &Path) -> Output {
    let args: [OsString; 7] = [
        "quantize".into(),
        "--model".into(),
        model.into(),
        "--to".into(),
        to.into(),
        "--out".into(),
        out.into(),
    ];
    kernels(args)
}

/// Runs the command, which must fail and write nothing, and returns its message.
fn refused(model: &Path, to: &str) -> String {
    let folder = TempDir::new().unwrap();
    let output = quantize(model, to, &folder.path().join("out"));
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
    errors(&output)
}

/// A GGUF file in memory.
#[derive(Default)]
struct Gguf {
    pairs: Vec<Vec<u8>>,
    infos: Vec<u8>,
    data: Vec<u8>,
    tensors: u64,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Gguf {
    fn pair(&mut self, key: &str, kind: u32, value: &[u8]) {
        let pair = [&text(key)[..], &kind.to_le_bytes(), value].concat();
        self.pairs.push(pair);
    }

    fn number(&mut self, key: &str, value: u32) {
        self.pair(key, 4, &value.to_le_bytes());
    }

    fn tensor(&mut self, name: &str, dims: &[u64], kind: u32, bytes: &[u8]) {
        self.infos.extend(text(name));
        self.infos.extend((dims.len() as u32).to_le_bytes());
        self.infos
            .extend(dims.iter().flat_map(|side| side.to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.tensors += 1;
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(self.tensors.to_le_bytes());
        bytes.extend((self.pairs.len() as u64).to_le_bytes());
        bytes.extend(self.pairs.concat());
        bytes.extend(&self.infos);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}

/// Returns the numbers of `quantize/llama_cpp.py`.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let one = |at: u64| {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let number = (z >> 40) as f64 / f64::from(1 << 27) - 0.0625;
        (number * 0.5_f64.powi((z & 7) as i32)) as f32
    };
    (1..=count as u64).map(one).collect()
}

const F32: u32 = 0;
const F16: u32 = 1;
const BF16: u32 = 30;

fn stored(numbers: &[f32], kind: u32) -> Vec<u8> {
    let mut halves = vec![0; 2 * numbers.len()];
    match kind {
        F16 => kernels_quant::encode_halves(numbers, &mut halves).unwrap(),
        BF16 => {
            return numbers
                .iter()
                .flat_map(|x| x.to_le_bytes()[2..].to_vec())
                .collect();
        }
        _ => return numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
    halves
}

/// Returns the model of `quantize/llama_cpp.py`, whose tensors `change` may change.
fn model(change: impl Fn(&str, &mut Vec<f32>)) -> Gguf {
    let mut file = Gguf::default();
    file.pair("general.architecture", 8, &text("llama"));
    file.number("general.file_type", 0);
    for (key, value) in [
        ("block_count", 2),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 288),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 1),
    ] {
        file.number(&format!("llama.{key}"), value);
    }
    let epsilon = "llama.attention.layer_norm_rms_epsilon";
    file.pair(epsilon, 6, &1e-5_f32.to_le_bytes());
    file.number("llama.vocab_size", 8);
    let mut tokens = [&8_u32.to_le_bytes()[..], &8_u64.to_le_bytes()].concat();
    tokens.extend(["a", "b", "c", "d", "e", "f", "g", "h"].map(text).concat());
    file.pair("tokenizer.ggml.tokens", 9, &tokens);

    let mut seed = 0;
    let mut add = |name: &str, dims: &[u64], kind| {
        let mut numbers = noise(seed, dims.iter().product::<u64>() as usize);
        change(name, &mut numbers);
        file.tensor(name, dims, kind, &stored(&numbers, kind));
        seed += 1;
    };
    add("output_norm.weight", &[256], F32);
    let matrices: [(&str, &[u64], u32); 9] = [
        ("attn_norm", &[256], F32),
        ("ffn_norm", &[256], F32),
        ("attn_q", &[256, 256], F16),
        ("attn_k", &[256, 64], BF16),
        ("attn_v", &[256, 64], F32),
        ("attn_output", &[256, 256], F16),
        ("ffn_gate", &[256, 288], BF16),
        ("ffn_up", &[256, 288], F32),
        ("ffn_down", &[288, 256], F16),
    ];
    for layer in [1, 0] {
        for (name, dims, kind) in matrices {
            add(&format!("blk.{layer}.{name}.weight"), dims, kind);
        }
    }
    add("token_embd.weight", &[256, 8], F32);
    add("output.weight", &[256, 8], F32);
    file
}

fn write(folder: &TempDir, file: &Gguf) -> PathBuf {
    let path = folder.path().join("floats.gguf");
    fs::write(&path, file.bytes()).unwrap();
    path
}

fn digest(path: &Path) -> String {
    HEXLOWER.encode(&Sha256::digest(fs::read(path).unwrap()))
}

/// The digests are those that `quantize/llama_cpp.py` prints, of llama.cpp's own files.
#[test]
fn files_are_those_of_llama_cpp() {
    let folder = TempDir::new().unwrap();
    let floats = write(&folder, &model(|_, _| ()));
    let of_source = "4ce91d3a33d86a213234434b4195d592796cca896e32bf7af514496ecaa848d6";
    assert_eq!(digest(&floats), of_source);
    for (to, expected) in [
        (
            "q8_0",
            "a3e8dbad5730d07cd972cbd62a1ee38b08e21bda62006b08b06732ac9b2ac989",
        ),
        (
            "q4_0",
            "9f67b471fab800018c68c222190a69f70186f9d9569874ab9610e3d88320c752",
        ),
        (
            "q4_k_m",
            "8ee84e7d7986c7e520cec0ef6bd8e6cbbaedea2eb6e98ab408a080a3eaa36f5b",
        ),
    ] {
        let out = folder.path().join(format!("{to}.gguf"));
        let output = quantize(&floats, to, &out);
        assert!(output.status.success(), "{to}: {}", errors(&output));
        assert_eq!(digest(&out), expected, "{to}");
        // Its own output needs no work, and its bits stay.
        let again = folder.path().join(format!("{to}-again.gguf"));
        let output = quantize(&out, to, &again);
        assert!(output.status.success(), "{to}: {}", errors(&output));
        assert_eq!(digest(&again), expected, "{to}");
        let found = json(["inspect-model".as_ref(), out.as_os_str(), "--json".as_ref()]);
        assert_eq!(found["loads"], true, "{to}: {found}");
    }
    let said = errors(&quantize(
        &floats,
        "q4_k_m",
        &folder.path().join("said.gguf"),
    ));
    assert!(
        said.contains("in Q4_K") && said.contains("in Q6_K"),
        "{said}"
    );
    // A file of blocks is not quantised to others.
    let said = refused(&folder.path().join("q4_0.gguf"), "q8_0");
    assert!(
        said.contains("already in Q6_K and would become Q8_0"),
        "{said}"
    );
}

#[test]
fn a_file_in_the_way_stays() {
    let folder = TempDir::new().unwrap();
    let floats = write(&folder, &model(|_, _| ()));
    let out = folder.path().join("out.gguf");
    fs::write(&out, "mine").unwrap();
    let output = quantize(&floats, "q8_0", &out);
    assert!(errors(&output).contains("it exists"), "{}", errors(&output));
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    let output = quantize(&fixture("llama"), "nf4", folder.path());
    assert!(
        errors(&output).contains("is not empty"),
        "{}",
        errors(&output)
    );
}

#[test]
fn numbers_without_a_code_are_named() {
    let folder = TempDir::new().unwrap();
    for (name, number, at, words) in [
        (
            "blk.1.attn_v.weight",
            f32::NAN,
            2 * 256 + 9,
            "row 2, column 9 is NaN",
        ),
        (
            "blk.0.ffn_gate.weight",
            f32::NEG_INFINITY,
            256 * 288 - 1,
            "row 287, column 255 is -inf",
        ),
    ] {
        let broken = model(|tensor, numbers| {
            if tensor == name {
                numbers[at] = number;
            }
        });
        let said = refused(&write(&folder, &broken), "q4_k_m");
        assert!(said.contains(name) && said.contains(words), "{said}");
    }
    // The place in the matrix, and not in a block of it.
    let name = "model.layers.1.mlp.up_proj.weight";
    let broken = TempDir::new().unwrap();
    let [config, weights] = ["config.json", "model.safetensors"];
    fs::copy(fixture("llama").join(config), broken.path().join(config)).unwrap();
    let mut bytes = fs::read(fixture("llama").join(weights)).unwrap();
    let (header, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let info = metadata.info(name).unwrap();
    assert_eq!((info.dtype, &info.shape[..]), (Dtype::F32, &[96, 64][..]));
    let at = 8 + header + info.data_offsets.0 + 4 * (2 * 64 + 9);
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(broken.path().join(weights), bytes).unwrap();
    for to in ["nf4", "int8"] {
        let said = refused(broken.path(), to);
        assert!(
            said.contains(name) && said.contains("row 2, column 9 is NaN"),
            "{to}: {said}"
        );
    }
}

/// A folder in bitsandbytes' form loads, and its logits are near those of the floats.
#[test]
fn folders_load_and_are_near_the_floats() {
    let folder = TempDir::new().unwrap();
    let golden = fixture("llama").join("golden.safetensors");
    let logits = |model: &Path| {
        let out = folder.path().join("logits.safetensors");
        let args: [OsString; 7] = [
            "run".into(),
            "--model".into(),
            model.into(),
            "--inputs".into(),
            golden.clone().into(),
            "--outputs".into(),
            out.clone().into(),
        ];
        let output = kernels(args);
        assert!(output.status.success(), "{}", errors(&output));
        floats(&out).remove("logits").unwrap()
    };
    let expected = logits(&fixture("llama"));
    for (to, least, most) in [("nf4", 0.02, 0.3), ("int8", 1e-4, 0.03)] {
        let out = folder.path().join(to);
        let output = quantize(&fixture("llama"), to, &out);
        assert!(output.status.success(), "{to}: {}", errors(&output));
        assert!(
            errors(&output).contains("14 linear layers"),
            "{}",
            errors(&output)
        );
        let error = logits(&out).distance_to_norm(&expected);
        assert!(error > least && error < most, "{to}: {error}");
        let config: Value =
            serde_json::from_slice(&fs::read(out.join("config.json")).unwrap()).unwrap();
        let settings = &config["quantization_config"];
        assert_eq!(settings["quant_method"], "bitsandbytes");
        assert_eq!(
            settings["llm_int8_skip_modules"],
            json!(["embed_tokens", "lm_head"])
        );
        let found = json(["inspect-model".as_ref(), out.as_os_str(), "--json".as_ref()]);
        assert_eq!(found["loads"], true, "{to}: {found}");
        // Every tensor is aligned, as readers in Python require.
        let bytes = fs::read(out.join("model.safetensors")).unwrap();
        let (length, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(length % 8, 0);
        for (name, info) in metadata.tensors() {
            assert_eq!(info.data_offsets.0 * 8 % info.dtype.bitsize(), 0, "{name}");
        }
        let said = refused(&out, to);
        assert!(said.contains("quantised already"), "{said}");
    }
}

/// Several files and their index.
#[test]
fn shards_stay_shards() {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("floats");
    fs::create_dir(&source).unwrap();
    let bytes = fs::read(fixture("llama").join("model.safetensors")).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    let mut map = serde_json::Map::new();
    let mut parts: [Vec<(String, TensorView<'_>)>; 2] = Default::default();
    for (at, (name, tensor)) in all.tensors().into_iter().enumerate() {
        map.insert(name.clone(), json!(format!("part-{}.safetensors", at % 2)));
        parts[at % 2].push((name, tensor));
    }
    for (at, part) in parts.into_iter().enumerate() {
        let file = safetensors::serialize(part, None).unwrap();
        fs::write(source.join(format!("part-{at}.safetensors")), file).unwrap();
    }
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    fs::write(source.join("model.safetensors.index.json"), index).unwrap();
    fs::copy(
        fixture("llama").join("config.json"),
        source.join("config.json"),
    )
    .unwrap();
    fs::write(source.join("merges.txt"), "a b").unwrap();
    let out = folder.path().join("out");
    let output = quantize(&source, "nf4", &out);
    assert!(output.status.success(), "{}", errors(&output));
    let mut names: Vec<_> = (fs::read_dir(&out).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "config.json",
            "merges.txt",
            "model.safetensors.index.json",
            "part-0.safetensors",
            "part-1.safetensors"
        ]
    );
    let found = json(["inspect-model".as_ref(), out.as_os_str(), "--json".as_ref()]);
    assert_eq!(found["loads"], true, "{found}");
    assert_eq!(found["remarks"], json!([]), "{found}");
}

#[test]
fn formats_go_with_their_checkpoints() {
    let folder = TempDir::new().unwrap();
    let floats = write(&folder, &model(|_, _| ()));
    let said = refused(&floats, "int8");
    assert!(said.contains("is a GGUF file"), "{said}");
    let said = refused(&fixture("../quantised/llama_nf4"), "nf4");
    assert!(said.contains("`quantization_config`"), "{said}");
    let said = refused(&fixture("mixtral"), "nf4");
    assert!(said.contains("expert"), "{said}");
    let mut part = model(|_, _| ());
    part.number("split.count", 2);
    let said = refused(&write(&folder, &part), "q8_0");
    assert!(said.contains("llama-gguf-split --merge"), "{said}");
    let mut wide = Gguf::default();
    wide.number("general.alignment", 1 << 17);
    let said = refused(&write(&folder, &wide), "q8_0");
    assert!(said.contains("`general.alignment` is 131072"), "{said}");
}

/// Weights that are not floats, and a checkpoint without weights.
#[test]
fn folders_without_float_layers_are_refused() {
    let folder = TempDir::new().unwrap();
    fs::copy(
        fixture("llama").join("config.json"),
        folder.path().join("config.json"),
    )
    .unwrap();
    let path = folder.path().join("model.safetensors");
    write_ids(&path, &[("model.norm.weight", Dtype::F32, &[2], &[1, 1])]);
    let said = refused(folder.path(), "nf4");
    assert!(
        said.contains("no tensor is the weight of a linear layer"),
        "{said}"
    );
    let layer = "model.layers.0.mlp.up_proj.weight";
    let other = "model.layers.0.mlp.down_proj.weight";
    write_ids(
        &path,
        &[
            (layer, Dtype::F32, &[1, 2], &[1, 1]),
            (other, Dtype::I64, &[1, 2], &[1, 1]),
        ],
    );
    let said = refused(folder.path(), "int8");
    assert!(said.contains(other) && said.contains("I64"), "{said}");
}
