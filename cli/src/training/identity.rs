//! The settings that decide the numbers of a run. A state goes on only with the same.

use anyhow::bail;
use serde_json::Value;
use std::fmt;

/// The field with the version of the program, which may change.
const PROGRAM: &str = "program";

/// The field with the checksum of the weights that adapters are trained for.
pub const BASE: &str = "base";

/// The field with the checksum of the weights that answers are compared by, or that teach.
pub const REFERENCE: &str = "reference";

/// The hash FNV-1a of bytes, with their number. It tells data apart.
pub struct Fingerprint {
    hash: u64,
    bytes: usize,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            bytes: 0,
        }
    }
}

impl Fingerprint {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hash = bytes.iter().fold(self.hash, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        self.bytes += bytes.len();
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.hash, self.bytes)
    }
}

/// Checks that a state was saved with the settings of this run. `what` names the state.
///
/// # Errors
/// Returns an error that names the first field that differs, with both values.
pub fn check(what: &str, saved: &Value, wanted: &Value) -> anyhow::Result<()> {
    let sum =
        |of: &Value, field: &str| of.get(field).filter(|sum: &&Value| !sum.is_null()).cloned();
    for (field, weights, whose) in [
        (BASE, "other weights", "the checkpoint that --model names"),
        (
            REFERENCE,
            "a reference of other weights",
            "its reference or teacher, by --reference, --adapter or --teacher,",
        ),
    ] {
        // States of older programs have none.
        if let (Some(saved), Some(wanted)) = (sum(saved, field), sum(wanted, field))
            && saved != wanted
        {
            bail!(
                "{what} is of {weights}: those of {whose} have changed since; put the former ones back, or begin a run of \
                 its own by another --out"
            );
        }
    }
    if let Some((field, saved, wanted)) = difference(String::new(), saved, wanted) {
        bail!(
            "{what} is of another configuration: `{field}` is {saved} there and {wanted} here; resume it with its own \
             settings, or begin a run of its own by another --out"
        );
    }
    Ok(())
}

/// Returns a remark if another version of the program saved a state.
pub fn remark(saved: &Value, wanted: &Value) -> Option<String> {
    let (saved, wanted) = (saved.get(PROGRAM)?, wanted.get(PROGRAM)?);
    (saved != wanted).then(|| {
        format!(
            "the run began with {}, and this is {}: losses can differ from those of an uninterrupted run",
            text(Some(saved)),
            text(Some(wanted))
        )
    })
}

/// Returns the fields of a run's settings with their names, those inside `settings` one by one.
pub fn fields(description: &Value) -> Vec<(String, &Value)> {
    let mut fields = Vec::new();
    for (name, value) in description.as_object().into_iter().flatten() {
        match value.as_object().filter(|_| name == "settings") {
            Some(inside) => {
                let named = |(inner, value)| (format!("`{name}.{inner}`"), value);
                fields.extend(inside.iter().map(named));
            }
            None => fields.push((format!("`{name}`"), value)),
        }
    }
    fields
}

/// Returns the first field that differs, with both values.
fn difference(field: String, saved: &Value, wanted: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(saved), Value::Object(wanted)) = (saved, wanted) {
        let names = wanted.keys().chain(saved.keys());
        let mut names = names.filter(|name| {
            !field.is_empty() || ![PROGRAM, BASE, REFERENCE].contains(&name.as_str())
        });
        return names.find_map(|name| {
            let inside = match field.as_str() {
                "" => name.clone(),
                outside => format!("{outside}.{name}"),
            };
            match (saved.get(name), wanted.get(name)) {
                (Some(saved), Some(wanted)) => difference(inside, saved, wanted),
                (saved, wanted) => Some((inside, text(saved), text(wanted))),
            }
        });
    }
    (saved != wanted).then(|| (field, text(Some(saved)), text(Some(wanted))))
}

fn text(value: Option<&Value>) -> String {
    const LONGEST: usize = 200;
    match value {
        None => "absent".to_owned(),
        Some(value) => kernels_io::shorten(&value.to_string(), LONGEST).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fingerprints_are_fnv_1a() {
        let of = |bytes: &[u8]| {
            let mut fingerprint = Fingerprint::default();
            fingerprint.add(bytes);
            fingerprint.to_string()
        };
        // The published values with 64 bits.
        assert_eq!(of(b""), "cbf29ce484222325-0");
        assert_eq!(of(b"foobar"), "85944171f73967e8-6");
    }

    #[test]
    fn the_first_field_that_differs_is_named() {
        let saved = json!({"program": "1", "settings": {"lr": 0.1, "seed": 1, "old": 2}});
        let told = |wanted: Value| match check("resume/step-1", &saved, &wanted) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        let same = json!({"program": "2", "settings": {"lr": 0.1, "seed": 1, "old": 2}});
        assert_eq!(told(same.clone()), "");
        assert!(remark(&saved, &same).unwrap().contains("\"1\""));
        assert_eq!(remark(&saved, &saved), None);
        let (one, other) = (json!({"base": "1"}), json!({"base": "2"}));
        let said = check("resume/step-1", &one, &other)
            .unwrap_err()
            .to_string();
        assert!(said.contains("of other weights"), "{said}");
        let (first, second) = (json!({"reference": "1"}), json!({"reference": "2"}));
        let said = check("resume/step-1", &first, &second).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("of a reference of other weights"), "{said}");
        assert!(said.contains("its reference or teacher"), "{said}");
        for same in [&one, &first, &json!({}), &json!({"base": null})] {
            check("resume/step-1", &one, same).unwrap();
        }
        let said = told(json!({"program": "1", "settings": {"lr": 0.2, "seed": 1, "old": 2}}));
        assert!(
            said.contains("`settings.lr` is 0.1 there and 0.2 here"),
            "{said}"
        );
        let said = told(json!({"program": "1", "settings": {"lr": 0.1, "seed": 1}}));
        assert!(
            said.contains("`settings.old` is 2 there and absent here"),
            "{said}"
        );
        let said =
            told(json!({"program": "1", "settings": {"lr": 0.1, "seed": 1, "old": 2}, "new": 3}));
        assert!(said.contains("`new` is absent there and 3 here"), "{said}");
    }
}
