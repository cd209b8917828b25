//! A GGUF file of floats, written anew in blocks.

use super::encode::Floats;
use super::head::{Head, Tensor};
use super::kind::Kind;
use super::types::{Chooser, Model, Target, is_quantised, layer};
use anyhow::{Context, bail, ensure};
use bytesize::ByteSize;
use kernels_io::{NewFile, escape, escape_path};
use kernels_models::gguf;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A tensor with its type before and after, and the number of its bytes after.
struct Change<'a> {
    tensor: &'a Tensor,
    from: Kind,
    to: Kind,
    bytes: u64,
}

/// Writes a file in blocks. Returns a sentence about it.
///
/// # Errors
/// Returns an error if something is at `out`, if a tensor can't be quantised or copied, or if the system fails.
pub fn quantise(input: &gguf::File, target: Target, out: &Path) -> anyhow::Result<String> {
    let path = escape_path(input.path());
    let alignment = input.metadata().integer("general.alignment")?;
    let alignment = u64::try_from(alignment.unwrap_or(32)).unwrap_or(0);
    ensure!(
        alignment > 0,
        "{path}: `general.alignment` must be positive"
    );
    if input.metadata().integer("split.count")?.unwrap_or(1) > 1 {
        bail!(
            "{path} is one of several parts of a model; join them first, by llama.cpp's `llama-gguf-split --merge`"
        );
    }
    // Refuses what is in the way before the work.
    let mut file = NewFile::beside(out)?;
    let mut source = kernels_io::open(input.path())?;
    let read = Head::read(BufReader::new(&source), alignment);
    let head = read.with_context(|| path.clone())?;
    let mut tensors: Vec<&Tensor> = head.tensors.iter().collect();
    tensors.sort_by(|a, b| by_layer(&a.name, &b.name));
    let model = model(input, &tensors)?;
    let changes = plan(&tensors, &model, target).with_context(|| path.clone())?;
    let listed: Vec<_> = (changes.iter())
        .map(|change| (change.tensor, change.to, change.bytes))
        .collect();
    file.write(&head.with(target.file_type(), &listed))?;
    for change in &changes {
        let begin = head.start + change.tensor.offset;
        let bytes = converted(&mut source, begin, change).with_context(|| path.clone())?;
        file.write(&bytes)?;
        let padding = change.bytes.next_multiple_of(alignment) - change.bytes;
        file.write(&vec![0; padding as usize])?;
    }
    file.publish()?;
    Ok(summary(&changes))
}

/// Compares names as llama.cpp orders tensors: by layer, with those of no layer first, and then by name.
fn by_layer(a: &str, b: &str) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// Returns the facts that the choice of types depends on.
fn model(input: &gguf::File, tensors: &[&Tensor]) -> anyhow::Result<Model> {
    let path = escape_path(input.path());
    let metadata = input.metadata();
    let key = "general.architecture";
    let architecture = metadata.string(key)?;
    let architecture = architecture.with_context(|| format!("{path}: `{key}` is missing"))?;
    let number = |name: &str| -> anyhow::Result<Option<usize>> {
        let key = format!("{architecture}.{name}");
        let number = metadata.integer(&key)?;
        number
            .map(|number| {
                let wrong = || format!("{path}: `{}` is {number}", escape(&key));
                usize::try_from(number).with_context(wrong)
            })
            .transpose()
    };
    // Some models have a list, one number for each layer; none of them is told apart by it.
    let heads = |name| number(name).ok().flatten().unwrap_or(0);
    let layers = number("block_count")?;
    let layers = layers.with_context(|| {
        format!(
            "{path}: `{}.block_count` is missing, the number of layers",
            escape(architecture)
        )
    })?;
    let values = ["attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"];
    let is_values = |tensor: &&&Tensor| values.iter().any(|name| tensor.name.contains(name));
    Ok(Model {
        architecture: architecture.to_owned(),
        layers,
        experts: number("expert_count")?.unwrap_or(0),
        heads: heads("attention.head_count"),
        key_value_heads: heads("attention.head_count_kv"),
        has_output: tensors.iter().any(|tensor| tensor.name == "output.weight"),
        values: tensors.iter().filter(is_values).count(),
    })
}

/// Returns the types of all tensors, in their order.
fn plan<'a>(
    tensors: &[&'a Tensor],
    model: &Model,
    target: Target,
) -> anyhow::Result<Vec<Change<'a>>> {
    let mut chooser = Chooser::new(model, target);
    let changes = tensors.iter().map(|&tensor| {
        let name = escape(&tensor.name);
        let from = Kind::of(tensor.id).with_context(|| {
            format!("tensor `{name}` is in a type that is neither quantised nor copied, number {} of ggml", tensor.id)
        })?;
        let columns = tensor.dims.first().copied().unwrap_or(1);
        let to = match is_quantised(&tensor.name, &tensor.dims) {
            true => chooser.choose(&tensor.name, columns),
            false => from,
        };
        if from != to && !matches!(from, Kind::Float(_)) {
            bail!(
                "tensor `{name}` is already in {from} and would become {to}; quantise the file of floats that this one \
                 was made from, in F32, F16 or BF16"
            );
        }
        let elements = tensor.dims.iter().try_fold(1_u64, |all, &side| all.checked_mul(side));
        let bytes = elements.and_then(|elements| to.bytes(elements));
        let bytes = bytes.with_context(|| format!("tensor `{name}` has too many elements"))?;
        Ok(Change {
            tensor,
            from,
            to,
            bytes,
        })
    });
    changes.collect()
}

/// Reads a tensor, and encodes it if its type changes.
fn converted(source: &mut File, begin: u64, change: &Change<'_>) -> anyhow::Result<Vec<u8>> {
    let Change {
        tensor, from, to, ..
    } = change;
    let elements: u64 = tensor.dims.iter().product();
    let bytes = from.bytes(elements);
    let bytes = bytes.with_context(|| format!("tensor `{}` is cut off", escape(&tensor.name)))?;
    // The file was checked to be as long.
    let mut read = vec![0; usize::try_from(bytes)?];
    source.seek(SeekFrom::Start(begin))?;
    source.read_exact(&mut read)?;
    match from {
        Kind::Float(dtype) if from != to && elements > 0 => {
            let floats = Floats {
                name: &tensor.name,
                dtype: *dtype,
                bytes: &read,
                columns: tensor.dims[0] as usize,
            };
            floats.in_kind(*to)
        }
        _ => Ok(read),
    }
}

/// Returns the sizes before and after, and the types.
fn summary(changes: &[Change<'_>]) -> String {
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    let (mut types, mut before, mut after) = (BTreeMap::new(), 0, 0);
    let mut halves = Vec::new();
    for change in changes {
        let elements: u64 = change.tensor.dims.iter().product();
        before += change.from.bytes(elements).unwrap_or(0);
        after += change.bytes;
        *types.entry(change.to.to_string()).or_insert(0) += 1;
        if change.to == Kind::Float(kernels_quant::Dtype::F16) && change.from != change.to {
            halves.push(change.tensor.name.as_str());
        }
    }
    let types: Vec<String> = (types.iter())
        .map(|(kind, count)| format!("{count} in {kind}"))
        .collect();
    let odd = match halves.first() {
        Some(name) => format!(
            "; rows of {} tensors, such as `{}`, are not multiples of 32 and became halves",
            halves.len(),
            escape(name)
        ),
        None => String::new(),
    };
    let (before, after, types) = (size(before), size(after), types.join(", "));
    format!("{after}, before {before}; tensors: {types}{odd}")
}
