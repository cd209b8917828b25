//! Tests of `kernels bench compare`, with files as benchmarks write them.

use crate::common::{errors, json, kernels, stdout};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with results, which is removed with it.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, text: impl ToString) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn compared(a: &str, b: &str, options: &[&str]) -> Value {
    json(["bench", "compare", "--json", a, b].iter().chain(options))
}

fn refused(a: &str, b: &str) -> String {
    let result = kernels(["bench", "compare", a, b]);
    let said = errors(&result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(result.stdout.is_empty(), "{said}");
    said
}

/// Rows of three kinds: one that became slower, one faster, and one that is nearly the same.
fn earlier_and_later(files: &Files) -> [String; 2] {
    let rows = |times: [f64; 3]| {
        let row = |(tokens, ms)| json!({ "op": "RoPE", "tokens": tokens, "fused_ms": ms });
        Value::from_iter([64, 512, 2048].into_iter().zip(times).map(row))
    };
    [
        files.write("a.json", rows([1.0, 4.0, 2.0])),
        files.write("b.json", rows([2.0, 1.0, 2.04])),
    ]
}

#[test]
fn ratios_are_of_the_later_time_and_marked_above_the_threshold() {
    let files = Files::new();
    let [a, b] = earlier_and_later(&files);
    let result = compared(&a, &b, &[]);
    let field = |name: &str| -> Vec<Value> {
        let rows = result["rows"].as_array().unwrap();
        rows.iter().map(|row| row[name].clone()).collect()
    };
    let names = ["RoPE, tokens 64", "RoPE, tokens 512", "RoPE, tokens 2048"];
    assert_eq!(field("row"), names);
    assert_eq!(field("of"), ["fused"; 3]);
    for (ratio, expected) in field("ratio").iter().zip([2.0, 0.25, 1.02]) {
        assert!(
            (ratio.as_f64().unwrap() - expected).abs() < 1e-12,
            "{ratio}"
        );
    }
    assert_eq!(
        field("change"),
        [json!("slower"), json!("faster"), Value::Null]
    );
    let mean = result["geometric_means"]["fused"]["ratio"]
        .as_f64()
        .unwrap();
    assert!(
        (mean - (2.0_f64 * 0.25 * 1.02).cbrt()).abs() < 1e-12,
        "{mean}"
    );

    let at_one = compared(&a, &b, &["--threshold", "1"]);
    assert_eq!(at_one["rows"][2]["change"], "slower");
    let at_300 = compared(&a, &b, &["--threshold", "300"]);
    assert_eq!(at_300["rows"][0]["change"], Value::Null);
}

#[test]
fn the_table_has_every_row_and_the_mean() {
    let files = Files::new();
    let [a, b] = earlier_and_later(&files);
    let text = stdout(["bench", "compare", "--wide", &a, &b]);
    for words in [
        "RoPE, tokens 64    fused    1.00 ms  2.00 ms  2.000  slower",
        "RoPE, tokens 512   fused    4.00 ms  1.00 ms  0.250  faster",
        "RoPE, tokens 2048  fused    2.00 ms  2.04 ms  1.020",
        "fused: 0.799 times as long in B (geometric mean of 3)",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
}

#[test]
fn rows_of_one_file_are_named() {
    let files = Files::new();
    let row = |key: &str| json!({ "key": key, "ms": 1, "path": key });
    let a = files.write("a.json", json!([row("both"), row("old")]));
    let b = files.write("b.json", json!({ "rows": [row("new"), row("both")] }));
    let result = compared(&a, &b, &[]);
    assert_eq!(result["rows"].as_array().unwrap().len(), 1);
    assert_eq!(result["only_in_a"], json!([{ "row": "old", "of": "time" }]));
    assert_eq!(result["only_in_b"], json!([{ "row": "new", "of": "time" }]));
    let text = stdout(["bench", "compare", &a, &b]);
    assert!(text.contains("only in A: old (time)"), "{text}");
    assert!(text.contains("only in B: new (time)"), "{text}");
}

#[test]
fn times_in_other_units_are_the_same_times() {
    let files = Files::new();
    let a = files.write("a.json", json!([{ "op": "glu", "fused_ms": 3.0 }]));
    let b = files.write("b.json", json!([{ "op": "glu", "fused_s": 0.006 }]));
    let ratio = compared(&a, &b, &[])["rows"][0]["ratio"].as_f64().unwrap();
    assert!((ratio - 2.0).abs() < 1e-12, "{ratio}");
}

/// Returns files of results: those that are committed, and two rows of each benchmark's.
fn results(files: &Files) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let committed = fs::read_dir(root.join("benches/results")).unwrap();
    let committed = committed.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = committed
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    assert!(paths.len() >= 4, "{paths:?}");
    let samples = fs::read_to_string(root.join("tests/fixtures/benchmarks.json")).unwrap();
    let samples: BTreeMap<String, Value> = serde_json::from_str(&samples).unwrap();
    let written = samples
        .into_iter()
        .map(|(name, sample)| PathBuf::from(files.write(&format!("{name}.json"), sample)));
    paths.extend(written);
    paths
}

/// Results in tokens per second, which are not times.
fn is_of_rates(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    ["training", "finetune", "generate"].contains(&name)
}

#[test]
fn committed_results_are_read() {
    let files = Files::new();
    let (rates, times): (Vec<_>, Vec<_>) = results(&files)
        .into_iter()
        .partition(|path| is_of_rates(path));
    assert!(times.len() >= 15 && rates.len() == 3, "{times:?} {rates:?}");
    for path in &times {
        let path = path.to_str().unwrap();
        let result = compared(path, path, &[]);
        let means = result["geometric_means"].as_object().unwrap();
        assert!(!means.is_empty(), "{path}");
        assert!(means.values().all(|mean| mean["ratio"] == 1.0), "{path}");
        assert_eq!(result["only_in_a"], json!([]), "{path}");
    }
    for path in &rates {
        let path = path.to_str().unwrap();
        assert!(refused(path, path).contains("no row has a time"), "{path}");
    }
}

#[test]
fn what_is_no_result_is_refused_by_name() {
    let files = Files::new();
    let good = files.write("good.json", json!([{ "op": "glu", "ms": 1 }]));
    let missing = files.0.path().join("missing.json");
    for (bad, words) in [
        (missing.to_str().unwrap().to_owned(), "missing.json"),
        (
            files.write("text.json", "op: glu"),
            "text.json holds no results of a benchmark: it is not JSON",
        ),
        (
            files.write("empty.json", "[]"),
            "empty.json holds no results of a benchmark: no row has a time",
        ),
        (
            files.write("other.json", json!([{ "op": "rope", "ms": 1 }])),
            "have no row in common",
        ),
    ] {
        for said in [refused(&bad, &good), refused(&good, &bad)] {
            assert!(said.contains(words), "`{words}` is not in: {said}");
        }
    }
    let result = kernels(["bench", "compare", "--threshold", "-1", &good, &good]);
    assert_eq!(result.status.code(), Some(2), "{}", errors(&result));
}

#[test]
fn text_of_a_file_is_escaped() {
    let files = Files::new();
    let rows = json!([{ "op": "\u{1b}[2J", "\u{1b}[1m_ms": 1 }, { "op": "b", "ms": 1 }]);
    let a = files.write("a.json", &rows);
    let b = files.write("b.json", json!([rows[1]]));
    for [first, second] in [[&a, &a], [&a, &b], [&b, &a]] {
        let text = stdout(["bench", "compare", first, second]);
        assert!(!text.contains('\x1b'), "{text:?}");
        assert!(text.contains("\\u{1b}[2J"), "{text:?}");
        let text = stdout(["bench", "compare", "--json", first, second]);
        assert!(!text.contains('\x1b'), "{text:?}");
    }
    let twice = files.write("twice.json", json!([rows[0], rows[0]]));
    let said = refused(&twice, &a);
    assert!(
        !said.contains('\x1b') && said.contains("can't be told apart"),
        "{said:?}"
    );
}
