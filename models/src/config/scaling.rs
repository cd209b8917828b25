//! The scaling of rotary frequencies, in the spelling of `transformers` 4 and 5.

use serde_json::{Map, Value, json};

use super::family::Positions;
use super::fields::Fields;
use crate::ModelError;

/// The scaling of rotary frequencies for contexts longer than those of the first training.
#[derive(Debug, Clone, PartialEq)]
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
    /// YaRN: long wavelengths are divided by `factor`, short ones kept, and those between interpolated, by the number of
    /// rotations in the context of the first training.
    Yarn {
        /// The divisor of the frequencies of long wavelengths.
        factor: f64,
        /// The number of rotations from which frequencies are kept.
        beta_fast: f64,
        /// The number of rotations up to which frequencies are divided.
        beta_slow: f64,
        /// True if the first and the last interpolated pair are rounded to whole numbers.
        truncate: bool,
        /// Context length of the first training, in tokens.
        original_max_position_embeddings: usize,
        /// The factor of all cosines and sines.
        attention_factor: f64,
        /// Other settings of the factors, in families that read them.
        mscale: Option<Mscale>,
    },
    /// Phi-3's scaling: every frequency has a divisor of its own, one for short sequences and one for long ones.
    LongRope {
        /// The divisors for sequences up to `original_max_position_embeddings`.
        short_factor: Vec<f64>,
        /// The divisors for longer sequences.
        long_factor: Vec<f64>,
        /// Context length of the first training, in tokens.
        original_max_position_embeddings: usize,
        /// The factor of all cosines and sines.
        attention_factor: f64,
    },
}

/// The growth of the factors of YaRN with the context (DeepSeek).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mscale {
    /// The growth of cosines and sines.
    pub mscale: f64,
    /// The growth that is divided out of them. The scores of attention are multiplied by its square.
    pub mscale_all_dim: f64,
}

const ORIGINAL: &str = "original_max_position_embeddings";

/// The factor of cosines and sines if the file names none: it depends on how many times the context is longer than that
/// of the first training.
fn longrope_attention_factor(times: f64, original: usize) -> f64 {
    if times <= 1.0 {
        return 1.0;
    }
    (1.0 + times.ln() / (original as f64).ln()).sqrt()
}

/// The factor by which YaRN counters a context that is `factor` times longer, with so much growth.
fn yarn_growth(factor: f64, growth: f64) -> f64 {
    if factor <= 1.0 {
        return 1.0;
    }
    0.1 * growth * factor.ln() + 1.0
}

/// The factor of cosines and sines of YaRN if the file names none.
fn yarn_attention_factor(factor: f64, mscale: Option<Mscale>) -> f64 {
    match mscale {
        Some(own) if own.mscale != 0.0 && own.mscale_all_dim != 0.0 => {
            yarn_growth(factor, own.mscale) / yarn_growth(factor, own.mscale_all_dim)
        }
        _ => yarn_growth(factor, 1.0),
    }
}

/// Returns the length of the first training: that outside of the object, as in transformers, or the object's own.
fn preferred(fields: Fields<'_>, outer: Option<usize>) -> Result<Option<usize>, ModelError> {
    let own = fields.size(ORIGINAL)?;
    Ok(outer.or(own))
}

impl RopeScaling {
    /// Reads the settings in an object. `original` is `original_max_position_embeddings` outside of it, and `longest` the
    /// length of the longest sequence.
    pub(super) fn parse(
        fields: Fields<'_>,
        positions: Positions,
        original: Option<usize>,
        longest: usize,
    ) -> Result<Self, ModelError> {
        // The first files of Phi-3 say `su`. Qwen2.5-VL's name the three positions and not a scaling, also beside a
        // `rope_type` in files that transformers saved.
        let plain = |kind| match kind {
            "su" if positions.longrope() => "longrope",
            "mrope" if positions.sections.is_some() => "default",
            kind => kind,
        };
        let kind = match (fields.string("rope_type")?, fields.string("type")?) {
            (Some(new), Some(old)) if plain(new) != plain(old) => {
                let problem = format!("`{old}` contradicts `rope_type`, which is `{new}`");
                return Err(fields.error("type", problem));
            }
            (new, old) => plain(new.or(old).unwrap_or("default")),
        };
        let known = positions.scalings;
        let scaling = match known.contains(&kind).then_some(kind) {
            Some("default") => Self::Default,
            Some("linear") => Self::Linear {
                factor: factor(fields)?,
            },
            Some("llama3") => Self::parse_llama3(fields, original)?,
            Some("yarn") => Self::parse_yarn(fields, positions, original, longest)?,
            Some("longrope") => Self::parse_longrope(fields, original, longest)?,
            _ => {
                let known = known.join(", ");
                let problem = format!("`{kind}` is not supported; supported: {known}");
                return Err(fields.error("rope_type", problem));
            }
        };
        scaling.refuse_foreign(fields, positions)?;
        Ok(scaling)
    }

