//! Codes that are chosen by an importance matrix of llama.cpp.

use super::{Gguf, digest, model, noise, text, write};
use crate::common::{errors, kernels};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// The columns of the matrices of a layer.
const LAYER: [(&str, usize); 7] = [
    ("attn_k", 256),
    ("attn_output", 256),
    ("attn_q", 256),
    ("attn_v", 256),
    ("ffn_down", 288),
    ("ffn_gate", 256),
    ("ffn_up", 256),
];

/// Returns the entries of `llama_cpp.py`.
fn entries() -> Vec<(String, Vec<f32>)> {
    let of_layer = |layer| LAYER.map(|(name, count)| (format!("blk.{layer}.{name}.weight"), count));
    let mut columns: Vec<_> = [0, 1].into_iter().flat_map(of_layer).collect();
    columns.push(("output.weight".into(), 256));
    columns.retain(|(name, _)| name != "blk.0.attn_k.weight");
    let squares = |(seed, (name, count)): (u64, (String, usize))| {
        let squares = noise(seed, count).into_iter().map(|x| x * x);
        (name, squares.collect())
    };
    (100..).zip(columns).map(squares).collect()
}

/// A file of the older kind, of sums over four calls.
fn old() -> Vec<u8> {
    let entries = entries();
    let mut bytes = (entries.len() as u32).to_le_bytes().to_vec();
    for (name, means) in entries {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend((means.len() as u32).to_le_bytes());
        bytes.extend(means.iter().flat_map(|mean| (mean * 4.0).to_le_bytes()));
    }
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend((TEXT.len() as u32).to_le_bytes());
    bytes.extend(TEXT.as_bytes());
    bytes
}

/// The name of the text of the matrices, which has three parts.
const TEXT: &str = "words.txt";

/// A GGUF file of sums over eight rows.
fn new(kind: &str) -> Vec<u8> {
    let mut file = Gguf::default();
    file.pair("general.type", 8, &text(kind));
    let list = [&8_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), &text(TEXT)];
    file.pair("imatrix.datasets", 9, &list.concat());
    file.number("imatrix.chunk_count", 3);
    for (name, means) in entries() {
        let sums: Vec<u8> = means
            .iter()
            .flat_map(|mean| (mean * 8.0).to_le_bytes())
            .collect();
        file.tensor(
            &format!("{name}.in_sum2"),
            &[means.len() as u64, 1],
            0,
            &sums,
        );
        file.tensor(
            &format!("{name}.counts"),
            &[1, 1],
            0,
            &8.0_f32.to_le_bytes(),
        );
    }
    file.bytes()
}

fn quantize(floats: &Path, to: &str, matrix: &Path, out: &Path) -> Output {
    let args: [OsString; 9] = [
        "quantize".into(),
        "--model".into(),
        floats.into(),
        "--to".into(),
        to.into(),
        "--imatrix".into(),
        matrix.into(),
        "--out".into(),
        out.into(),
    ];
    kernels(args)
}

/// Returns the metadata that `llama-quantize` adds for an importance matrix: types and order are those in its files.
fn described(matrix: &Path) -> Vec<u8> {
    let string = |key, value: &str| [text(key), 8_u32.to_le_bytes().into(), text(value)].concat();
    let number = |key, value: u32| {
        let kind = 4_u32.to_le_bytes().to_vec();
        [text(key), kind, value.to_le_bytes().into()].concat()
    };
    [
        string("quantize.imatrix.file", matrix.to_str().unwrap()),
        string("quantize.imatrix.dataset", TEXT),
        number("quantize.imatrix.entries_count", 14),
        number("quantize.imatrix.chunks_count", 3),
    ]
    .concat()
}

