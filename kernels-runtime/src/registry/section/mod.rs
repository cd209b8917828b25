//! The link section: every kernel and site as JSON inside the built file.
//!
//! A record consists of [`MAGIC`], the length of its JSON as a little-endian `u32`, and the JSON. Records follow each
//! other in the section, and padding between them is skipped.
//!
//! | schema | sites | kernels |
//! |---|---|---|
//! | 1 | `schema`, `record`: `"site"`, `kernel`, `item`, `module`, `crate`, `crate_version`, `file`, `line`, `form`, `key`: {`op`, the settings} | `schema`, `record`: `"kernel"`, `id`, `op`, `version`, `summary`, `implementations`: [{`device`, `name`, `dtypes`, `gradient`}] |
//! | 2 | and `layer` (a name or null) | and `crate`, `crate_version`, `replaces` (a crate or null); of each implementation `deterministic`, `fusion_barrier` and `capability`: {`min`, `max`} |
//! | 3 | and `condition` (the text of `when`, or null) | |
//!
//! `device` names the kinds of devices, separated by spaces if there are several.
//!
//! This release writes schema 3 and reads all of them. A reader ignores unknown fields and must expect that fields of a
//! later schema are missing.

mod write;

pub use write::{kernel_record, record, record_len, site_record};

use kernels_io::escape_json;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// The bytes at the start of every record.
pub const MAGIC: [u8; 8] = *b"BKMETA\x01\n";

/// The version of the JSON schema that this release writes, and the newest that it reads.
pub const SCHEMA: u32 = 3;

/// The section's name in ELF files.
pub const ELF_SECTION: &str = "burn_kernels";
/// The section's name in Mach-O files (in segment `__DATA`).
pub const MACHO_SECTION: &str = "__burn_kernels";
/// The section's name in PE files, which allow at most eight characters.
pub const PE_SECTION: &str = ".bkmeta";

/// Puts a static into the link section. Something that the linker keeps must refer to the static.
#[doc(hidden)]
#[macro_export]
macro_rules! __in_link_section {
    ($(#[$attr:meta])* $vis:vis static $name:ident: $type:ty = $value:expr;) => {
        $(#[$attr])*
        #[used]
        #[cfg_attr(
            any(target_os = "linux", target_os = "android", target_os = "freebsd"),
            unsafe(link_section = "burn_kernels")
        )]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__burn_kernels"))]
        #[cfg_attr(target_os = "windows", unsafe(link_section = ".bkmeta"))]
        $vis static $name: $type = $value;
    };
}

/// One record of a link section.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// A kernel and its implementations.
    Kernel(Value),
    /// An annotated site.
    Site(Value),
}

impl Record {
    /// Returns the record's JSON.
    pub fn json(&self) -> &Value {
        match self {
            Self::Kernel(json) | Self::Site(json) => json,
        }
    }
}

/// The reason why a link section could not be read.
#[derive(Error)]
pub enum SectionError {
    /// Bytes that are neither a record nor padding.
    #[error("byte {offset} of the section is neither a record nor padding")]
    NotARecord {
        /// The offset in the section, in bytes.
        offset: usize,
    },
    /// A record longer than the section.
    #[error(
        "the record at byte {offset} says {length} bytes of JSON, but the section ends before that"
    )]
    Truncated {
        /// The offset in the section, in bytes.
        offset: usize,
        /// The length that the header gives, in bytes.
        length: usize,
    },
    /// A record whose JSON does not parse.
    #[error("the record at byte {offset} is not JSON: {source}")]
    Json {
        /// The offset in the section, in bytes.
        offset: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A record of another schema or kind.
    #[error(
        "the record at byte {offset} has schema {} and kind {}; this program reads schemas 1 to {SCHEMA} and the kinds \"site\" and \"kernel\"",
        brief(.schema),
        brief(.kind)
    )]
    Unknown {
        /// The offset in the section, in bytes.
        offset: usize,
        /// The record's `schema`.
        schema: Value,
        /// The record's `record`.
        kind: Value,
    },
}

/// Returns a value as an error message shows it.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    let start: String = text.chars().take(LONGEST).collect();
    let rest = if start.len() < text.len() { "…" } else { "" };
    format!("{}{rest}", escape_json(&start))
}

/// Reads every record of a link section.
///
/// # Errors
/// Returns an error if the section contains something that is not a record, or a record of a schema that this release
/// does not read.
pub fn decode(section: &[u8]) -> Result<Vec<Record>, SectionError> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < section.len() {
        // The linker may align records with zero bytes.
        if section[at] == 0 {
            at += 1;
            continue;
        }
        let (record, next) = decode_one(section, at)?;
        records.push(record);
        at = next;
    }
    Ok(records)
}

fn decode_one(section: &[u8], offset: usize) -> Result<(Record, usize), SectionError> {
    let rest = section[offset..]
        .strip_prefix(&MAGIC)
        .ok_or(SectionError::NotARecord { offset })?;
    let (length, rest) = rest
        .split_first_chunk::<4>()
        .ok_or(SectionError::Truncated { offset, length: 4 })?;
    let length = u32::from_le_bytes(*length) as usize;
    let json = rest
        .get(..length)
        .ok_or(SectionError::Truncated { offset, length })?;
    let json: Value =
        serde_json::from_slice(json).map_err(|source| SectionError::Json { offset, source })?;
    let record = classify(json, offset)?;
    Ok((record, offset + MAGIC.len() + 4 + length))
}