    fn parse_llama3(fields: Fields<'_>, outer: Option<usize>) -> Result<Self, ModelError> {
        let number = |name| fields.required(name, fields.positive(name)?);
        let low_freq_factor = number("low_freq_factor")?;
        let high_freq_factor = number("high_freq_factor")?;
        if high_freq_factor < low_freq_factor {
            let problem = format!(
                "{high_freq_factor} is below `low_freq_factor`, which is {low_freq_factor}"
            );
            return Err(fields.error("high_freq_factor", problem));
        }
        Ok(Self::Llama3 {
            factor: factor(fields)?,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings: fields
                .required(ORIGINAL, preferred(fields, outer)?)?,
        })
    }

    fn parse_yarn(
        fields: Fields<'_>,
        positions: Positions,
        outer: Option<usize>,
        longest: usize,
    ) -> Result<Self, ModelError> {
        let factor = factor(fields)?;
        let beta_fast = fields.positive("beta_fast")?.unwrap_or(32.0);
        let beta_slow = fields.positive("beta_slow")?.unwrap_or(1.0);
        if beta_fast < beta_slow {
            let problem =
                format!("{beta_fast} must not be below `beta_slow`, which is {beta_slow}");
            return Err(fields.error("beta_fast", problem));
        }
        let growth = |name| Ok::<_, ModelError>(fields.number(name)?.unwrap_or(0.0));
        let mscale = match positions.mscale {
            true => Some(Mscale {
                mscale: growth("mscale")?,
                mscale_all_dim: growth("mscale_all_dim")?,
            }),
            false => None,
        };
        Ok(Self::Yarn {
            factor,
            mscale,
            beta_fast,
            beta_slow,
            truncate: fields.boolean("truncate")?.unwrap_or(true),
            original_max_position_embeddings: preferred(fields, outer)?.unwrap_or(longest),
            attention_factor: fields
                .positive("attention_factor")?
                .unwrap_or_else(|| yarn_attention_factor(factor, mscale)),
        })
    }

    fn parse_longrope(
        fields: Fields<'_>,
        outer: Option<usize>,
        longest: usize,
    ) -> Result<Self, ModelError> {
        let factors = |name| fields.required(name, fields.positives(name)?);
        let inner = fields.size(ORIGINAL)?;
        if let (Some(inner), Some(outer)) = (inner, outer)
            && inner != outer
        {
            let problem = format!("{inner} contradicts the outer `{ORIGINAL}`, which is {outer}");
            return Err(fields.error(ORIGINAL, problem));
        }
        let original = fields.required(ORIGINAL, inner.or(outer))?;
        let times = fields.positive("factor")?;
        let times = times.unwrap_or(longest as f64 / original as f64);
        let attention_factor = fields.positive("attention_factor")?;
        if original < 2 {
            return Err(fields.error(ORIGINAL, format!("expected at least 2, found {original}")));
        }
        Ok(Self::LongRope {
            short_factor: factors("short_factor")?,
            long_factor: factors("long_factor")?,
            original_max_position_embeddings: original,
            attention_factor: attention_factor
                .unwrap_or_else(|| longrope_attention_factor(times, original)),
        })
    }

    /// Refuses settings of another kind of scaling. They would have no effect, while their author expects one.
    fn refuse_foreign(&self, fields: Fields<'_>, positions: Positions) -> Result<(), ModelError> {
        let own: &[&str] = match self {
            Self::Default => &[],
            Self::Linear { .. } => &["factor"],
            Self::Llama3 { .. } => &["factor", "low_freq_factor", "high_freq_factor", ORIGINAL],
            Self::Yarn { .. } => &[
                "factor",
                "beta_fast",
                "beta_slow",
                "truncate",
                "attention_factor",
                ORIGINAL,
            ],
            Self::LongRope { .. } => &[
                "short_factor",
                "long_factor",
                "factor",
                "attention_factor",
                ORIGINAL,
            ],
        };
        for name in fields.names() {
            let common = ["rope_type", "type", "rope_theta"].contains(&name.as_str());
            if common || own.contains(&name.as_str()) || fields.value(name).is_none() {
                continue;
            }
            let partial = name == "partial_rotary_factor";
            let sections =
                ["mrope_section", "mrope_interleaved", "interleaved"].contains(&name.as_str());
            if sections && positions.sections.is_some() {
                continue;
            }
            let growth = ["mscale", "mscale_all_dim"].contains(&name.as_str());
            if growth
                && matches!(
                    self,
                    Self::Yarn {
                        mscale: Some(_),
                        ..
                    }
                )
            {
                continue;
            }
            if partial && (positions.rotated_part.is_some() || fields.number(name)? == Some(1.0)) {
                continue;
            }
            let problem = format!("not supported with rope_type `{}`", self.kind());
            return Err(fields.error(name, problem));
        }
        Ok(())
    }

