//! Tests of `kernels plan --bin`, which plans the sites of another program.

use crate::common::{elf, errors, json, kernels, record, stdout};
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kernels");

/// A built file with these records.
struct Built(TempDir);

impl Built {
    fn new(records: &[Value]) -> Self {
        let built = Self(TempDir::new().unwrap());
        let records: Vec<_> = records
            .iter()
            .map(|json| record(&json.to_string()))
            .collect();
        std::fs::write(built.path(), elf(&records.concat())).unwrap();
        built
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("program")
    }

    fn plan(&self, more: &[&str]) -> Value {
        json(
            self.args(&["--json"])
                .iter()
                .map(String::as_str)
                .chain(more.iter().copied()),
        )
    }

    fn text(&self) -> String {
        stdout(self.args(&["--wide"]))
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let path = self.path().to_str().unwrap().to_owned();
        let args = ["plan", "--bin", &path]
            .into_iter()
            .chain(more.iter().copied());
        args.map(str::to_owned).collect()
    }
}

/// Returns the record of a kernel of `kernels`.
fn kernel(id: &str) -> Value {
    let listed = json(["inspect", "--json", PROGRAM]);
    let mut kernels = listed["kernels"].as_array().unwrap().iter();
    kernels.find(|kernel| kernel["id"] == id).unwrap().clone()
}

fn site(item: &str, kernel: &str, key: Value) -> Value {
    json!({
        "schema": 2, "record": "site", "kernel": kernel, "item": item, "module": "my_model", "crate": "my-model",
        "crate_version": "0.3.0", "file": "src/lib.rs", "line": 7, "form": "struct", "key": key, "layer": null,
    })
}

fn norm(item: &str) -> Value {
    let key = json!({
        "op": "rms_norm", "offset": "one", "rounding": "gemma", "scale": "weight", "gating": "none", "groups": "one",
        "shift": "none",
    });
    site(item, "npu_fused_rmsnorm", key)
}

/// Returns the records of a kernel of another crate and of a site with it.
fn acme() -> [Value; 2] {
    let kernel = json!({
        "schema": 2, "record": "kernel", "id": "acme_soft_cap", "op": "soft_cap", "version": 1, "summary": "s",
        "crate": "acme-kernels", "crate_version": "1.2.0", "replaces": null, "implementations": [],
    });
    let key = json!({ "op": "soft_cap", "base": "tanh" });
    [kernel, site("cap", "acme_soft_cap", key)]
}

fn row<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let mut rows = plan["sites"].as_array().unwrap().iter();
    rows.find(|row| row["site"] == name)
        .unwrap_or_else(|| panic!("{name}: {plan}"))
}

