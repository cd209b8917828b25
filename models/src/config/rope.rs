//! Settings of rotary positions, in the spelling of `transformers` 4 and 5.

use serde_json::{Map, Value, json};

use super::family::{Family, Positions, SectionOrder};
use super::fields::Fields;
use super::scaling::RopeScaling;
use crate::ModelError;

/// Settings of rotary positions.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the frequencies: pair `i` of `d` rotated elements rotates by `theta^(-2i/d)` radians per position.
    pub theta: f64,
    /// Scaling of the frequencies for longer contexts.
    pub scaling: RopeScaling,
    /// The rotated part of each head, above 0 and at most 1. The first elements of a head are rotated.
    pub partial_rotary_factor: f64,
    /// The numbers of pairs that take each of three positions, in families with three: time, height and width.
    pub sections: Option<[usize; 3]>,
}

impl Default for RopeConfig {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            scaling: RopeScaling::Default,
            partial_rotary_factor: 1.0,
            sections: None,
        }
    }
}

/// The settings of all layers, and those of layers with a window if they have their own.
pub(super) type Ropes = (RopeConfig, Option<RopeConfig>);

/// The names of both kinds of layers in nested `rope_parameters`.
const GLOBAL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

/// The fields that this module reads beside those of all families.
pub(super) fn known(rope: &RopeConfig, positions: Positions) -> Vec<&'static str> {
    let partial = positions.rotated_part.map(|_| PART);
    let local = positions.local_theta.map(|_| "rope_local_base_freq");
    let original = "original_max_position_embeddings";
    let is_longrope = matches!(rope.scaling, RopeScaling::LongRope { .. });
    let longrope = is_longrope.then_some(original);
    [partial, local, longrope].into_iter().flatten().collect()
}

/// Reads `rope_parameters`, or `rope_theta` with `rope_scaling`, or both if they agree.
pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<Ropes, ModelError> {
    let outer = Outer::parse(fields, family)?;
    let new = fields.object("rope_parameters")?;
    let old = fields.object("rope_scaling")?;
    let Some(local_theta) = family.positions.local_theta else {
        let new = new.map(|object| ("rope_parameters.", object));
        return Ok((outer.merge(fields, new, old)?, None));
    };
    let nested = |kind: &str| new.and_then(|object| object.get(kind)?.as_object());
    for (kind, value) in new.into_iter().flatten() {
        if ![GLOBAL, LOCAL].contains(&kind.as_str()) || !(value.is_object() || value.is_null()) {
            let problem = format!("expected `{GLOBAL}` and `{LOCAL}`, each an object");
            return Err(fields.error(&format!("rope_parameters.{kind}"), problem));
        }
    }
    let local = Outer {
        theta: fields.positive("rope_local_base_freq")?,
        default_theta: local_theta,
        ..outer
    };
    let of = |kind: &str, prefix| nested(kind).map(|object| (prefix, object));
    Ok((
        outer.merge(fields, of(GLOBAL, "rope_parameters.full_attention."), old)?,
        Some(local.merge(
            fields,
            of(LOCAL, "rope_parameters.sliding_attention."),
            None,
        )?),
    ))
}

/// Returns the problem with the sections of so many pairs, as field and problem.
fn sections_problem(
    sections: [usize; 3],
    order: SectionOrder,
    pairs: usize,
) -> Option<(&'static str, String)> {
    let sum = sections
        .iter()
        .fold(0_usize, |sum, &n| sum.saturating_add(n));
    if sum != pairs {
        let problem = format!("{sections:?} make up {sum} pairs, but a head has {pairs}");
        return Some((SECTIONS, problem));
    }
    let axes = order.axes(sections);
    let taken = |axis| axes.iter().filter(|&&own| own == axis).count();
    let fits = (0..3).all(|axis| taken(axis) == sections[axis]);
    (!fits).then(|| {
        let problem = format!("{sections:?} do not come out if pairs take positions in turn");
        (SECTIONS, problem)
    })
}