    /// Returns the problem with these settings for so many rotated pairs, as field and problem.
    pub(super) fn problem(&self, pairs: usize) -> Option<(&'static str, String)> {
        let Self::LongRope {
            short_factor,
            long_factor,
            ..
        } = self
        else {
            return None;
        };
        let lists = [("short_factor", short_factor), ("long_factor", long_factor)];
        let wrong = lists.into_iter().find(|(_, list)| list.len() != pairs);
        wrong.map(|(name, list)| {
            let problem = format!("has {} entries for {pairs} rotated pairs", list.len());
            (name, problem)
        })
    }

    /// Returns the factor of the scores of attention.
    pub(crate) fn score_factor(&self) -> f64 {
        match self {
            Self::Yarn {
                factor,
                mscale: Some(own),
                ..
            } if own.mscale_all_dim != 0.0 => yarn_growth(*factor, own.mscale_all_dim).powi(2),
            _ => 1.0,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Linear { .. } => "linear",
            Self::Llama3 { .. } => "llama3",
            Self::Yarn { .. } => "yarn",
            Self::LongRope { .. } => "longrope",
        }
    }

    /// Returns the settings as `transformers` 5 names them.
    pub(super) fn to_object(&self, longest: usize) -> Map<String, Value> {
        let settings = match self {
            Self::Default => json!({}),
            Self::Linear { factor } => json!({ "factor": factor }),
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => json!({
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                ORIGINAL: original_max_position_embeddings,
            }),
            Self::Yarn {
                factor,
                beta_fast,
                beta_slow,
                truncate,
                original_max_position_embeddings,
                attention_factor,
                mscale,
            } => {
                let mut settings = json!({
                    "factor": factor,
                    "beta_fast": beta_fast,
                    "beta_slow": beta_slow,
                    "truncate": truncate,
                    ORIGINAL: original_max_position_embeddings,
                });
                if let Some(own) = mscale {
                    settings["mscale"] = json!(own.mscale);
                    settings["mscale_all_dim"] = json!(own.mscale_all_dim);
                }
                if *attention_factor != yarn_attention_factor(*factor, *mscale) {
                    settings["attention_factor"] = json!(attention_factor);
                }
                settings
            }
            Self::LongRope {
                original_max_position_embeddings,
                ..
            } => {
                let mut settings = self.longrope_settings(longest);
                settings.insert(ORIGINAL.into(), json!(original_max_position_embeddings));
                Value::Object(settings)
            }
        };
        let mut object = Map::from_iter([("rope_type".to_owned(), json!(self.kind()))]);
        if let Value::Object(settings) = settings {
            object.extend(settings);
        }
        object
    }

    /// Returns the object that `transformers` 4 calls `rope_scaling`, or `null` without scaling.
    pub(super) fn legacy(&self, longest: usize) -> Value {
        match self {
            Self::Default => Value::Null,
            // Phi-3 accepts no other fields than these.
            Self::LongRope { .. } => {
                let mut object = self.longrope_settings(longest);
                object.insert("type".into(), json!(self.kind()));
                Value::Object(object)
            }
            _ => Value::Object(self.to_object(longest)),
        }
    }

    /// Returns the divisors of `longrope`, and its factor unless it is the default.
    fn longrope_settings(&self, longest: usize) -> Map<String, Value> {
        let mut object = Map::new();
        if let Self::LongRope {
            short_factor,
            long_factor,
            original_max_position_embeddings: original,
            attention_factor,
        } = self
        {
            object.insert("short_factor".into(), json!(short_factor));
            object.insert("long_factor".into(), json!(long_factor));
            let times = longest as f64 / *original as f64;
            if *attention_factor != longrope_attention_factor(times, *original) {
                object.insert("attention_factor".into(), json!(attention_factor));
            }
        }
        object
    }
}

fn factor(fields: Fields<'_>) -> Result<f64, ModelError> {
    fields.required("factor", fields.positive("factor")?)
}
