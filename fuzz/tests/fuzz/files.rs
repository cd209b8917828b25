//! Built files with the records in them, and results of benchmarks.

use crate::{target, text};
use kernels_cli::{object_file, results};
use kernels_fuzz::fuzz;
use kernels_runtime::registry::section::{MAGIC, Record, decode};
use std::io::Cursor;

const WORDS: &[&str] = &[
    "BKMETA\x01\n",
    "burn_kernels\0",
    "__burn_kernels\0",
    ".bkmeta\0",
    "\"schema\":2",
    "\"record\":\"site\"",
    "\"record\":\"kernel\"",
    "\x1b[2J",
    "\u{202e}",
];

#[test]
fn section() {
    fuzz(target("section", WORDS), |input| {
        let records = decode(input).map_err(|error| error.to_string())?;
        for record in records {
            let json = record.json().to_string();
            let mut bytes = MAGIC.to_vec();
            bytes.extend(u32::try_from(json.len()).unwrap().to_le_bytes());
            bytes.extend(json.bytes());
            let again: Vec<Record> = decode(&bytes).expect("a record that was read");
            assert_eq!(again, [record]);
        }
        Ok(())
    });
}

#[test]
fn object() {
    fuzz(target("object", WORDS), |input| {
        let contents =
            object_file::read(Cursor::new(input)).map_err(|error| format!("{error:#}"))?;
        let length = input.len() as u64;
        assert!(contents.decoded <= length);
        assert!(contents.looked_at <= 4 * length + (1 << 16));
        assert!(!contents.records.is_empty());
        Ok(())
    });
}

#[test]
fn results_of_benchmarks() {
    let words = [
        "\"rows\": [{",
        "\"key\": \"rope/512\",",
        "\"fused_ms\": 1.5",
        "\"fused_s\": 1e-3",
        "\"ns\": 7",
        "null",
        "1e308",
        "-0.0",
        "\\u001b",
        "\u{9b}",
    ];
    fuzz(target("results", &words), |input| {
        let times = results::read(text(input)?).map_err(|error| format!("{error:#}"))?;
        assert!(times.iter().all(|time| time.seconds > 0.0));
        let rows = times
            .iter()
            .map(|time| serde_json::json!({ "key": &*time.row, "s": time.seconds }));
        // Names of rows with one time can be keys of their own.
        if times.iter().all(|time| time.of == "time") {
            let written = serde_json::Value::from_iter(rows).to_string();
            assert_eq!(results::read(&written).expect("what was read"), times);
        }
        Ok(())
    });
}
