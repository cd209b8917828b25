//! `burn-kernels.json`: the operations that functions of a package compute.
//!
//! A library has no meaning of its own. This file, which the digest of the variant covers, binds functions to
//! operations:
//!
//! ```json
//! {
//!   "format": 1,
//!   "bindings": [
//!     {
//!       "symbol": "rms_norm",
//!       "semantics": {"op": "rms_norm", "offset": "zero", "rounding": "gemma", "scale": "weight",
//!                     "gating": "none", "groups": "one", "shift": "none"},
//!       "dtypes": ["f32", "bf16"],
//!       "arguments": [{"tensor": "x"}, {"tensor": "weight"}, {"number": "eps"}, {"constant": "gemma"},
//!                     {"result": "y"}, {"saved": "rstd"}],
//!       "backward": {
//!         "symbol": "rms_norm_backward",
//!         "arguments": [{"tensor": "x"}, {"tensor": "weight"}, {"saved": "rstd"}, {"gradient": "y"},
//!                       {"gradient_of": "x"}, {"gradient_of": "weight"}]
//!       }
//!     }
//!   ]
//! }
//! ```
//!
//! | field | contents |
//! |---|---|
//! | `symbol` | the name of the function, the symbol `__tvm_ffi_<name>` |
//! | `semantics` | the semantics key in JSON, as records of sites have it. Its `op` is the operation |
//! | `dtypes` | the types of the float tensors: `f32`, `bf16`, `f16`, `f64`. They are the same in one call |
//! | `arguments` | each argument in the order of the function, see [`Part`] |
//! | `backward` | the function of the gradients with its arguments, or `"reference"`: gradients are the reference's |
//! | `workspace` | only with an argument `{"workspace": true}`: `{"bytes": N}` or `{"symbol": NAME}`; also in `backward` |
//!
//! The function `workspace.symbol` takes the arguments without stream and workspace, and returns the bytes that the
//! function wants.
//!
//! Unknown fields, fields that are there twice, two bindings of one operation and dtype, and a backward function that
//! needs what the forward function does not write are errors. A file has at most 1 MiB, 1,024 bindings, and 64
//! arguments for each function.

use crate::strict::{Fields, parse, unknown};
use kernels_io::Limit;
use serde_json::Value;
use std::collections::BTreeMap;

/// The name of the file.
pub(crate) const FILE: &str = "burn-kernels.json";

/// The largest file.
pub(crate) const LIMIT: Limit = Limit::mib("a burn-kernels.json", 1);

/// The version of the format.
const FORMAT: u64 = 1;
const MOST_BINDINGS: usize = 1024;
const MOST_ARGUMENTS: usize = 64;
const LONGEST_KEY: usize = 16 << 10;
const LONGEST_TEXT: usize = 256;

/// A function that computes an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The operation: the `op` of the semantics.
    pub operation: String,
    /// The semantics key as JSON, with its fields in the order of their names.
    pub semantics: String,
    /// The types that the float tensors may have.
    pub dtypes: Vec<String>,
    /// The function.
    pub forward: Call,
    /// The function of the gradients. Without one, they are those of the reference.
    pub backward: Option<Call>,
}

/// A function and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The name, without the prefix of the symbol.
    pub symbol: String,
    /// The arguments, in the order of the function.
    pub arguments: Vec<Part>,
    /// The memory that the function wants, if it has an argument for it.
    pub workspace: Option<Workspace>,
}

impl Call {
    /// Returns the functions that the call needs.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = &str> {
        let workspace = match &self.workspace {
            Some(Workspace::Symbol(symbol)) => Some(symbol.as_str()),
            _ => None,
        };
        [Some(self.symbol.as_str()), workspace]
            .into_iter()
            .flatten()
    }
}

/// The meaning of an argument. Names of tensors and numbers are those that the operation declares.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// `{"tensor": NAME}`: an operand, which is read. Null if it is absent.
    Tensor(String),
    /// `{"number": NAME}`: a number of the call, such as `eps`. Null if it is absent.
    Number(String),
    /// `{"result": NAME}`: a result, which `forward` writes and `backward` reads.
    Result(String),
    /// `{"saved": NAME}`: what `forward` writes for `backward`, which reads it.
    Saved(String),
    /// `{"gradient": NAME}`, only in `backward`: the gradient of a result, which is read.
    Gradient(String),
    /// `{"gradient_of": NAME}`, only in `backward`: the gradient of an operand, which is written. Null if nobody
    /// wants it.
    GradientOf(String),
    /// `{"constant": VALUE}`: null, a bool, a number or text. `0` is an integer and `0.0` a float.
    Constant(Constant),
    /// `{"stream": true}`: the stream of an NPU. Without it, the function takes that of TVM-FFI's environment.
    Stream,
    /// `{"workspace": true}`: memory of an NPU of as many bytes as `workspace` says. Null if these are 0.
    Workspace,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// Nothing.
    Null,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Text without zeros.
    Text(String),
}

