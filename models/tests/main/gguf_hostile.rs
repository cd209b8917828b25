//! Tests of GGUF files made to harm: each is refused with a sentence that names the file.

use std::fs;
use std::path::Path;

use crate::common::gguf::{F32, Parts, Q4_0, long, tensor, text, word};
use kernels_models::gguf::File;

/// A file with two tensors of 32 bytes.
fn sound() -> Parts {
    Parts {
        version: 3,
        tensors: 2,
        entries: 1,
        metadata: [text("general.architecture"), word(8), text("llama")].concat(),
        list: [tensor("a", &[8], F32, 0), tensor("b", &[8], F32, 32)].concat(),
        data: 64,
    }
}

fn open(folder: &Path, bytes: &[u8]) -> Result<File, String> {
    let path = folder.join("hostile.gguf");
    fs::write(&path, bytes).unwrap();
    File::open(&path).map_err(|error| error.to_string())
}

#[test]
fn every_contradiction_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(open(folder.path(), &sound().bytes()).is_ok());
    let list = |list: Vec<u8>| Parts { list, ..sound() };
    let metadata = |metadata: Vec<u8>| Parts {
        metadata,
        ..sound()
    };
    let second = |second: Vec<u8>| list([tensor("a", &[8], F32, 0), second].concat());
    let nested = |depth: usize| {
        let lists = [word(9), long(1)].concat().repeat(depth);
        metadata([text("a"), word(9), lists, word(0), long(1), vec![1]].concat())
    };
    #[rustfmt::skip] // one case, one line
    let cases = [
        ("another version", Parts { version: 1, ..sound() }, "version: 1"),
        ("the other byte order", Parts { version: 3 << 24, ..sound() }, "version: 50331648"),
        ("too many tensors", Parts { tensors: 3, ..sound() }, "a"),
        ("a number of tensors without end", Parts { tensors: u64::MAX, ..sound() }, "tensor count"),
        ("a number of entries without end", Parts { entries: u64::MAX, ..sound() }, "etadata count"),
        ("a key without end", metadata([long(u64::MAX), vec![b'x'; 40]].concat()), "key too long"),
        ("a text without end", metadata([text("a"), word(8), long(u64::MAX)].concat()), "budget"),
        ("a list without end", metadata([text("a"), word(9), word(4), long(u64::MAX)].concat()), "list|array|budget"),
        ("lists in lists", nested(4000), "nesting"),
        ("an unknown type of value", metadata([text("a"), word(13), long(0)].concat()), "Unknown GGUF value type: 13"),
        ("a key twice", Parts { entries: 2, ..metadata([text("a"), word(4), word(1), text("a"), word(4), word(1)].concat()) }, "Duplicate metadata key: a"),
        ("a tensor twice", second(tensor("a", &[8], F32, 32)), "Duplicate tensor name: a"),
        ("an unknown type of tensor", second(tensor("b", &[8], 99, 32)), "Unknown GGUF tensor type: 99"),
        ("a tensor past the end", second(tensor("b", &[8], F32, 64)), "ends too early"),
        ("an offset without end", second(tensor("b", &[8], F32, u64::MAX - 31)), "overflow"),
        ("a tensor between the places", second(tensor("b", &[4], F32, 36)), "not aligned to 32 bytes"),
        ("tensors on each other", second(tensor("b", &[8], F32, 0)), "overlap"),
        ("a size without end", second(tensor("b", &[1 << 40, 1 << 40], F32, 32)), "overflow"),
        ("too many axes", second(tensor("b", &[1, 1, 1, 1, 1], F32, 32)), "dimension"),
        ("a part of a block", second(tensor("b", &[33], Q4_0, 32)), "33"),
        ("rows of one and a half blocks", second(tensor("b", &[16, 2], Q4_0, 32)), "First dimension 16 is not divisible by 32 for Q4_0"),
        ("a name that is not a text", second([long(1), vec![0xff], tensor("", &[8], F32, 32)[8..].to_vec()].concat()), "UTF-8"),
    ];
    for (what, parts, expected) in cases {
        let error = open(folder.path(), &parts.bytes()).expect_err(what);
        assert!(
            expected.split('|').any(|part| error.contains(part)),
            "{what}: {error}"
        );
        assert!(
            error.contains("hostile.gguf: not a GGUF file that can be read: "),
            "{what}: {error}"
        );
    }
}

/// Wherever the file ends, it is an error, and never a panic.
#[test]
fn a_file_that_is_cut_off_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = sound().bytes();
    for length in 0..bytes.len() {
        let error = open(folder.path(), &bytes[..length]).expect_err("it is too short");
        assert!(error.contains("hostile.gguf"), "{length}: {error}");
    }
}

#[test]
fn names_that_a_terminal_obeys_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "x\x1b]0;owned\x07\n\u{202e}";
    let list = [tensor(evil, &[8], F32, 0), tensor(evil, &[8], F32, 32)];
    let parts = Parts {
        list: list.concat(),
        ..sound()
    };
    let error = open(folder.path(), &parts.bytes()).unwrap_err();
    assert!(
        error.contains(r"x\u{1b}]0;owned\u{7}\n\u{202e}"),
        "{error:?}"
    );
    assert!(!error.contains(char::is_control), "{error:?}");
}

#[test]
fn other_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(
        folder.path(),
        b"{\"architectures\": [\"LlamaForCausalLM\"], \"x\": 1}",
    )
    .unwrap_err();
    let expected = "it does not begin with `GGUF`; name such a file, or the folder of a checkpoint";
    assert!(error.ends_with(expected), "{error}");
    let error = File::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("is a folder; name a plain file"), "{error}");
}