/// Writes all settings in both spellings.
pub(super) fn write(
    global: &RopeConfig,
    local: Option<&RopeConfig>,
    positions: Positions,
    longest: usize,
    object: &mut Map<String, Value>,
) {
    let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    let new = match local {
        Some(local) => json!({
            GLOBAL: global.parameters(positions, longest),
            LOCAL: local.parameters(positions, longest),
        }),
        None => global.parameters(positions, longest),
    };
    set("rope_parameters", new);
    set("rope_theta", json!(global.theta));
    set("rope_scaling", global.legacy(positions, longest));
    if let Some(local) = local {
        set("rope_local_base_freq", json!(local.theta));
    }
    if positions.rotated_part.is_some() {
        set(PART, json!(global.partial_rotary_factor));
    }
    if let RopeScaling::LongRope {
        original_max_position_embeddings,
        ..
    } = global.scaling
    {
        set(
            "original_max_position_embeddings",
            json!(original_max_position_embeddings),
        );
    }
}

/// The settings outside `rope_parameters` and `rope_scaling`, and the family's defaults.
#[derive(Clone, Copy)]
struct Outer {
    theta: Option<f64>,
    default_theta: f64,
    part: Option<f64>,
    positions: Positions,
    original: Option<usize>,
    longest: usize,
}

impl Outer {
    fn parse(fields: Fields<'_>, family: &Family) -> Result<Self, ModelError> {
        let positions = family.positions;
        Ok(Self {
            theta: fields.positive("rope_theta")?,
            default_theta: family.defaults.rope_theta,
            part: part(fields)?,
            positions,
            original: fields.size("original_max_position_embeddings")?,
            // Its absence is an error elsewhere.
            longest: fields.size("max_position_embeddings")?.unwrap_or(1),
        })
    }

    /// Reads settings from the object of `transformers` 5, that of 4, or both if they agree.
    fn merge(
        self,
        fields: Fields<'_>,
        new: Option<(&str, &Map<String, Value>)>,
        old: Option<&Map<String, Value>>,
    ) -> Result<RopeConfig, ModelError> {
        let of = |prefix, object| self.object(Fields::new(fields.origin(), prefix, object));
        let old = old.map(|object| of("rope_scaling.", object)).transpose()?;
        let Some((prefix, object)) = new else {
            return match old {
                Some(old) => Ok(old),
                None if self.stands_alone() => Ok(self.alone()),
                None => fields.required("rope_parameters", None),
            };
        };
        let rope = of(prefix, object)?;
        match old {
            Some(old) if (&old.scaling, old.sections) != (&rope.scaling, rope.sections) => {
                Err(fields.error(
                    "rope_scaling",
                    "contradicts `rope_parameters`; keep one of them",
                ))
            }
            _ => Ok(rope),
        }
    }

    fn object(self, fields: Fields<'_>) -> Result<RopeConfig, ModelError> {
        let theta = fields.positive("rope_theta")?;
        let inner = Self {
            theta: agreed(fields, "rope_theta", theta, self.theta)?,
            part: agreed(fields, PART, part(fields)?, self.part)?,
            ..self
        };
        Ok(RopeConfig {
            scaling: RopeScaling::parse(fields, self.positions, self.original, self.longest)?,
            sections: sections(fields, self.positions)?,
            ..inner.alone()
        })
    }

    /// Returns `true` if a file may do without an object of settings.
    fn stands_alone(self) -> bool {
        self.positions.scalings.contains(&"default") && self.positions.sections.is_none()
    }

    /// Returns the settings of a file without an object of them.
    fn alone(self) -> RopeConfig {
        let default = self.positions.rotated_part;
        RopeConfig {
            scaling: RopeScaling::Default,
            theta: self.theta.unwrap_or(self.default_theta),
            partial_rotary_factor: default.map_or(1.0, |part| self.part.unwrap_or(part)),
            sections: None,
        }
    }
}