fn notes(plan: &Value) -> String {
    let notes = plan["notes"].as_array().unwrap().iter();
    notes
        .map(|note| note.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_file_is_planned_as_the_program_plans_itself() {
    for more in [
        &["--dtype", "bf16"][..],
        &["--mode", "inference"],
        &["--kernels", "none"],
    ] {
        let own = json(["plan", "--json"].iter().chain(more));
        let read = json(["plan", "--json", "--bin", PROGRAM].iter().chain(more));
        assert_eq!(read["sites"], own["sites"], "{more:?}");
        assert!(read["sites"].as_array().unwrap().len() > 3);
        for fact in ["policy", "device", "dtype", "mode", "capability"] {
            assert_eq!(read[fact], own[fact], "{fact}");
        }
        assert_eq!(read["own_kernels"], json!([]));
        assert_eq!(read["file"], PROGRAM);
    }
}

#[test]
fn sites_of_another_program_run_the_kernels_of_this_one() {
    let built = Built::new(&[kernel("npu_fused_rmsnorm"), norm("Norm::forward")]);
    let plan = built.plan(&[]);
    let row = row(&plan, "my_model::Norm::forward");
    assert_eq!(row["implementation"], "cpu-simd");
    assert_eq!(row["key"], "rms_norm(offset=1, rounding=gemma)");
    assert_eq!(row["crate"], "kernels-runtime");
    // The plan names what records don't contain.
    assert!(notes(&plan).contains("records contain neither a site's `when`"));
    let text = built.text();
    assert!(
        text.contains("rms_norm(offset = 1, rounding = gemma)"),
        "{text}"
    );
    assert!(
        !text.contains("kernels_models") && !text.contains("kernels inspect"),
        "{text}"
    );
    let off = built.plan(&["--kernels=all,-npu_fused_rmsnorm"]);
    assert_eq!(off["sites"][0]["reason"], "policy");
}

#[test]
fn kernels_of_the_program_alone_are_unknown_here_and_no_error() {
    let [kernel_record, site] = acme();
    let built = Built::new(&[kernel_record, site, kernel("npu_fused_rmsnorm"), norm("n")]);
    let plan = built.plan(&["--kernels=all,strict"]);
    assert_eq!(plan["own_kernels"], json!(["acme_soft_cap"]));
    let cap = row(&plan, "my_model::cap");
    assert_eq!(cap["reason"], "unknown_kernel");
    assert!(
        cap["implementation"].is_null() && cap["unmet"].is_null(),
        "{cap}"
    );
    assert_eq!(row(&plan, "my_model::n")["implementation"], "cpu-simd");
    let text = built.text();
    assert!(
        text.contains("unknown here: a kernel of acme-kernels 1.2.0"),
        "{text}"
    );
    // A kernel with a known id from another crate is not this program's.
    let mut other = kernel("npu_fused_rmsnorm");
    other["crate"] = "acme-kernels".into();
    let plan = Built::new(&[other, norm("n")]).plan(&[]);
    assert_eq!(plan["own_kernels"], json!(["npu_fused_rmsnorm"]));
    assert!(row(&plan, "my_model::n")["implementation"].is_null());
}

#[test]
fn kernels_that_the_file_lacks_do_not_run_and_other_versions_are_told() {
    let plan = Built::new(&[kernel("npu_fused_rope"), norm("n")]).plan(&[]);
    let site = row(&plan, "my_model::n");
    assert_eq!(site["reason"], "unknown_kernel");
    assert_eq!(site["candidates"], json!([]));
    assert_eq!(plan["own_kernels"], json!([]));

    let mut older = kernel("npu_fused_rmsnorm");
    older["crate_version"] = "0.0.9".into();
    older["implementations"] = json!([]);
    let plan = Built::new(&[older, norm("n")]).plan(&[]);
    let said = notes(&plan);
    assert!(
        said.contains(
            "npu_fused_rmsnorm: the file links version 1 of kernels-runtime 0.0.9 (), the plan uses"
        ),
        "{said}"
    );
}

#[test]
fn sites_of_another_release_are_named_and_not_planned() {
    let mut newer = norm("newer");
    newer["key"]["tilt"] = "left".into();
    let mut older = norm("older");
    older.as_object_mut().unwrap().remove("crate");
    let plan = Built::new(&[kernel("npu_fused_rmsnorm"), newer, older]).plan(&[]);
    assert_eq!(plan["sites"], json!([]));
    let said = notes(&plan);
    for words in [
        "my_model::newer is not planned: this release does not know its semantics",
        "my_model::older is not planned: its record has no `crate`",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let plan = Built::new(&[kernel("npu_fused_rmsnorm")]).plan(&[]);
    assert!(notes(&plan).contains("has kernels, but no annotated site"));
}

#[test]
fn what_a_terminal_obeys_is_escaped() {
    let mut evil = norm("a\x1b[2J\nnote: b");
    evil["layer"] = "\u{202e}".into();
    let text = Built::new(&[kernel("npu_fused_rmsnorm"), evil]).text();
    assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    assert!(text.contains(r"my_model::a\u{1b}[2J\nnote: b"), "{text}");
}

#[test]
fn wrong_usage_and_other_files_are_refused() {
    for more in ["--out", "--check"] {
        let result = kernels(["plan", "--bin", PROGRAM, more, "plan.toml"]);
        assert_eq!(result.status.code(), Some(2), "{}", errors(&result));
    }
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no object file").unwrap();
    let result = kernels(["plan".as_ref(), "--bin".as_ref(), text.as_os_str()]);
    assert_eq!(result.status.code(), Some(1));
    let said = errors(&result);
    assert!(
        said.contains("notes.txt: not an ELF, Mach-O or PE file"),
        "{said}"
    );
    assert!(result.stdout.is_empty());
}