/// The bytes of memory that a function wants beside its tensors.
#[derive(Clone, Debug, PartialEq)]
pub enum Workspace {
    /// So many.
    Bytes(u64),
    /// As many as this function returns.
    Symbol(String),
}

/// Reads the file. `npu` says that the variant is for NPUs.
///
/// # Errors
/// Returns what is wrong with which field.
pub fn read(json: &[u8], npu: bool) -> Result<Vec<Binding>, String> {
    let root = parse(json)?;
    let fields = Fields::of(&root, "the file", &["format", "bindings"])?;
    let format = fields.count("format")?;
    if format != FORMAT {
        return Err(format!(
            "format {format} is not supported: this release reads format {FORMAT}"
        ));
    }
    let list = fields.list("bindings", MOST_BINDINGS)?;
    let mut bindings = Vec::<Binding>::with_capacity(list.len());
    for (i, value) in list.iter().enumerate() {
        let place = format!("bindings[{i}]");
        let binding = read_binding(value, &place, npu)?;
        let same = |other: &&Binding| {
            other.semantics == binding.semantics
                && other
                    .dtypes
                    .iter()
                    .any(|dtype| binding.dtypes.contains(dtype))
        };
        if let Some(other) = bindings.iter().find(same) {
            return Err(format!(
                "{place}: `{}` is bound to these semantics in one of these dtypes already",
                other.forward.symbol
            ));
        }
        bindings.push(binding);
    }
    Ok(bindings)
}

fn read_binding(value: &Value, place: &str, npu: bool) -> Result<Binding, String> {
    const KNOWN: &[&str] = &[
        "symbol",
        "semantics",
        "dtypes",
        "arguments",
        "backward",
        "workspace",
    ];
    let fields = Fields::of(value, place, KNOWN)?;
    let key = fields.required("semantics")?;
    let operation = key["op"].as_str().filter(|op| is_word(op)).ok_or_else(|| {
        format!(
            "{}: an object with the operation as `op` is expected",
            fields.place("semantics")
        )
    })?;
    let sorted: BTreeMap<_, _> = key.as_object().into_iter().flatten().collect();
    let semantics = serde_json::to_string(&sorted).expect("JSON that was read");
    if semantics.len() > LONGEST_KEY {
        return Err(format!(
            "{}: the key is too long",
            fields.place("semantics")
        ));
    }
    let forward = read_call(&fields, false, npu)?;
    let backward = match fields.required("backward")? {
        Value::String(word) if word == "reference" => None,
        value @ Value::Object(_) => {
            let place = fields.place("backward");
            let fields = Fields::of(value, &place, &["symbol", "arguments", "workspace"])?;
            let call = read_call(&fields, true, npu)?;
            goes_with(&call, &forward).map_err(|problem| format!("{place}: {problem}"))?;
            Some(call)
        }
        _ => {
            return Err(format!(
                "{}: \"reference\" or an object with a function is expected",
                fields.place("backward")
            ));
        }
    };
    Ok(Binding {
        operation: operation.into(),
        semantics,
        dtypes: read_dtypes(&fields)?,
        forward,
        backward,
    })
}

fn read_dtypes(fields: &Fields<'_>) -> Result<Vec<String>, String> {
    const KNOWN: &[&str] = &["f32", "bf16", "f16", "f64"];
    let place = fields.place("dtypes");
    let mut dtypes = Vec::new();
    for value in fields.list("dtypes", KNOWN.len())? {
        let text = value.as_str().unwrap_or_default();
        if !KNOWN.contains(&text) {
            return Err(format!(
                "{place}: {}",
                unknown("dtype", &shown(value), KNOWN)
            ));
        }
        if dtypes.iter().any(|dtype| dtype == text) {
            return Err(format!("{place}: `{text}` is there twice"));
        }
        dtypes.push(text.to_owned());
    }
    match dtypes.is_empty() {
        true => Err(format!("{place}: the list is empty")),
        false => Ok(dtypes),
    }
}

fn read_call(fields: &Fields<'_>, backward: bool, npu: bool) -> Result<Call, String> {
    let symbol = symbol(fields, "symbol")?;
    let list = fields.list("arguments", MOST_ARGUMENTS)?;
    let mut arguments = Vec::with_capacity(list.len());
    for (i, value) in list.iter().enumerate() {
        let place = format!("{}[{i}]", fields.place("arguments"));
        let part = read_part(value, &place, backward)?;
        if !npu && matches!(part, Part::Stream | Part::Workspace) {
            return Err(format!(
                "{place}: only variants for NPUs have streams and workspaces"
            ));
        }
        // A constant may be there twice, a name may not: the function would read and write one tensor.
        if !matches!(part, Part::Constant(_) | Part::Number(_)) && arguments.contains(&part) {
            return Err(format!("{place}: this argument is there already"));
        }
        arguments.push(part);
    }
    let place = fields.place("workspace");
    let workspace = match (
        fields.optional("workspace"),
        arguments.contains(&Part::Workspace),
    ) {
        (None, false) => None,
        (Some(value), true) => Some(read_workspace(value, &place)?),
        (Some(_), false) => {
            return Err(format!(
                "{place}: the function has no argument {{\"workspace\": true}}"
            ));
        }
        (None, true) => {
            return Err(format!(
                "{place}: the field is missing: how many bytes does the function want?"
            ));
        }
    };
    Ok(Call {
        symbol,
        arguments,
        workspace,
    })
}

