use crate::semantics::SemanticsKey;
use serde::Serialize;

/// An annotated place, as far as the attribute knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteSpec {
    /// The kernel id that the attribute names.
    pub kernel: &'static str,
    /// The annotated item inside its module, such as `LlamaMlp::forward`.
    pub item: &'static str,
    /// The module path.
    pub module: &'static str,
    /// The package that contains the site.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// That package's version.
    pub crate_version: &'static str,
    /// The source file, as the compiler was given it.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The form of the attribute.
    pub form: Form,
    /// The semantics that the site computes.
    pub key: SemanticsKey,
    /// The layer name that mappings know it by, from `layer = "…"`.
    pub layer: Option<&'static str>,
}

impl SiteSpec {
    /// The full name, such as `my_crate::model::LlamaMlp::forward`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.module, self.item)
    }
}

/// The kind of item that carries the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A struct: `forward` is written by the attribute.
    Struct,
    /// An impl block: one of its methods is the reference.
    Impl,
    /// A method inside an impl block.
    Method,
    /// A free function.
    Function,
}

impl Form {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Impl => "impl",
            Self::Method => "method",
            Self::Function => "function",
        }
    }
}
