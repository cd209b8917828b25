//! `quantization_config`: the encoding of quantised weights.

use std::path::Path;

use kernels_quant::{ConfigError, Mxfp4, QuantConfig};
use serde_json::{Map, Value};

use super::family::Family;
use super::fields::Fields;
use crate::{ModelConfig, ModelError};

pub(super) const FIELD: &str = "quantization_config";

/// Reads the encoding of a checkpoint's weights, if it has one.
pub(super) fn parse(
    fields: Fields<'_>,
    family: &Family,
) -> Result<Option<QuantConfig>, ModelError> {
    let Some(value) = fields.value(FIELD) else {
        return Ok(None);
    };
    let wrong = |ConfigError { field, problem }: ConfigError| match field.as_str() {
        "" => fields.error(FIELD, problem),
        inner => fields.error(&format!("{FIELD}.{inner}"), problem),
    };
    let config = QuantConfig::parse(value).map_err(wrong)?;
    let stacks = family.experts.is_some_and(|experts| experts.files.mxfp4);
    if config.encoding == Mxfp4.into() && !stacks {
        return Err(wrong(ConfigError {
            field: "quant_method".into(),
            problem: "mxfp4 is only supported for the experts of gpt-oss".into(),
        }));
    }
    Ok(Some(config))
}

/// Refuses an encoding inside of the text model's object, which `transformers` does not look for there.
pub(super) fn refuse_inside(text: Fields<'_>) -> Result<(), ModelError> {
    match text.value(FIELD) {
        None => Ok(()),
        Some(_) => {
            let problem = "says that the weights are quantised; expected beside `text_config`";
            Err(text.error(FIELD, problem))
        }
    }
}

impl ModelConfig {
    /// Reads the encoding of weights from the fields that the configuration was read from.
    pub(crate) fn quantisation(
        &self,
        fields: &Map<String, Value>,
        origin: &Path,
    ) -> Result<Option<QuantConfig>, ModelError> {
        parse(Fields::new(origin, "", fields), self.family())
    }
}
