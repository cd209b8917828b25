use crate::semantics::SemanticsKey;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use thiserror::Error;

/// The description of a site, as far as the attribute knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteSpec {
    /// The id of the kernel that the attribute names.
    pub kernel: &'static str,
    /// The annotated item inside its module, such as `LlamaMlp::forward`, as far as the attribute sees it. The type of an
    /// annotated method is read from its source file. Where that can't be, as in the expansion of a macro,
    /// [`SiteSpec::item_in_type`] has it.
    pub item: &'static str,
    /// Returns the path of an item inside the annotated method, which names the type. Present only if `item` has no type.
    #[serde(skip)]
    pub path: Option<PathInside>,
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
        format!("{}::{}", self.module, self.item_in_type())
    }

    /// Returns the annotated item with its type, such as `LlamaMlp::forward`.
    pub fn item_in_type(&self) -> Cow<'static, str> {
        match self.path.and_then(|path| type_of((path.0)(), self.item)) {
            Some(type_name) => format!("{type_name}::{}", self.item).into(),
            None => self.item.into(),
        }
    }
}

/// Returns the last name of the type from the compiler's path of something inside its method, such as `Mixer` from
/// `my_crate::Mixer<_>::attend::SITE::here` and `Norm` from `<my_crate::Norm as my_crate::Layer>::norm::SITE::here`.
fn type_of<'a>(path: &'a str, method: &str) -> Option<&'a str> {
    let (within, _) = path.rsplit_once("::SITE")?;
    let owner = within.strip_suffix(method)?.strip_suffix("::")?;
    let owner = match owner.strip_prefix('<') {
        Some(of_trait) => of_trait.rsplit_once(" as ")?.0,
        None => owner,
    };
    let name = owner.split('<').next()?.rsplit("::").next()?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

/// A function that returns the path of an item inside an annotated method.
#[derive(Clone, Copy, Debug)]
pub struct PathInside(pub fn() -> &'static str);

impl PartialEq for PathInside {
    fn eq(&self, other: &Self) -> bool {
        (self.0)() == (other.0)()
    }
}

impl Eq for PathInside {}

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
            path: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_the_last_name_of_its_type() {
        for (path, expected) in [
            (
                "a::m::Mixer::attend::SITE::{{closure}}::here",
                Some("Mixer"),
            ),
            ("a::m::Mixer<_>::attend::SITE::here", Some("Mixer")),
            (
                "a::m::Mixer<a::b::C<u8>, _>::attend::SITE::here",
                Some("Mixer"),
            ),
            (
                "<a::m::Mixer as a::m::Layer>::attend::SITE::here",
                Some("Mixer"),
            ),
            (
                "<std::vec::Vec<a::Mixer> as a::Layer<u8>>::attend::SITE::here",
                Some("Vec"),
            ),
            ("a::f::Mixer::attend::SITE::here", Some("Mixer")),
            ("<[a::Mixer] as a::Layer>::attend::SITE::here", None),
            ("somewhere", None),
        ] {
            assert_eq!(type_of(path, "attend"), expected, "{path}");
        }
    }
}