/// Removes metadata of whole lines of alignment from a file.
fn remove(path: &Path, pairs: &[u8], count: u64) {
    let mut bytes = fs::read(path).unwrap();
    let found = bytes.windows(pairs.len()).position(|part| part == pairs);
    let at = found.expect("the file has the metadata");
    bytes.drain(at..at + pairs.len());
    let all = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    bytes[16..24].copy_from_slice(&(all - count).to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// The digests are those that `llama_cpp.py` prints, of llama.cpp's own files, to which `llama-quantize` adds metadata.
#[test]
fn files_are_those_of_llama_cpp() {
    let folder = TempDir::new().unwrap();
    let floats = write(&folder, &model(|_, _| ()));
    for (kind, bytes) in [("old", old()), ("new", new("imatrix"))] {
        let mut matrix = folder.path().join(kind);
        // So long that what follows the metadata has the same place without those of the matrix.
        while !described(&matrix).len().is_multiple_of(32) {
            matrix.as_mut_os_string().push("x");
        }
        fs::write(&matrix, bytes).unwrap();
        for (to, count, expected) in [
            // Of the second, a down projection is in Q8_0, which has the same codes without.
            (
                "q4_0",
                14,
                "0009176f9c3eeef1c4f1bf3a5d1fc57bb97c4ce76d995260617ec5bb2872de2b",
            ),
            (
                "q4_k_m",
                13,
                "ad96a5f2d9f5bb830148c44bf8fdf5f9238b69c27fe52102f0f823aa8589b5ef",
            ),
        ] {
            let out = folder.path().join(format!("{kind}-{to}.gguf"));
            let output = quantize(&floats, to, &matrix, &out);
            let said = errors(&output);
            assert!(output.status.success(), "{kind}, {to}: {said}");
            remove(&out, &described(&matrix), 4);
            assert_eq!(digest(&out), expected, "{kind}, {to}");
            let chosen = format!("the codes of {count} are chosen by importance");
            assert!(said.contains(&chosen), "{said}");
        }
    }
}

#[test]
fn other_files_are_refused() {
    let folder = TempDir::new().unwrap();
    let floats = write(&folder, &model(|_, _| ()));
    let matrix = folder.path().join("matrix");
    let said = |bytes: &[u8], to: &str| {
        fs::write(&matrix, bytes).unwrap();
        let out = folder.path().join("out.gguf");
        let output = quantize(&floats, to, &matrix, &out);
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        assert!(!out.exists());
        errors(&output)
    };
    for (bytes, to, words) in [
        (old(), "q8_0", "goes with --to q4_0 and q4_k_m"),
        (old()[..200].to_vec(), "q4_0", "not an importance matrix"),
        (b"im".to_vec(), "q4_0", "too short"),
        (new("model"), "q4_0", "`general.type` is model"),
        (
            model(|_, _| ()).bytes(),
            "q4_0",
            "`general.type` is missing",
        ),
    ] {
        let said = said(&bytes, to);
        assert!(said.contains(words), "{words}: {said}");
    }
    // An entry of another size.
    let mut other = old();
    let name = b"blk.1.attn_q.weight";
    let at = other
        .windows(name.len())
        .position(|part| part == name)
        .unwrap()
        + name.len()
        + 4;
    other[at..at + 4].copy_from_slice(&255_u32.to_le_bytes());
    other.drain(at + 4..at + 8);
    let said_of_size = said(&other, "q4_0");
    assert!(
        said_of_size.contains("the file is of another model"),
        "{said_of_size}"
    );
    // The last tensor holds the count of the output projection.
    let mut wrong = new("imatrix");
    let at = wrong.len() - 32;
    wrong[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let said_of_count = said(&wrong, "q4_0");
    assert!(
        said_of_count.contains("`output.weight` has the count NaN"),
        "{said_of_count}"
    );
    let mut none = 1_u32.to_le_bytes().to_vec();
    none.extend(
        [
            &1_u32.to_le_bytes()[..],
            b"x",
            &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat(),
    );
    let said_of_none = said(&none, "q4_0");
    assert!(
        said_of_none.contains("no weight that is quantised has an entry"),
        "{said_of_none}"
    );
}
