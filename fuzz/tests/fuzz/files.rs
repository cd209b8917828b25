//! Built files, and the records in them.

use crate::target;
use kernels_cli::object_file;
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
