//! `quantization_config` of a `config.json`: the encoding of a checkpoint's weights.

use std::fmt;

use serde_json::{Map, Value};

use crate::encodings::{awq, bnb_4bit, bnb_int8, compressed_tensors, fp8_blocks, gptq};
use crate::{Encoding, Mxfp4};

/// The encoding of a checkpoint's weights, as `quantization_config` states it.
///
/// All quantised layers of a checkpoint have one encoding. Which layers these are follows from the file: those with the
/// first of the encoding's [parts](Encoding::part_names).
#[derive(Debug, Clone, PartialEq)]
pub struct QuantConfig {
    /// The encoding.
    pub encoding: Encoding,
    /// Sentences about settings that don't concern the weights and that a decoded model ignores.
    pub remarks: Vec<String>,
    /// The layers that stay floats, if the configuration lists them.
    pub left_out: Option<LeftOut>,
}

/// The list of layers that a package did not quantise. Each package has its own rules for what an entry means: a layer's name
/// or a part of it, or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The field of the list.
    pub field: &'static str,
    /// Its entries.
    pub entries: Vec<String>,
}

/// The reason why a `quantization_config` is not read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("field `{field}`: {problem}")]
pub struct ConfigError {
    /// The path of the field in `quantization_config`, empty for the whole.
    pub field: String,
    /// The mistake, with text of the file escaped.
    pub problem: String,
}

impl QuantConfig {
    /// Reads a `quantization_config`.
    ///
    /// # Errors
    ///
    /// Returns an error if the method or one of its settings is not supported, or if a field has another type. A list of layers
    /// that has another type is a remark.
    pub fn parse(config: &Value) -> Result<Self, ConfigError> {
        let Some(object) = config.as_object() else {
            return Err(ConfigError {
                field: String::new(),
                problem: "expected an object".into(),
            });
        };
        let fields = Fields::new("", object);
        // Old files of bitsandbytes name no method.
        let usual = match object.keys().any(|key| key.starts_with("load_in_")) {
            true => "bitsandbytes",
            false => "",
        };
        let mut remarks = Vec::new();
        let method = fields.text("quant_method", usual)?;
        let encoding = match method {
            "bitsandbytes" if fields.flag("load_in_8bit")? => bnb_int8::of_config(fields)?,
            "bitsandbytes" => bnb_4bit::of_config(fields)?,
            "gptq" => gptq::of_config(fields)?,
            "awq" => awq::of_config(fields)?,
            "compressed-tensors" => compressed_tensors::of_config(fields, &mut remarks)?,
            "fp8" => fp8_blocks::of_config(fields, &mut remarks)?,
            "mxfp4" => Mxfp4.into(),
            other => {
                let supported = "bitsandbytes, gptq, awq, compressed-tensors, fp8 and mxfp4";
                let problem = format!("{other:?} is not supported; supported: {supported}");
                return Err(fields.error("quant_method", problem));
            }
        };
        let field = match method {
            "bitsandbytes" => "llm_int8_skip_modules",
            "compressed-tensors" => "ignore",
            _ => "modules_to_not_convert",
        };
        let left_out = match fields.texts(field) {
            Ok(entries) => entries.map(|entries| LeftOut { field, entries }),
            // The files themselves show which layers are quantised.
            Err(error) => {
                remarks.push(format!("{error}, so it is ignored"));
                None
            }
        };
        Ok(Self {
            encoding,
            remarks,
            left_out,
        })
    }
}

/// The remark on inputs that other programs round.
pub(crate) fn inputs_stay(what: impl fmt::Display) -> String {
    stays("inputs", what)
}

/// The remark on outputs that other programs round.
pub(crate) fn outputs_stay(what: impl fmt::Display) -> String {
    stays("outputs", what)
}

fn stays(which: &str, what: impl fmt::Display) -> String {
    format!("{which} of quantised layers are not rounded, though the configuration has {what}")
}