fn read_workspace(value: &Value, place: &str) -> Result<Workspace, String> {
    let fields = Fields::of(value, place, &["bytes", "symbol"])?;
    match (fields.optional("bytes"), fields.optional("symbol")) {
        (Some(_), None) => Ok(Workspace::Bytes(fields.count("bytes")?)),
        (None, Some(_)) => Ok(Workspace::Symbol(symbol(&fields, "symbol")?)),
        _ => Err(format!("{place}: one of `bytes` and `symbol` is expected")),
    }
}

/// The kinds of arguments, in the order of [`Part`].
const KINDS: &[&str] = &[
    "tensor",
    "number",
    "result",
    "saved",
    "gradient",
    "gradient_of",
    "constant",
    "stream",
    "workspace",
];

fn read_part(value: &Value, place: &str, backward: bool) -> Result<Part, String> {
    Fields::of(value, place, KINDS)?;
    let mut fields = value.as_object().into_iter().flatten();
    let (Some((kind, value)), None) = (fields.next(), fields.next()) else {
        return Err(format!(
            "{place}: an object with one field is expected, one of {}",
            KINDS.join(", ")
        ));
    };
    let named = |part: fn(String) -> Part| match value.as_str() {
        Some(name) if is_word(name) => Ok(part(name.to_owned())),
        _ => Err(format!(
            "{place}.{kind}: a name of lower-case letters, digits and _ is expected, and not {}",
            shown(value)
        )),
    };
    let flag = |part| match value {
        Value::Bool(true) => Ok(part),
        _ => Err(format!("{place}.{kind}: true is expected")),
    };
    match kind.as_str() {
        "tensor" => named(Part::Tensor),
        "number" => named(Part::Number),
        "result" => named(Part::Result),
        "saved" => named(Part::Saved),
        "gradient" | "gradient_of" if !backward => {
            Err(format!("{place}: only the backward function has gradients"))
        }
        "gradient" => named(Part::Gradient),
        "gradient_of" => named(Part::GradientOf),
        "constant" => read_constant(value, place).map(Part::Constant),
        "stream" => flag(Part::Stream),
        _ => flag(Part::Workspace),
    }
}

fn read_constant(value: &Value, place: &str) -> Result<Constant, String> {
    let wrong = |what: &str| Err(format!("{place}.constant: {what}"));
    match value {
        Value::Null => Ok(Constant::Null),
        Value::Bool(value) => Ok(Constant::Bool(*value)),
        Value::Number(number) => match (number.as_i64(), number.is_f64(), number.as_f64()) {
            (Some(value), ..) => Ok(Constant::Int(value)),
            (None, true, Some(value)) => Ok(Constant::Float(value)),
            _ => wrong("the number does not fit an integer of 64 bits"),
        },
        Value::String(text) if text.len() > LONGEST_TEXT || text.contains('\0') => {
            wrong("text of at most 256 bytes without zeros is expected")
        }
        Value::String(text) => Ok(Constant::Text(text.clone())),
        _ => wrong("null, a bool, a number or text is expected"),
    }
}

/// Checks that the forward function reads and writes what the backward function needs.
fn goes_with(backward: &Call, forward: &Call) -> Result<(), String> {
    let has = |part: Part| forward.arguments.contains(&part);
    let mut written = false;
    for part in &backward.arguments {
        let (fits, name) = match part {
            Part::Tensor(name) => (has(part.clone()), name),
            Part::Result(name) | Part::Saved(name) => (has(part.clone()), name),
            Part::Gradient(name) => (has(Part::Result(name.clone())), name),
            Part::GradientOf(name) => {
                written = true;
                (has(Part::Tensor(name.clone())), name)
            }
            _ => continue,
        };
        if !fits {
            return Err(format!("the forward function has no argument for `{name}`"));
        }
    }
    match written {
        true => Ok(()),
        false => Err("the function writes no gradient: it has no argument `gradient_of`".into()),
    }
}

fn symbol(fields: &Fields<'_>, name: &str) -> Result<String, String> {
    let text = fields.text(name)?;
    let of_symbol = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    match (1..=128).contains(&text.len()) && text.bytes().all(of_symbol) {
        true => Ok(text.into()),
        false => Err(format!(
            "{}: `{}` is not the name of a function: letters, digits and _",
            fields.place(name),
            crate::metadata::short(text)
        )),
    }
}

/// Returns `true` for a name of an operation, a tensor or a number.
fn is_word(text: &str) -> bool {
    let of_word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    (1..=64).contains(&text.len())
        && text.bytes().all(of_word)
        && text.as_bytes()[0].is_ascii_lowercase()
}

fn shown(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    crate::metadata::short(&text).into_owned()
}
