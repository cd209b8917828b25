//! The results of a benchmark, as its `--json` writes them.
//!
//! A file holds an array of rows, an object with such an array as `rows`, or an object that is one row. A row is named by
//! its field `key`, or by its texts, whole numbers, truth values and nulls together. Its times are the numbers in `ms`,
//! `s`, `us` or `ns`, or in fields that end in `_ms` and so on. Other fields, such as ratios, are results that follow
//! from the times.

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::rc::Rc;

/// The fields of whole numbers that count something in a run and don't name a row.
const COUNTS: [&str; 4] = ["samples", "runs", "bytes", "operations"];

/// The names of units, and their seconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)];

/// A time of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// The name of the row, which its times share: a file can have a long name and many times.
    pub row: Rc<str>,
    /// The subject of the time: the name of its field without the unit, such as `fused`; `time` for a field that is only
    /// a unit.
    pub of: String,
    /// The time.
    pub seconds: f64,
}

/// Reads the times of a file, in its order.
///
/// # Errors
/// Returns an error if the text is not JSON or holds no row with a time, if a time is not above zero, or if rows with the
/// same name have the same time.
pub fn read(text: &str) -> anyhow::Result<Vec<Time>> {
    let json: Value = serde_json::from_str(text).context("it is not JSON")?;
    let mut times = Vec::new();
    for (index, row) in rows(&json)?.into_iter().enumerate() {
        let Value::Object(fields) = row else {
            bail!("row {} is not an object", index + 1);
        };
        let name = Rc::from(name(fields));
        for (field, value) in fields {
            if let Some((of, unit)) = unit(field) {
                times.extend(time(&name, field, of, unit, value)?);
            }
        }
    }
    ensure!(
        !times.is_empty(),
        "no row has a time, which is a field `ms`, `us`, `ns` or `s`, or one that ends in `_ms` and so on"
    );
    ensure_distinct(&times)?;
    Ok(times)
}

fn ensure_distinct(times: &[Time]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    for Time { row, of, .. } in times {
        ensure!(
            seen.insert((row, of)),
            "two times of `{}` belong to the row `{}`, so they can't be told apart",
            kernels_io::escape(of),
            kernels_io::escape(row)
        );
    }
    Ok(())
}

fn rows(json: &Value) -> anyhow::Result<Vec<&Value>> {
    let own = match json {
        Value::Object(fields) => fields.get("rows"),
        _ => None,
    };
    match own.unwrap_or(json) {
        Value::Array(rows) => Ok(rows.iter().collect()),
        Value::Object(_) if own.is_none() => Ok(vec![json]),
        _ => bail!("it holds neither an array of rows nor an object"),
    }
}

/// Returns the name of a row.
fn name(fields: &Map<String, Value>) -> String {
    if let Some(Value::String(key)) = fields.get("key") {
        return key.clone();
    }
    let parts = fields.iter().filter_map(|(field, value)| match value {
        Value::String(text) if unit(field).is_none() => Some(text.clone()),
        Value::Null if unit(field).is_none() => Some(format!("no {field}")),
        Value::Bool(_) => Some(format!("{field} {value}")),
        Value::Number(number) => {
            let names = !number.is_f64() && unit(field).is_none() && !is_count(field);
            names.then(|| format!("{field} {number}"))
        }
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn is_count(field: &str) -> bool {
    COUNTS.contains(&field)
}

/// Returns the subject of a field that is a time, and the seconds of its unit; `None` if it is not a time. A rate, such as
/// `tokens_per_s`, is not a time.
fn unit(field: &str) -> Option<(&str, f64)> {
    UNITS.iter().find_map(|&(unit, seconds)| {
        let of = field.strip_suffix(unit)?;
        match of.strip_suffix('_') {
            _ if of.is_empty() => Some(("time", seconds)),
            Some(of) if of == "per" || of.ends_with("_per") => None,
            Some(of) if !of.is_empty() => Some((of, seconds)),
            _ => None,
        }
    })
}

/// Returns the time in a field; `None` for a null, which stands for a time that was not measured.
fn time(
    row: &Rc<str>,
    field: &str,
    of: &str,
    unit: f64,
    value: &Value,
) -> anyhow::Result<Option<Time>> {
    if value.is_null() {
        return Ok(None);
    }
    let seconds = value.as_f64().map(|number| number * unit);
    let Some(seconds) = seconds.filter(|&seconds| seconds > 0.0 && seconds.is_finite()) else {
        bail!(
            "`{}` of row `{}` must be a time above zero",
            kernels_io::escape(field),
            kernels_io::escape(row)
        );
    };
    Ok(Some(Time {
        row: Rc::clone(row),
        of: of.to_owned(),
        seconds,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Vec<(String, String, f64)> {
        let times = read(text).unwrap().into_iter();
        times
            .map(|time| (time.row.to_string(), time.of, time.seconds))
            .collect()
    }

    #[test]
    fn fields_are_names_times_or_neither() {
        let text = r#"[{"op": "RoPE", "tokens": 512, "keep": true, "window": null, "bytes": 8, "fused_s": 0.5,
            "fused_ms_ratio": 2.0, "burn_ms": null, "items": [1]}]"#;
        let row = "keep true, RoPE, tokens 512, no window";
        assert_eq!(times(text), [(row.into(), "fused".into(), 0.5)]);
    }

    #[test]
    fn a_key_is_the_whole_name() {
        let text = r#"{"rows": [{"key": "rope/512", "path": "fused", "ms": 2, "tokens": 512}]}"#;
        assert_eq!(times(text), [("rope/512".into(), "time".into(), 2e-3)]);
    }

    #[test]
    fn an_object_without_rows_is_one() {
        let text = r#"{"threads": 2, "step_ms": 5.0, "parts": [{"ms": 1}]}"#;
        assert_eq!(times(text), [("threads 2".into(), "step".into(), 5e-3)]);
    }

    #[test]
    fn units_are_whole_words() {
        assert_eq!(unit("ms"), Some(("time", 1e-3)));
        assert_eq!(unit("fastest_ns"), Some(("fastest", 1e-9)));
        for field in [
            "tokens",
            "items",
            "_ms",
            "ratios",
            "dense_over_s2",
            "tokens_per_s",
            "per_s",
        ] {
            assert_eq!(unit(field), None, "{field}");
        }
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for (text, words) in [
            ("{", "not JSON"),
            ("7", "neither an array of rows nor an object"),
            (r#"{"rows": 1}"#, "neither an array of rows nor an object"),
            ("[1]", "row 1 is not an object"),
            ("[]", "no row has a time"),
            (r#"{"unit": "tokens/s"}"#, "no row has a time"),
            (r#"[{"op": "a", "ms": 0}]"#, "`ms` of row `a`"),
            (r#"[{"op": "a", "ms": "1"}]"#, "`ms` of row `a`"),
            (
                r#"[{"key": "a", "ms": 1}, {"key": "a", "ms": 2}]"#,
                "two times of `time` belong to the row `a`",
            ),
            (
                r#"[{"key": "a", "ms": 1, "s": 2}]"#,
                "two times of `time` belong to the row `a`",
            ),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
