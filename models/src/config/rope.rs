//! Settings of rotary positions, in the spelling of `transformers` 4 and 5.

use serde_json::{Map, Value, json};

use super::fields::Fields;
use crate::ModelError;

/// Settings of rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies: pair `i` of a head of width `d` rotates by `theta^(-2i/d)` radians per position.
    pub theta: f64,
    /// Scaling of the frequencies for longer contexts.
    pub scaling: RopeScaling,
}

impl Default for RopeConfig {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            scaling: RopeScaling::Default,
        }
    }
}

/// The scaling of rotary frequencies for contexts longer than those of the first training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    Default,
    /// Division of every frequency by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3.1's scaling: long wavelengths are divided by `factor`, short ones kept, and those between interpolated.
    Llama3 {
        /// The divisor of the frequencies of long wavelengths.
        factor: f64,
        /// The factor of long wavelengths: those above `original_max_position_embeddings / low_freq_factor`.
        low_freq_factor: f64,
        /// The factor of short wavelengths: those below `original_max_position_embeddings / high_freq_factor`.
        high_freq_factor: f64,
        /// Context length of the first training, in tokens.
        original_max_position_embeddings: usize,
    },
}

impl RopeConfig {
    /// Reads `rope_parameters`, or `rope_theta` with `rope_scaling`, or both if they agree. `default` is the base if
    /// the file names none.
    pub(super) fn parse(fields: Fields<'_>, default: f64) -> Result<Self, ModelError> {
        let theta = fields.positive("rope_theta")?;
        let new = fields.object("rope_parameters")?;
        let old = fields.object("rope_scaling")?;
        let (name, object) = match (new, old) {
            (None, None) => {
                return Ok(Self {
                    theta: theta.unwrap_or(default),
                    ..Self::default()
                });
            }
            (Some(object), _) => ("rope_parameters", object),
            (None, Some(object)) => ("rope_scaling", object),
        };
        let prefix = format!("{name}.");
        let fields_of = |prefix, object| Fields::new(fields.origin(), prefix, object);
        let rope = Self::parse_object(fields_of(&prefix, object), theta, default)?;
        if new.is_some()
            && let Some(old) = old
        {
            let other = Self::parse_object(fields_of("rope_scaling.", old), theta, default)?;
            if other.scaling != rope.scaling {
                return Err(fields.error(
                    "rope_scaling",
                    "contradicts `rope_parameters`; keep one of them",
                ));
            }
        }
        Ok(rope)
    }

    fn parse_object(
        fields: Fields<'_>,
        outer_theta: Option<f64>,
        default_theta: f64,
    ) -> Result<Self, ModelError> {
        let scaling = RopeScaling::parse(fields)?;
        let inner_theta = fields.positive("rope_theta")?;
        if let (Some(inner), Some(outer)) = (inner_theta, outer_theta)
            && inner != outer
        {
            let problem = format!("{inner} contradicts the outer `rope_theta`, which is {outer}");
            return Err(fields.error("rope_theta", problem));
        }
        let theta = inner_theta.or(outer_theta).unwrap_or(default_theta);
        Ok(Self { theta, scaling })
    }

    /// Returns the object that `transformers` 5 calls `rope_parameters`.
    pub(super) fn parameters(&self) -> Value {
        let mut object = self.scaling.to_object();
        object.insert("rope_theta".into(), json!(self.theta));
        Value::Object(object)
    }

    /// Returns the object that `transformers` 4 calls `rope_scaling`, or `null` without scaling.
    pub(super) fn legacy_scaling(&self) -> Value {
        match self.scaling {
            RopeScaling::Default => Value::Null,
            scaling => Value::Object(scaling.to_object()),
        }
    }
}

impl RopeScaling {
    fn parse(fields: Fields<'_>) -> Result<Self, ModelError> {
        let kind = match (fields.string("rope_type")?, fields.string("type")?) {
            (Some(new), Some(old)) if new != old => {
                let problem = format!("`{old}` contradicts `rope_type`, which is `{new}`");
                return Err(fields.error("type", problem));
            }
            (new, old) => new.or(old).unwrap_or("default"),
        };
        let scaling = match kind {
            "default" => Self::Default,
            "linear" => Self::Linear {
                factor: factor(fields)?,
            },
            "llama3" => Self::parse_llama3(fields)?,
            other => {
                let problem =
                    format!("`{other}` is not supported; supported are default, linear, llama3");
                return Err(fields.error("rope_type", problem));
            }
        };
        scaling.refuse_foreign(fields)?;
        Ok(scaling)
    }

    fn parse_llama3(fields: Fields<'_>) -> Result<Self, ModelError> {
        let number = |name| fields.required(name, fields.positive(name)?);
        let low_freq_factor = number("low_freq_factor")?;
        let high_freq_factor = number("high_freq_factor")?;
        if high_freq_factor <= low_freq_factor {
            let problem = format!(
                "{high_freq_factor} must be above `low_freq_factor`, which is {low_freq_factor}"
            );
            return Err(fields.error("high_freq_factor", problem));
        }
        let original = "original_max_position_embeddings";
        Ok(Self::Llama3 {
            factor: factor(fields)?,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings: fields.required(original, fields.size(original)?)?,
        })
    }

    /// Refuses settings of another kind of scaling. They would have no effect, while their author expects one.
    fn refuse_foreign(&self, fields: Fields<'_>) -> Result<(), ModelError> {
        let own: &[&str] = match self {
            Self::Default => &[],
            Self::Linear { .. } => &["factor"],
            Self::Llama3 { .. } => &[
                "factor",
                "low_freq_factor",
                "high_freq_factor",
                "original_max_position_embeddings",
            ],
        };
        for name in fields.names() {
            let common = ["rope_type", "type", "rope_theta"].contains(&name.as_str());
            if common || own.contains(&name.as_str()) || fields.value(name).is_none() {
                continue;
            }
            if name == "partial_rotary_factor" && fields.number(name)? == Some(1.0) {
                continue;
            }
            let problem = format!("not supported with rope_type `{}`", self.kind());
            return Err(fields.error(name, problem));
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Linear { .. } => "linear",
            Self::Llama3 { .. } => "llama3",
        }
    }

    fn to_object(self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("rope_type".into(), json!(self.kind()));
        match self {
            Self::Default => {}
            Self::Linear { factor } => {
                object.insert("factor".into(), json!(factor));
            }
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                object.insert("factor".into(), json!(factor));
                object.insert("low_freq_factor".into(), json!(low_freq_factor));
                object.insert("high_freq_factor".into(), json!(high_freq_factor));
                object.insert(
                    "original_max_position_embeddings".into(),
                    json!(original_max_position_embeddings),
                );
            }
        }
        object
    }
}

fn factor(fields: Fields<'_>) -> Result<f64, ModelError> {
    fields.required("factor", fields.positive("factor")?)
}
