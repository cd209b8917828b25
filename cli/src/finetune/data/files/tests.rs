//! Files of every kind, and what is wrong with others.

use super::text::unpacked;
use super::*;
use kernels_io::Limit;
use std::io::Write;

fn file(name: &str, text: impl AsRef<[u8]>) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, vec![path])
}

#[test]
fn kinds_of_files_are_told_apart() {
    let count = |name: &str, text: &str| {
        let (_folder, files) = file(name, text);
        read(&files, None).map(|records| records.len()).unwrap()
    };
    assert_eq!(count("corpus", "a"), 1);
    assert_eq!(count("a.b.md", "a"), 1);
    assert_eq!(count("a.txt", "{\"text\": \"a\"}\nb"), 1);
    assert_eq!(
        count("a.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n"),
        2
    );
    assert_eq!(
        count(
            "a.JSON",
            " [{\"text\": \"a\"}, {\"text\": \"b\"}, {\"text\": \"c\"}]"
        ),
        3
    );
    let one = "{\"text\": \"a\"}";
    for (name, text, records) in [
        ("a.json", format!("{one}\r\n{one}"), 2),
        ("a.ndjson", format!("{one}\n{one}"), 2),
        ("a.json", one.replace(' ', "\n"), 1),
        (
            "a.json",
            format!("{{\"version\": 1, \"data\": [{one}, {one}]}}"),
            2,
        ),
        ("a.json", format!("{{\n\"train\":\n[{one}]}}\n"), 1),
        ("a.jsonl", format!("\u{feff}{one}\r\n\u{feff}{one}"), 2),
        ("a.json", format!("\u{feff}[{one}]"), 1),
        (
            "a.jsonl",
            format!("{{\"text\": \"a\", \"score\": NaN}}\n{one}"),
            2,
        ),
    ] {
        assert_eq!(count(name, &text), records, "{text}");
    }
    // A list of Markdown, and a line of JSON in a text.
    assert_eq!(count("a.md", "[1] a\n[2] b\n"), 1);
    for (name, text) in [
        ("a.txt", format!("{one}\n\n{one}\n")),
        ("a.txt", one.to_owned()),
        ("a.md", format!("[\n{one},\n{one}\n]\n")),
        ("corpus", one.replace(' ', "\n")),
    ] {
        let (_folder, files) = file(name, text);
        let why = read(&files, None).unwrap_err().to_string();
        assert!(
            why.contains("it holds JSON") && why.contains("rename it"),
            "{why}"
        );
    }
    let (_folder, files) = file("a.txt", "\u{feff}a");
    assert_eq!(read(&files, None).unwrap()[0].1, Record::Text("a".into()));
}

#[test]
fn compressed_files_are_unpacked_up_to_the_limit() {
    let packed = |text: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    };
    let one = packed(b"{\"text\": \"a\"}\n");
    // Files that were joined are several members.
    let (_folder, files) = file("a.jsonl.gz", [&one[..], &one].concat());
    assert_eq!(read(&files, None).unwrap().len(), 2);
    let (_folder, files) = file("A.TXT.GZ", packed(b"a"));
    assert_eq!(read(&files, None).unwrap()[0].1, Record::Text("a".into()));
    let (_folder, files) = file("a.jsonl.gz", &one[..one.len() - 1]);
    let said = read(&files, None).unwrap_err().to_string();
    assert!(said.contains("not a valid gzip file"), "{said}");
    let zeros = packed(&vec![0; (1 << 20) + 1]);
    let limit = Limit::mib("training data", 1);
    let said = unpacked(&zeros, limit).unwrap_err().to_string();
    assert!(said.contains("limit of 1048576 bytes"), "{said}");
}

