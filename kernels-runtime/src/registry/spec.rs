use crate::semantics::SemanticsKey;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// The description of a site, as far as the attribute knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteSpec {
    /// The id of the kernel that the attribute names.
    pub kernel: &'static str,
    /// The annotated item inside its module, such as `LlamaMlp::forward`.
    pub item: &'static str,
    /// The module path.
    pub module: &'static str,
    /// The package that contains the site.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// The version of that package.
    pub crate_version: &'static str,
    /// The path of the source file, as the compiler received it.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The form of the attribute.
    pub form: Form,
    /// The semantics of the site's computation.
    pub key: SemanticsKey,
    /// The layer name that mappings use, from `layer = "…"`.
    pub layer: Option<&'static str>,
    /// The condition under which the kernel may run, as written in `when = …`.
    pub condition: Option<&'static str>,
}

impl SiteSpec {
    /// Returns the full name, such as `my_crate::model::LlamaMlp::forward`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.module, self.item)
    }
}

/// The reason why the record of a site gives no [`SiteSpec`].
#[derive(Clone, PartialEq, Eq, Error)]
pub enum SiteRecordError {
    /// A field that is missing or has another type.
    #[error("its record has no `{0}`")]
    Field(&'static str),
    /// Semantics that this release does not know.
    #[error("this release does not know its semantics")]
    Semantics,
}

impl SiteSpec {
    /// Reads the spec from the JSON of a site's record. Its texts stay in memory until the program ends.
    ///
    /// # Errors
    /// Returns an error if a field is missing or the semantics are not known, as in a record of another release.
    pub fn from_record(json: &Value) -> Result<Self, SiteRecordError> {
        let text = |field| {
            let text = json[field].as_str().ok_or(SiteRecordError::Field(field))?;
            Ok(&*text.to_owned().leak())
        };
        let line = json["line"]
            .as_u64()
            .and_then(|line| u32::try_from(line).ok());
        let form = Form::ALL
            .into_iter()
            .find(|form| json["form"] == form.name());
        Ok(Self {
            kernel: text("kernel")?,
            item: text("item")?,
            module: text("module")?,
            krate: text("crate")?,
            crate_version: text("crate_version")?,
            file: text("file")?,
            line: line.ok_or(SiteRecordError::Field("line"))?,
            form: form.ok_or(SiteRecordError::Field("form"))?,
            key: SemanticsKey::from_json(&json["key"]).ok_or(SiteRecordError::Semantics)?,
            // Records of schema 1 have no layer.
            layer: text("layer").ok(),
            // Records before schema 3 have no condition.
            condition: text("condition").ok(),
        })
    }
}

/// The kind of item that carries the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A struct, whose `forward` the attribute writes.
    Struct,
    /// An impl block, one of whose methods is the reference.
    Impl,
    /// A method inside an impl block.
    Method,
    /// A free function.
    Function,
}

impl Form {
    const ALL: [Self; 4] = [Self::Struct, Self::Impl, Self::Method, Self::Function];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Impl => "impl",
            Self::Method => "method",
            Self::Function => "function",
        }
    }
}
