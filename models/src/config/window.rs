//! The sliding window of a configuration.

use serde_json::{Map, Value, json};

use super::MAX_LAYERS;
use super::family::{Family, Window};
use super::fields::{Fields, brief};
use super::mixed::MixedConfig;
use crate::ModelError;

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";
const CHUNKED: &str = "chunked_attention";

/// A window, with the layers that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowConfig {
    /// The largest number of keys that a query sees: its own and the nearest before it, or those of its chunk.
    pub size: usize,
    /// True if the window is a chunk: a query sees the keys of the same `size` positions, counted from the first.
    pub chunked: bool,
    /// The layers with the window, counted from 0.
    pub layers: Vec<usize>,
}

impl WindowConfig {
    /// Reads the fields of a model with `layers` layers. Returns an error for a window if the family has none.
    pub(super) fn parse(
        fields: Fields<'_>,
        family: &Family,
        layers: usize,
        mixed: Option<&MixedConfig>,
    ) -> Result<Option<Self>, ModelError> {
        let size = size(fields, family)?;
        let kinds = match family.linear {
            // The list names the layers with linear attention.
            Some(_) => None,
            None => layer_types(fields, family.window, layers)?,
        };
        if let Some(kinds) = &kinds {
            check_kinds(fields, family, size, kinds)?;
        }
        let Some(size) = size else {
            return Ok(None);
        };
        let layers: Vec<usize> = match kinds {
            Some(kinds) => (0..layers).filter(|&at| kinds[at] != FULL).collect(),
            // The number of layers is checked later; the limit keeps this list short.
            None => {
                let first = full_layers(fields, family.window)?;
                let every = full_every(fields, family.window)?;
                let windowed = |layer: &usize| match mixed {
                    Some(mixed) => !mixed.unrotated_layers.contains(layer),
                    None => every.is_none_or(|n| !(layer + 1).is_multiple_of(n)),
                };
                (first..layers.min(MAX_LAYERS)).filter(windowed).collect()
            }
        };
        let chunked = family.window.chunked;
        Ok((!layers.is_empty()).then_some(Self {
            size,
            chunked,
            layers,
        }))
    }

    /// Writes the window of a model with `layers` layers, in the fields of the family.
    pub(super) fn write(
        window: Option<&Self>,
        family: Window,
        layers: usize,
        object: &mut Map<String, Value>,
    ) {
        let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        if !family.honoured {
            return;
        }
        let chosen = family.switched || family.full_every.is_some();
        if !chosen {
            return set("sliding_window", json!(window.map(|window| window.size)));
        }
        if let Some(Self {
            size, layers: own, ..
        }) = window
        {
            let kind = |layer| match own.contains(&layer) {
                true => kind(family),
                false => FULL,
            };
            let kinds: Vec<_> = (0..layers).map(kind).collect();
            if family.switched {
                set("use_sliding_window", json!(true));
            }
            set(size_field(family), json!(size));
            set("layer_types", json!(kinds));
        }
    }
}

/// The fields that [`WindowConfig`] reads. Without a window they are kept unchanged.
pub(super) const KNOWN: &[&str] = &[
    "use_sliding_window",
    "sliding_window",
    "attention_chunk_size",
    "layer_types",
];

/// Returns the name of the size of a family's windows.
fn size_field(window: Window) -> &'static str {
    match window.chunked {
        true => "attention_chunk_size",
        false => "sliding_window",
    }
}

/// Returns the kind of a family's layers with a window.
fn kind(window: Window) -> &'static str {
    match window.chunked {
        true => CHUNKED,
        false => SLIDING,
    }
}

/// Reads the size of the window. In Qwen files `sliding_window` counts only if `use_sliding_window` is true. In Mistral
/// files it always counts. Llama has no such field and refuses it, because some programs apply it and others don't.
fn size(fields: Fields<'_>, family: &Family) -> Result<Option<usize>, ModelError> {
    let Window {
        honoured, switched, ..
    } = family.window;
    let switch = fields.boolean("use_sliding_window")?;
    if switch == Some(true) && !(honoured && switched) {
        return Err(fields.error("use_sliding_window", "true is not supported"));
    }
    if switched && switch != Some(true) {
        return Ok(None);
    }
    if !honoured {
        return match fields.value("sliding_window") {
            Some(window) => {
                let window = brief(window);
                let problem =
                    format!("{window} limits attention to a window, which is not supported");
                Err(fields.error("sliding_window", problem))
            }
            None => Ok(None),
        };
    }
    let field = size_field(family.window);
    let size = match fields.names().any(|name| name == field) {
        true => fields.size(field)?,
        false => family.window.default_size,
    };
    if size.is_none() && family.window.full_every.is_some() {
        let class = family.class_name;
        let problem = format!("null is not supported: layers of {class} have a window");
        return Err(fields.error(field, problem));
    }
    if size.is_some() && switch == Some(false) {
        let class = family.class_name;
        let problem = format!("false is not supported: `sliding_window` of {class} always counts");
        return Err(fields.error("use_sliding_window", problem));
    }
    Ok(size)
}

/// Reads the kinds of the layers, if the file names them.
fn layer_types<'a>(
    fields: Fields<'a>,
    window: Window,
    layers: usize,
) -> Result<Option<Vec<&'a str>>, ModelError> {
    let Some(kinds) = fields.strings("layer_types")? else {
        return Ok(None);
    };
    if kinds.len() != layers {
        let problem = format!(
            "has {} entries for {layers} `num_hidden_layers`",
            kinds.len()
        );
        return Err(fields.error("layer_types", problem));
    }
    let (known, supported): (&[&str], _) = match window.honoured {
        true if window.chunked => (
            &[FULL, CHUNKED],
            "supported: full_attention, chunked_attention",
        ),
        true => (
            &[FULL, SLIDING],
            "supported: full_attention, sliding_attention",
        ),
        false => (&[FULL], "supported: full_attention"),
    };
    match kinds.iter().find(|kind| !known.contains(kind)) {
        Some(kind) => {
            let problem = format!("`{kind}` is not supported; {supported}");
            Err(fields.error("layer_types", problem))
        }
        None => Ok(Some(kinds)),
    }
}

/// Refuses kinds of layers that contradict the other fields.
fn check_kinds(
    fields: Fields<'_>,
    family: &Family,
    size: Option<usize>,
    kinds: &[&str],
) -> Result<(), ModelError> {
    let problem = if size.is_none() && kinds.contains(&SLIDING) {
        format!("`{SLIDING}`, but the other fields give no window")
    } else if size.is_some() && counts_everywhere(family.window) && kinds.contains(&FULL) {
        let class = family.class_name;
        format!("`{FULL}`, but `sliding_window` of {class} counts in every layer")
    } else {
        return Ok(());
    };
    Err(fields.error("layer_types", problem))
}

/// Returns `true` if no field selects the layers with a window.
fn counts_everywhere(window: Window) -> bool {
    !window.switched && window.full_every.is_none()
}

/// Reads the distance between layers without the window, in a family that has both kinds.
fn full_every(fields: Fields<'_>, window: Window) -> Result<Option<usize>, ModelError> {
    let Some(default) = window.full_every else {
        return Ok(None);
    };
    let own = match window.pattern {
        true => fields.size("sliding_window_pattern")?,
        false => None,
    };
    Ok(Some(own.unwrap_or(default)))
}

/// Reads the number of bottom layers without the window.
fn full_layers(fields: Fields<'_>, window: Window) -> Result<usize, ModelError> {
    if !window.switched {
        return Ok(0);
    }
    Ok(fields
        .index("max_window_layers")?
        .unwrap_or(window.default_full_layers))
}