fn classify(json: Value, offset: usize) -> Result<Record, SectionError> {
    let schema = json["schema"].clone();
    let kind = json["record"].clone();
    let is_known = schema
        .as_u64()
        .is_some_and(|schema| (1..=u64::from(SCHEMA)).contains(&schema));
    match (is_known, kind.as_str()) {
        (true, Some("kernel")) => Ok(Record::Kernel(json)),
        (true, Some("site")) => Ok(Record::Site(json)),
        _ => Err(SectionError::Unknown {
            offset,
            schema,
            kind,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Form, SiteRecordError, SiteSpec, kernels};
    use crate::semantics::{GluKey, SemanticsKey};

    const SPEC: SiteSpec = SiteSpec {
        kernel: "npu_fused_swiglu",
        item: "Mlp::forward",
        path: None,
        module: "a::b",
        krate: "a",
        crate_version: "1.0.0",
        file: "C:\\src\\\"odd\".rs",
        line: 1203,
        form: Form::Struct,
        key: SemanticsKey::Glu(GluKey::SWIGLU),
        layer: Some("MLP"),
        condition: Some("self.act == Act::Silu"),
    };
    const KEY: &str = r#"{"op":"glu","activation":"silu","projections":"separate","clamp":"none","up_offset":"zero","topk":"none"}"#;
    const LEN: usize = site_record::<0>(&SPEC, KEY).1;
    static RECORD: [u8; LEN] = site_record::<LEN>(&SPEC, KEY).0;

    #[test]
    fn a_site_record_says_what_the_spec_says() {
        let records = decode(&RECORD).unwrap();
        let [Record::Site(json)] = &records[..] else {
            panic!("{records:?}")
        };
        let mut expected = serde_json::to_value(SPEC).unwrap();
        expected["schema"] = SCHEMA.into();
        expected["record"] = "site".into();
        assert_eq!(json, &expected);
        assert_eq!(SiteSpec::from_record(json), Ok(SPEC));
    }

    #[test]
    fn a_record_of_another_release_gives_no_spec_but_one_of_schema_1_does() {
        let Record::Site(json) = decode(&RECORD).unwrap().remove(0) else {
            panic!("it is a site's")
        };
        let mut older = json.clone();
        for field in ["layer", "condition"] {
            older.as_object_mut().unwrap().remove(field);
        }
        let spec = SiteSpec::from_record(&older).unwrap();
        assert_eq!(
            spec,
            SiteSpec {
                layer: None,
                condition: None,
                ..SPEC
            }
        );
        for (field, error) in [
            ("module", SiteRecordError::Field("module")),
            ("line", SiteRecordError::Field("line")),
            ("form", SiteRecordError::Field("form")),
            ("key", SiteRecordError::Semantics),
        ] {
            let mut json = json.clone();
            json[field] = Value::Null;
            assert_eq!(SiteSpec::from_record(&json), Err(error));
        }
    }

    #[test]
    fn kernel_records_say_what_the_specs_say() {
        for spec in kernels() {
            let mut expected = serde_json::to_value(spec).unwrap();
            expected["schema"] = SCHEMA.into();
            expected["record"] = "kernel".into();
            let (bytes, len) = kernel_record::<4096>(spec);
            assert_eq!(
                decode(&bytes[..len]).unwrap(),
                [Record::Kernel(expected)],
                "{}",
                spec.id
            );
        }
    }

    #[test]
    fn older_records_and_unknown_fields_are_read() {
        for json in [
            r#"{"schema":1,"record":"kernel","id":"a","op":"glu","implementations":[]}"#,
            r#"{"schema":2,"record":"kernel","id":"a","colour":"blue"}"#,
        ] {
            let mut section = MAGIC.to_vec();
            section.extend((json.len() as u32).to_le_bytes());
            section.extend(json.as_bytes());
            let records = decode(&section).unwrap();
            assert!(matches!(&records[..], [Record::Kernel(json)] if json["id"] == "a"));
        }
    }

    #[test]
    fn padding_between_records_is_skipped() {
        let mut section = vec![0; 3];
        section.extend_from_slice(&RECORD);
        section.extend_from_slice(&[0; 5]);
        section.extend_from_slice(&RECORD);
        assert_eq!(decode(&section).unwrap().len(), 2);
    }

    #[test]
    fn damage_is_an_error_that_says_where() {
        let cut = &RECORD[..RECORD.len() - 1];
        assert!(matches!(
            decode(cut),
            Err(SectionError::Truncated { offset: 0, .. })
        ));
        assert!(matches!(
            decode(&RECORD[..10]),
            Err(SectionError::Truncated { .. })
        ));

        let mut broken = RECORD;
        broken[MAGIC.len() + 4] = b'[';
        assert!(matches!(
            decode(&broken),
            Err(SectionError::Json { offset: 0, .. })
        ));

        let mut newer = RECORD;
        let at = newer.windows(9).position(|w| w == b"schema\":3").unwrap();
        newer[at + 8] = b'4';
        let message = decode(&newer).unwrap_err().to_string();
        assert!(message.contains("schema 4"), "{message}");

        assert!(matches!(
            decode(b"\0\0junk"),
            Err(SectionError::NotARecord { offset: 2 })
        ));
    }
}
