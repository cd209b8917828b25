//! The configuration of compressed-tensors, of [`Packed`] and [`Unpacked`].

use serde_json::Value;

use crate::config::{Fields, inputs_stay, outputs_stay};
use crate::{Code, ConfigError, Encoding, Packed, Scales, Unpacked};

/// Reads the settings of the groups of layers, whose weights have one encoding.
pub(crate) fn of_config(
    fields: Fields<'_>,
    remarks: &mut Vec<String>,
) -> Result<Encoding, ConfigError> {
    fields.one_of("quantization_status", &["compressed", "frozen"])?;
    fields.refuse("transform_config", "rotates weights or inputs")?;
    let sparsity = fields.object("sparsity_config")?;
    if let Some(sparsity) = sparsity {
        Fields::new("sparsity_config.", sparsity).one_of("format", &["dense"])?;
    }
    if fields.value("kv_cache_scheme").is_some() {
        remarks.push(
            "keys and values are not rounded, though the configuration has `kv_cache_scheme`"
                .into(),
        );
    }
    let groups = fields.object("config_groups")?.into_iter().flatten();
    let mut found: Option<(&str, Encoding)> = None;
    for (name, group) in groups {
        let path = format!("config_groups.{name:?}.");
        let Some(group) = group.as_object() else {
            return Err(fields.error("config_groups", "expected objects"));
        };
        let Some(encoding) = of_group(fields, Fields::new(&path, group), remarks)? else {
            continue;
        };
        match found {
            Some((other, first)) if first != encoding => {
                let problem = format!(
                    "{other:?} has weights in {first}, and {name:?} in {encoding}; only one encoding is supported"
                );
                return Err(fields.error("config_groups", problem));
            }
            _ => found = Some((name.as_str(), encoding)),
        }
    }
    let missing = || fields.error("config_groups", "no group has weights");
    found.map(|(_, encoding)| encoding).ok_or_else(missing)
}

/// Reads the settings of a group of layers, and adds remarks on inputs and outputs. Returns `None` if it has no weights.
fn of_group(
    fields: Fields<'_>,
    group: Fields<'_>,
    remarks: &mut Vec<String>,
) -> Result<Option<Encoding>, ConfigError> {
    let rounded = [
        ("input_activations", inputs_stay("`input_activations`")),
        ("output_activations", outputs_stay("`output_activations`")),
    ];
    for (name, remark) in rounded {
        if group.value(name).is_some() && !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    let Some(weights) = group.object("weights")? else {
        return Ok(None);
    };
    // A group may have a format of its own.
    let formats = [
        "pack-quantized",
        "int-quantized",
        "float-quantized",
        "naive-quantized",
    ];
    let format = match group.value("format") {
        Some(_) => group.one_of("format", &formats)?,
        None => fields.one_of("format", &formats)?,
    };
    let path = group.path_of("weights");
    of_weights(Fields::new(&path, weights), format).map(Some)
}

fn of_weights(fields: Fields<'_>, format: &str) -> Result<Encoding, ConfigError> {
    let size = match fields.value("group_size") {
        Some(_) => fields.group("group_size")?,
        None => None,
    };
    // Without a strategy, it follows from the size of groups.
    let usual = match (fields.value("group_size"), size) {
        (None, _) => "tensor",
        (Some(_), None) => "channel",
        (Some(_), Some(_)) => "group",
    };
    let strategy = match fields.value("strategy") {
        None => usual,
        Some(_) => fields.one_of("strategy", &["tensor", "channel", "group", "block"])?,
    };
    let scales = match (strategy, size) {
        ("tensor", _) => Scales::Tensor,
        ("channel", _) => Scales::Rows,
        ("block", _) => Scales::Blocks(fields.rectangle("block_structure")?),
        (_, Some(size)) => Scales::Groups(size),
        (_, None) => return Err(fields.error("group_size", "groups need a size")),
    };
    let bits = fields.bits("num_bits")?;
    let code = match fields.one_of("type", &["int", "float"])? {
        "int" => Code::Int8,
        _ => Code::E4M3,
    };
    let symmetric = fields.value("symmetric").is_none() || fields.flag("symmetric")?;
    let reordered = reordered(fields)?;
    match (format, code, bits) {
        ("pack-quantized", Code::Int8, 1..=8) => Ok(Packed {
            bits,
            scales,
            symmetric,
            reordered,
        }
        .into()),
        // Fewer bits take a byte, too.
        ("int-quantized" | "naive-quantized", Code::Int8, 1..=8)
        | ("float-quantized" | "naive-quantized", Code::E4M3, 8) => {
            if reordered {
                let problem = format!("columns out of order are not supported in {format}");
                return Err(fields.error("actorder", problem));
            }
            let symmetric = symmetric || code == Code::E4M3;
            Ok(Unpacked {
                code,
                scales,
                symmetric,
            }
            .into())
        }
        _ => {
            let problem = format!("{bits} bits of this type are not supported in {format}");
            Err(fields.error("num_bits", problem))
        }
    }
}

/// Reads whether columns are in groups out of order, which files then list. `weight` and `static` order columns only while
/// scales are computed. Old files have a flag.
fn reordered(fields: Fields<'_>) -> Result<bool, ConfigError> {
    match fields.value("actorder") {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => {
            let order = fields.one_of("actorder", &["group", "dynamic", "weight", "static"])?;
            Ok(matches!(order, "group" | "dynamic"))
        }
    }
}
