//! Parts of checkpoints that hold several models.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::fields::brief;
use super::quantisation;
use crate::ModelError;

/// A part of a checkpoint of one of Qwen's Omni models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OmniPart {
    /// The text model, from text to text.
    Thinker,
    /// The model of the first code of each frame of sound.
    Talker,
    /// The model of the other codes of a frame (Qwen3-Omni).
    CodePredictor,
    /// The transformer of the vocoder (Qwen3-Omni), whose convolutions are not built.
    Code2Wav,
}

impl OmniPart {
    /// Every part.
    pub const ALL: [Self; 4] = [
        Self::Thinker,
        Self::Talker,
        Self::CodePredictor,
        Self::Code2Wav,
    ];

    /// Returns the name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thinker => "thinker",
            Self::Talker => "talker",
            Self::CodePredictor => "code-predictor",
            Self::Code2Wav => "code2wav",
        }
    }
}

/// A checkpoint that holds several models.
pub(crate) struct Whole {
    /// The class names, as in `architectures`.
    pub(crate) classes: &'static [&'static str],
    /// The `model_type`. Empty if the file does not name it.
    pub(crate) model_type: &'static str,
    /// The supported parts, the usual one first.
    pub(crate) parts: &'static [PartOf],
    /// The part that the checkpoint itself is, if it is not only a collection of others.
    pub(crate) itself: Option<OmniPart>,
}

/// A part of a checkpoint.
pub(crate) struct PartOf {
    pub(crate) part: OmniPart,
    /// The class name of the part alone.
    pub(crate) class: &'static str,
    /// The objects in `config.json` that lead to the part's, each followed by a dot.
    pub(crate) object: &'static str,
    /// The start of the names of its tensors.
    pub(crate) tensors: &'static str,
}

/// The configuration of a part, as if it stood alone.
pub(crate) struct Chosen {
    pub(crate) of: &'static PartOf,
    pub(crate) fields: Map<String, Value>,
}

impl Whole {
    /// Returns `true` for the fields of such a checkpoint.
    pub(crate) fn is(&self, fields: &Map<String, Value>) -> bool {
        let classes = fields.get("architectures").and_then(Value::as_array);
        match classes.filter(|classes| !classes.is_empty()) {
            Some(classes) => classes
                .iter()
                .filter_map(Value::as_str)
                .any(|class| self.classes.contains(&class)),
            None => {
                let model_type = fields.get("model_type").and_then(Value::as_str);
                !self.model_type.is_empty() && model_type == Some(self.model_type)
            }
        }
    }

    /// Returns the configuration of a part, by default the usual one. Returns `None` if the checkpoint itself is that
    /// part.
    pub(crate) fn choose(
        &self,
        fields: &Map<String, Value>,
        origin: &Path,
        part: Option<OmniPart>,
    ) -> Result<Option<Chosen>, ModelError> {
        if self.itself.is_some() && part.is_none_or(|part| self.itself == Some(part)) {
            return Ok(None);
        }
        let wanted = |own: &&PartOf| part.is_none_or(|part| part == own.part);
        let Some(of) = self.parts.iter().find(wanted) else {
            let built: Vec<&str> = self.parts.iter().map(|own| own.part.name()).collect();
            let problem = format!(
                "{} has no {} that is supported; name one of its parts ({}), or the checkpoint of the whole",
                self.classes[0],
                part.map_or("part", OmniPart::name),
                built.join(", ")
            );
            return Err(ModelError::field(origin, "architectures", problem));
        };
        let object = of.object(fields, origin)?;
        let fields = of.alone(object, fields, origin)?;
        Ok(Some(Chosen { of, fields }))
    }
}

impl PartOf {
    /// Returns the object of the part.
    fn object<'a>(
        &self,
        mut fields: &'a Map<String, Value>,
        origin: &Path,
    ) -> Result<&'a Map<String, Value>, ModelError> {
        let mut path = String::new();
        for name in self.object.split_terminator('.') {
            path += name;
            let problem = match fields.get(name).filter(|value| !value.is_null()) {
                Some(Value::Object(inner)) => {
                    fields = inner;
                    path.push('.');
                    continue;
                }
                Some(other) => format!("expected an object, found {}", brief(other)),
                None => format!(
                    "missing: it describes the {}; name a checkpoint that has it, or another part",
                    self.part.name()
                ),
            };
            return Err(ModelError::field(origin, path, problem));
        }
        Ok(fields)
    }

    /// Returns the fields of the part as it writes them alone. Settings of the whole for all weights hold for it, too.
    fn alone(
        &self,
        object: &Map<String, Value>,
        whole: &Map<String, Value>,
        origin: &Path,
    ) -> Result<Map<String, Value>, ModelError> {
        let mut fields = object.clone();
        let named = |fields: &Map<String, Value>, name: &str| {
            fields.get(name).is_some_and(|value| !value.is_null())
        };
        if !self.object.is_empty() && named(&fields, quantisation::FIELD) {
            let problem = "says that the weights are quantised; expected in the outermost object";
            let name = format!("{}{}", self.object, quantisation::FIELD);
            return Err(ModelError::field(origin, name, problem));
        }
        let inherited: &[&str] = match named(&fields, "dtype") || named(&fields, "torch_dtype") {
            true => &[quantisation::FIELD],
            false => &[quantisation::FIELD, "dtype", "torch_dtype"],
        };
        for name in inherited {
            if let Some(value) = whole.get(*name) {
                fields.insert((*name).to_owned(), value.clone());
            }
        }
        fields.insert("architectures".to_owned(), json!([self.class]));
        Ok(fields)
    }
}