/// Reads the sections of a family with three positions.
fn sections(fields: Fields<'_>, positions: Positions) -> Result<Option<[usize; 3]>, ModelError> {
    let Some(order) = positions.sections else {
        return Ok(None);
    };
    let own = order == SectionOrder::Interleaved;
    // Omni files have both names.
    for name in ["mrope_interleaved", "interleaved"] {
        if fields
            .boolean(name)?
            .is_some_and(|interleaved| interleaved != own)
        {
            let problem = format!("{} is not supported", !own);
            return Err(fields.error(name, problem));
        }
    }
    let list = fields.required(SECTIONS, fields.indices(SECTIONS)?)?;
    match <[usize; 3]>::try_from(list) {
        Ok(sections) => Ok(Some(sections)),
        Err(list) => {
            let problem = format!("expected three numbers, found {}", list.len());
            Err(fields.error(SECTIONS, problem))
        }
    }
}

const SECTIONS: &str = "mrope_section";

const PART: &str = "partial_rotary_factor";

/// Reads the rotated part of heads.
fn part(fields: Fields<'_>) -> Result<Option<f64>, ModelError> {
    match fields.positive(PART)? {
        Some(part) if part > 1.0 => {
            Err(fields.error(PART, format!("expected at most 1, found {part}")))
        }
        part => Ok(part),
    }
}

/// Returns a number that may be inside and outside an object, if both agree.
fn agreed(
    fields: Fields<'_>,
    name: &str,
    inner: Option<f64>,
    outer: Option<f64>,
) -> Result<Option<f64>, ModelError> {
    if let (Some(inner), Some(outer)) = (inner, outer)
        && inner != outer
    {
        let problem = format!("{inner} contradicts the outer `{name}`, which is {outer}");
        return Err(fields.error(name, problem));
    }
    Ok(inner.or(outer))
}

impl RopeConfig {
    /// Returns the number of elements that are rotated in each head of width `head_dim`.
    pub fn rotary_dim(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial_rotary_factor) as usize
    }

    /// Returns the problem with these settings for heads of this width, as field and problem.
    pub(super) fn problem(
        &self,
        head_dim: usize,
        positions: Positions,
    ) -> Option<(&'static str, String)> {
        let rotated = self.rotary_dim(head_dim);
        if rotated == 0 || !rotated.is_multiple_of(2) {
            let part = self.partial_rotary_factor;
            let problem = format!(
                "{part} of a head of {head_dim} is {rotated} elements; rotary positions need pairs"
            );
            return Some((PART, problem));
        }
        let sections = self.sections.zip(positions.sections);
        sections
            .and_then(|(sections, order)| sections_problem(sections, order, rotated / 2))
            .or_else(|| self.scaling.problem(rotated / 2))
    }

    fn write_sections(&self, positions: Positions, object: &mut Map<String, Value>) {
        if let Some(sections) = self.sections {
            object.insert(SECTIONS.into(), json!(sections));
            if positions.sections == Some(SectionOrder::Interleaved) {
                object.insert("mrope_interleaved".into(), json!(true));
            }
        }
    }

    /// Returns the object that `transformers` 4 calls `rope_scaling`, or `null` if it says nothing.
    fn legacy(&self, positions: Positions, longest: usize) -> Value {
        if self.sections.is_none() {
            return self.scaling.legacy(longest);
        }
        let mut object = self.scaling.to_object(longest);
        self.write_sections(positions, &mut object);
        Value::Object(object)
    }

    /// Returns the object that `transformers` 5 calls `rope_parameters`.
    fn parameters(&self, positions: Positions, longest: usize) -> Value {
        let mut object = self.scaling.to_object(longest);
        object.insert("rope_theta".into(), json!(self.theta));
        if positions.rotated_part.is_some() {
            let part = json!(self.partial_rotary_factor);
            object.insert(PART.into(), part);
        }
        self.write_sections(positions, &mut object);
        Value::Object(object)
    }
}
