//! `burn-kernels.json`.

use crate::support::{ByHand, Random, fails, open, package};
use kernels_packages::binding::{Constant, Part, Workspace, read};
use serde_json::{Value, json};

fn good() -> Value {
    json!({"format": 1, "bindings": [{
        "symbol": "norm",
        "semantics": {"rounding": "gemma", "op": "rms_norm"},
        "dtypes": ["f32", "bf16"],
        "arguments": [{"tensor": "x"}, {"constant": null}, {"number": "eps"}, {"constant": "gemma"}, {"constant": 0},
            {"constant": 0.0}, {"constant": true}, {"result": "y"}, {"saved": "rstd"}],
        "backward": {
            "symbol": "norm_backward",
            "arguments": [{"tensor": "x"}, {"saved": "rstd"}, {"gradient": "y"}, {"gradient_of": "x"}]
        }
    }]})
}

fn problem(change: impl FnOnce(&mut Value), npu: bool) -> String {
    let mut json = good();
    change(&mut json);
    read(json.to_string().as_bytes(), npu).expect_err("a problem")
}

#[test]
fn a_binding_says_what_a_function_computes() {
    let bindings = read(good().to_string().as_bytes(), false).expect("bindings");
    let [binding] = &bindings[..] else {
        panic!("{bindings:?}")
    };
    assert_eq!(binding.operation, "rms_norm");
    assert_eq!(binding.semantics, r#"{"op":"rms_norm","rounding":"gemma"}"#);
    assert_eq!(binding.dtypes, ["f32", "bf16"]);
    let constants: Vec<_> = (binding.forward.arguments.iter())
        .filter_map(|part| match part {
            Part::Constant(constant) => Some(constant.clone()),
            _ => None,
        })
        .collect();
    let text = Constant::Text("gemma".into());
    assert_eq!(
        constants,
        [
            Constant::Null,
            text,
            Constant::Int(0),
            Constant::Float(0.0),
            Constant::Bool(true)
        ]
    );
    let backward = binding.backward.as_ref().expect("a function");
    assert_eq!(backward.arguments[3], Part::GradientOf("x".into()));
    let mut json = good();
    json["bindings"][0]["backward"] = "reference".into();
    assert_eq!(
        read(json.to_string().as_bytes(), false).expect("bindings")[0].backward,
        None
    );
}

#[test]
fn each_mistake_is_named() {
    type Change = fn(&mut Value);
    fn first(json: &mut Value) -> &mut Value {
        &mut json["bindings"][0]
    }
    let cases: [(Change, &str); 30] = [
        (
            |json| json["formt"] = 1.into(),
            "the file: unknown field `formt`, did you mean `format`?",
        ),
        (
            |json| json["format"] = 2.into(),
            "format 2 is not supported",
        ),
        (
            |json| json["format"] = "1".into(),
            "the file.format: a whole number",
        ),
        (
            |json| json["bindings"] = json!({}),
            "the file.bindings: a list",
        ),
        (
            |json| json["bindings"] = json!([1]),
            "bindings[0]: an object",
        ),
        (
            |json| first(json)["dtype"] = json!([]),
            "bindings[0]: unknown field `dtype`, did you mean `dtypes`?",
        ),
        (
            |json| first(json)["dtypes"] = json!(["fp32"]),
            "bindings[0].dtypes: unknown dtype `fp32`, did you mean `f32`?",
        ),
        (
            |json| first(json)["dtypes"] = json!(["f32", "f32"]),
            "`f32` is there twice",
        ),
        (
            |json| first(json)["dtypes"] = json!([]),
            "bindings[0].dtypes: the list is empty",
        ),
        (
            |json| first(json)["semantics"] = "rms_norm".into(),
            "bindings[0].semantics: an object with the operation",
        ),
        (
            |json| first(json)["semantics"]["op"] = "RMS Norm".into(),
            "bindings[0].semantics: an object with the operation",
        ),
        (
            |json| first(json)["semantics"]["x"] = "x".repeat(20_000).into(),
            "the key is too long",
        ),
        (
            |json| first(json)["symbol"] = "a b".into(),
            "bindings[0].symbol: `a b` is not the name of a function",
        ),
        (
            |json| first(json)["symbol"] = 1.into(),
            "bindings[0].symbol: text",
        ),
        (
            |json| {
                drop(
                    first(json)
                        .as_object_mut()
                        .expect("an object")
                        .remove("backward"),
                )
            },
            "the field `backward` is missing",
        ),
        (
            |json| first(json)["backward"] = "none".into(),
            "\"reference\" or an object",
        ),
        (
            |json| first(json)["backward"]["arguments"] = json!([{"gradient": "z"}]),
            "bindings[0].backward: the forward function has no argument for `z`",
        ),
        (
            |json| first(json)["backward"]["arguments"] = json!([{"saved": "mean"}]),
            "no argument for `mean`",
        ),
        (
            |json| first(json)["backward"]["arguments"] = json!([{"gradient": "y"}]),
            "writes no gradient",
        ),
        (
            |json| first(json)["arguments"][0] = json!({"tensr": "x"}),
            "arguments[0]: unknown field `tensr`, did you mean `tensor`?",
        ),
        (
            |json| first(json)["arguments"][0] = json!({"tensor": "x", "result": "x"}),
            "an object with one field",
        ),
        (
            |json| first(json)["arguments"][0] = json!({}),
            "an object with one field",
        ),
        (
            |json| first(json)["arguments"][0] = json!({"tensor": "\u{1b}"}),
            "a name of lower-case",
        ),
        (
            |json| first(json)["arguments"][0] = json!({"gradient_of": "x"}),
            "only the backward function has gradients",
        ),
        (
            |json| first(json)["arguments"][1] = json!({"tensor": "x"}),
            "arguments[1]: this argument is there already",
        ),
        (
            |json| first(json)["arguments"][1] = json!({"constant": [1]}),
            "arguments[1].constant: null, a bool",
        ),
        (
            |json| first(json)["arguments"][1] = json!({"constant": u64::MAX}),
            "does not fit an integer of 64 bits",
        ),
        (
            |json| first(json)["arguments"][1] = json!({"constant": "a\0"}),
            "without zeros",
        ),
        (
            |json| first(json)["arguments"][1] = json!({"stream": true}),
            "only variants for NPUs",
        ),
        (
            |json| first(json)["arguments"] = json!(vec![json!({"constant": 1}); 65]),
            "65 items are more than the 64",
        ),
    ];
    for (change, says) in cases {
        let problem = problem(change, false);
        assert!(problem.contains(says), "`{problem}` does not say `{says}`");
    }
    let again = problem(
        |json| {
            let mut again = json["bindings"][0].clone();
            again["dtypes"] = json!(["f16", "bf16"]);
            json["bindings"] = json!([json["bindings"][0], again]);
        },
        false,
    );
    assert!(
        again.contains("bindings[1]: `norm` is bound to these semantics"),
        "{again}"
    );
    let twice =
        read(br#"{"format": 1, "bindings": [], "format": 1}"#, false).expect_err("a problem");
    assert!(
        twice.contains("the field `format` is there twice"),
        "{twice}"
    );
}

#[test]
fn kernels_for_npus_say_how_much_memory_they_want() {
    let with = |arguments: Value, workspace: Value| {
        let mut json = good();
        json["bindings"][0]["arguments"] = arguments;
        json["bindings"][0]["backward"] = "reference".into();
        json["bindings"][0]["workspace"] = workspace;
        read(json.to_string().as_bytes(), true)
    };
    let arguments =
        json!([{"tensor": "x"}, {"result": "y"}, {"stream": true}, {"workspace": true}]);
    for (workspace, found) in [
        (json!({"bytes": 64}), Workspace::Bytes(64)),
        (
            json!({"symbol": "bytes_of"}),
            Workspace::Symbol("bytes_of".into()),
        ),
    ] {
        let bindings = with(arguments.clone(), workspace).expect("bindings");
        assert_eq!(bindings[0].forward.workspace, Some(found));
    }
    for (workspace, says) in [
        (json!({}), "one of `bytes` and `symbol`"),
        (json!({"bytes": -1}), "workspace.bytes: a whole number"),
        (
            json!({"byte": 1}),
            "unknown field `byte`, did you mean `bytes`?",
        ),
    ] {
        let problem = with(arguments.clone(), workspace).expect_err("a problem");
        assert!(problem.contains(says), "{problem}");
    }
    let problem = with(json!([{"tensor": "x"}]), json!({"bytes": 64})).expect_err("a problem");
    assert!(
        problem.contains("has no argument {\"workspace\": true}"),
        "{problem}"
    );
}

#[test]
fn bound_functions_must_be_there() {
    let with = |functions: &[&str]| {
        let library = ByHand {
            functions,
            ..ByHand::default()
        };
        let json = good().to_string();
        open(&package(&[
            ("_k.so", &library.bytes()),
            ("burn-kernels.json", json.as_bytes()),
        ]))
    };
    assert_eq!(
        with(&["norm", "norm_backward"])
            .expect("a package")
            .bindings()
            .len(),
        1
    );
    fails(
        with(&["norm"]),
        "burn-kernels.json: unknown function `norm_backward`",
    );
    let one = ByHand {
        functions: &["norm", "norm_backward"],
        ..ByHand::default()
    };
    let two = ByHand {
        functions: &["norm", "other"],
        ..ByHand::default()
    };
    let json = good().to_string();
    let files: [(&str, &[u8]); 3] = [
        ("_a.so", &one.bytes()),
        ("_b.so", &two.bytes()),
        ("burn-kernels.json", json.as_bytes()),
    ];
    fails(
        open(&package(&files)),
        "the function `norm` is in several libraries",
    );
}

#[test]
fn mutated_bindings_never_panic() {
    let json = good().to_string();
    let mut random = Random(5);
    let mut accepted = 0;
    for _ in 0..5000 {
        match read(&random.mutate(json.as_bytes()), true) {
            Ok(_) => accepted += 1,
            Err(problem) => assert!(problem.len() < 4000, "{problem}"),
        }
    }
    assert!((10..4900).contains(&accepted), "{accepted}");
}