#[test]
fn files_of_other_kinds_are_refused_with_what_to_do() {
    let one = "{\"text\": \"a\"}\n";
    let utf16: Vec<u8> = one.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&b"\xff\xfe"[..], &utf16].concat();
    let latin = [one.as_bytes(), b"{\"text\": \"\xe9\"}"].concat();
    for (name, bytes, words) in [
        ("a.csv", &b"text\na"[..], ["a.csv", "JSON lines"]),
        ("a.jsonl.xz", b"\xfd7zXZ", ["a.jsonl.xz", "unpack"]),
        ("a.jsonl.txt", one.as_bytes(), [".jsonl", "rename"]),
        (
            "a.jsonl.gz",
            b"\x1f\x8b",
            ["a.jsonl.gz", "not a valid gzip file"],
        ),
        (
            "a.jsonl.gz",
            one.as_bytes(),
            ["a.jsonl.gz", "not a valid gzip file"],
        ),
        ("a.parquet.gz", b"\x1f\x8b", ["a.parquet.gz", "unpack"]),
        ("a.gz", b"\x1f\x8b", ["a.gz", "data.jsonl.gz"]),
        ("a.toml", b"a = 1", ["unknown file extension", ".txt"]),
        ("a.jsonl", b"\x1f\x8b\x08", ["gzip", "unpack"]),
        ("a.txt", b"PAR1", ["Parquet", ".parquet"]),
        #[cfg(not(feature = "parquet"))]
        ("a.parquet", b"PAR1", ["--features parquet", "to_json"]),
        #[cfg(feature = "parquet")]
        (
            "a.parquet",
            b"PAR1",
            ["a.parquet", "not a valid Parquet file"],
        ),
        (
            "a.jsonl",
            b"version https://git-lfs.github.com/spec/v1",
            ["Git LFS", "pull"],
        ),
        ("a.jsonl", &marked, ["UTF-16", "iconv"]),
        ("a.jsonl", &utf16, ["UTF-16", "iconv"]),
        ("a.jsonl", &latin, ["a.jsonl:2", "UTF-8"]),
        (
            "a.jsonl",
            b"\n{\"text\": \"\\ud83d\"}",
            ["a.jsonl:2", "surrogate"],
        ),
        ("a.json", b"[{},\n{]", ["a.json:2", "column 2"]),
        (
            "a.json",
            b"{\"train\": [{}], \"test\": [{}]}",
            ["`test`, `train`", "of its own"],
        ),
        ("a.json", b"{\"train\": {}}", ["a.json", "such as `data`"]),
        ("a.json", b"7", ["a.json", "a list of records"]),
        ("a.json", b"[]", ["a.json", "holds no record"]),
        ("a.txt", b"\xef\xbb\xbf \n", ["a.txt", "is empty"]),
    ] {
        let (_folder, files) = file(name, bytes);
        let said = read(&files, None).unwrap_err().to_string();
        for word in words {
            assert!(said.contains(word), "{name}: {said}");
        }
    }
}

#[test]
fn a_text_has_no_answers_and_no_prompts() {
    let (_folder, files) = file("a.txt", "a");
    for (kind, expected) in [
        (Answers::Pairs, "a text has no answers"),
        (Answers::Prompts, "a text has no prompts"),
    ] {
        let said = read(&files, Some(kind)).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn every_broken_line_is_told_by_its_number() {
    let (_folder, files) = file("a.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"\"}\n[1]\n");
    let said = read(&files, None).unwrap_err().to_string();
    for expected in [
        "3 of the records",
        "a.jsonl:2: not valid",
        "a.jsonl:3: the text",
        "a.jsonl:4: expected",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let (_folder, files) = file("a.json", "[{\"text\": \"a\"}, 3]");
    let said = read(&files, None).unwrap_err().to_string();
    assert!(
        said.contains("a.json, entry 2: expected a JSON object"),
        "{said}"
    );
    let (_folder, files) = file("a.txt", " \n");
    assert!(
        read(&files, None)
            .unwrap_err()
            .to_string()
            .contains("is empty")
    );
}