/// The fields of an object. A null is an absent field.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    /// The path of the object, with a dot at the end.
    path: &'a str,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(path: &'a str, object: &'a Map<String, Value>) -> Self {
        Self { path, object }
    }

    pub(crate) fn error(self, name: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError {
            field: format!("{}{name}", self.path),
            problem: problem.into(),
        }
    }

    /// Returns the path of a field that is an object, with a dot at the end.
    pub(crate) fn path_of(self, name: &str) -> String {
        format!("{}{name}.", self.path)
    }

    pub(crate) fn value(self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(
        self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let wrong = || self.error(name, format!("expected {expected}"));
        self.value(name)
            .map(|value| read(value).ok_or_else(wrong))
            .transpose()
    }

    pub(crate) fn text(self, name: &str, usual: &'a str) -> Result<&'a str, ConfigError> {
        Ok(self.read(name, "a text", Value::as_str)?.unwrap_or(usual))
    }

    fn texts(self, name: &str) -> Result<Option<Vec<String>>, ConfigError> {
        self.read(name, "a list of texts", |value| {
            let texts = value.as_array()?.iter();
            texts.map(|text| text.as_str().map(str::to_owned)).collect()
        })
    }

    pub(crate) fn flag(self, name: &str) -> Result<bool, ConfigError> {
        Ok(self
            .read(name, "true or false", Value::as_bool)?
            .unwrap_or(false))
    }

    pub(crate) fn object(self, name: &str) -> Result<Option<&'a Map<String, Value>>, ConfigError> {
        self.read(name, "an object", Value::as_object)
    }

    /// Reads a number of bits.
    pub(crate) fn bits(self, name: &str) -> Result<u32, ConfigError> {
        let bits = self.read(name, "a number of bits", |value| {
            value.as_u64()?.try_into().ok()
        })?;
        bits.ok_or_else(|| self.error(name, "missing"))
    }

    /// Reads the number of columns of a group. −1 is `None`: one group.
    pub(crate) fn group(self, name: &str) -> Result<Option<usize>, ConfigError> {
        let size = |value: &Value| match value.as_i64() {
            Some(-1) => Some(None),
            Some(size @ 1..) => usize::try_from(size).ok().map(Some),
            _ => None,
        };
        let size = self.read(name, "a number of columns, or -1", size)?;
        size.ok_or_else(|| self.error(name, "missing"))
    }

    /// Reads the numbers of rows and columns of a rectangle.
    pub(crate) fn rectangle(self, name: &str) -> Result<[usize; 2], ConfigError> {
        let sides = |value: &Value| {
            let sides: Option<Vec<usize>> = (value.as_array()?.iter())
                .map(|side| {
                    side.as_u64()?
                        .try_into()
                        .ok()
                        .filter(|&side: &usize| side > 0)
                })
                .collect();
            sides?.try_into().ok()
        };
        let sides = self.read(name, "numbers of rows and of columns", sides)?;
        sides.ok_or_else(|| self.error(name, "missing"))
    }

    /// Refuses an unsupported text. An absent one is the first supported one.
    pub(crate) fn one_of(
        self,
        name: &str,
        supported: &[&'static str],
    ) -> Result<&'static str, ConfigError> {
        let found = self.text(name, supported[0])?;
        let is = |own: &&&str| own.eq_ignore_ascii_case(found);
        supported.iter().find(is).copied().ok_or_else(|| {
            let supported = supported.join(" or ");
            self.error(
                name,
                format!("{found:?} is not supported; supported: {supported}"),
            )
        })
    }

    /// Refuses a field that is there and neither false nor empty.
    pub(crate) fn refuse(self, name: &str, why: &str) -> Result<(), ConfigError> {
        let nothing = match self.value(name) {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Object(object)) => object.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(_) => false,
        };
        match nothing {
            true => Ok(()),
            false => Err(self.error(name, format!("is not supported: it {why}"))),
        }
    }
}
