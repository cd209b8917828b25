//! A new GGUF file, one tensor after another.

use super::encode::Floats;
use super::head::Head;
use super::importance::Importance;
use super::kind::Kind;
use super::types::{Chooser, Model, Target, is_quantised, layer};
use anyhow::{Context, bail};
use bytesize::ByteSize;
use kernels_io::{NewFile, escape, escape_path};
use kernels_models::gguf::Change;
use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, decode_floats};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A tensor of a new file, and the place of its numbers.
#[derive(Debug)]
pub struct Input {
    /// The name in the new file.
    pub name: String,
    /// The length of rows first.
    pub dims: Vec<u64>,
    /// The type before.
    pub from: Kind,
    /// The type after, of a tensor that is never quantised.
    pub plain: Kind,
    pub place: Place,
    /// The change of its rows or numbers in the new file.
    pub change: Change,
}

/// The place of a tensor's bytes.
#[derive(Debug)]
pub enum Place {
    /// The number of a file among those of the model, and the offset there. The file was checked to be as long.
    File(usize, u64),
    Memory(Vec<u8>),
}

/// An input with its type after, and the number of its bytes after.
pub struct Planned<'a> {
    input: &'a Input,
    to: Kind,
    bytes: u64,
    /// The importance of each column, of one matrix after another, if it is known and chooses codes.
    importance: Option<Vec<f32>>,
}

/// Compares names as llama.cpp orders tensors: by layer, with those of no layer first, and then by name.
pub fn by_layer(a: &str, b: &str) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// Returns the types of all tensors, in their order.
///
/// # Errors
/// Returns an error that names a tensor which can't be quantised, or if no tensor is in the importance matrix.
pub fn plan<'a>(
    inputs: &'a [Input],
    model: &Model,
    target: Target,
    importance: Option<&Importance>,
) -> anyhow::Result<Vec<Planned<'a>>> {
    let mut chooser = Chooser::new(model, target);
    let changes = inputs.iter().map(|input| {
        let (name, from) = (escape(&input.name), input.from);
        let columns = input.dims.first().copied().unwrap_or(1);
        let to = match is_quantised(&input.name, &input.dims) {
            true => chooser.choose(&input.name, columns),
            false => input.plain,
        };
        if from != to && !matches!(from, Kind::Float(_)) {
            bail!(
                "tensor `{name}` is already in {from} and would become {to}; quantise the file of floats that this one \
                 was made from, in F32, F16 or BF16"
            );
        }
        let elements = input.dims.iter().try_fold(1_u64, |all, &side| all.checked_mul(side));
        let bytes = elements.and_then(|elements| to.bytes(elements));
        let bytes = bytes.with_context(|| format!("tensor `{name}` has too many elements"))?;
        let importance = match (importance, to) {
            // These have the same codes without it.
            (_, Kind::Block(Block::Q8_0 | Block::Mxfp4)) => None,
            (Some(own), Kind::Block(_)) if from != to => own.of(&input.name, &input.dims)?,
            _ => None,
        };
        Ok(Planned { input, to, bytes, importance })
    });
    let changes = changes.collect::<anyhow::Result<Vec<Planned<'a>>>>()?;
    if let Some(own) = importance
        && changes.iter().all(|own| own.importance.is_none())
    {
        bail!(
            "{}: no weight that is quantised has an entry there; the file is of another model",
            escape_path(own.path())
        );
    }
    Ok(changes)
}

/// Writes the whole file: its beginning with the metadata of `head`, and the tensors, whose bytes are read from `files`.
///
/// # Errors
/// Returns an error if a number has no code, with the path `origin`, or if the system fails.
pub fn write(
    origin: &Path,
    out: &mut NewFile,
    head: &Head,
    target: Target,
    planned: &[Planned<'_>],
    files: &mut [File],
) -> anyhow::Result<()> {
    let listed: Vec<_> = (planned.iter())
        .map(|own| {
            let Input { name, dims, .. } = own.input;
            (name.as_str(), dims.as_slice(), own.to, own.bytes)
        })
        .collect();
    out.write(&head.with(target.file_type(), &listed))?;
    for own in planned {
        let bytes = converted(files, own).with_context(|| escape_path(origin))?;
        out.write(&bytes)?;
        let padding = own.bytes.next_multiple_of(head.alignment) - own.bytes;
        out.write(&vec![0; padding as usize])?;
    }
    Ok(())
}

/// Reads a tensor, changes it, and encodes it if its type changes.
fn converted(files: &mut [File], planned: &Planned<'_>) -> anyhow::Result<Vec<u8>> {
    let Planned {
        input,
        to,
        importance,
        ..
    } = planned;
    let elements: u64 = input.dims.iter().product();
    let mut bytes = match &input.place {
        Place::Memory(bytes) => bytes.clone(),
        Place::File(file, begin) => {
            let length = input.from.bytes(elements);
            let name = || format!("tensor `{}` is cut off", escape(&input.name));
            let length = length.with_context(name)?;
            let mut bytes = vec![0; usize::try_from(length)?];
            files[*file].seek(SeekFrom::Start(*begin))?;
            files[*file].read_exact(&mut bytes)?;
            bytes
        }
    };
    let mut from = input.from;
    match (input.change, from) {
        (Change::None, _) => {}
        (Change::PairedRows(heads), _) => bytes = paired(&bytes, &input.dims, heads),
        (Change::PlusOne, Kind::Float(dtype)) => {
            bytes = plus_one(dtype, &bytes);
            from = Kind::Float(Dtype::F32);
        }
        (Change::PlusOne, _) => bail!("tensor `{}` does not hold floats", escape(&input.name)),
    }
    match from {
        Kind::Float(dtype) if from != *to && elements > 0 => {
            let floats = Floats {
                name: &input.name,
                dtype,
                bytes: &bytes,
                columns: input.dims[0] as usize,
            };
            match (to, importance) {
                (Kind::Block(block), Some(importance)) => by_importance(floats, *block, importance),
                _ => floats.in_kind(*to),
            }
        }
        _ => Ok(bytes),
    }
}

/// Encodes one matrix after another, each by the importance of its columns.
fn by_importance(floats: Floats<'_>, block: Block, importance: &[f32]) -> anyhow::Result<Vec<u8>> {
    let matrices = importance.len() / floats.columns;
    let each = floats.bytes.chunks(floats.bytes.len() / matrices);
    let each = each.zip(importance.chunks(floats.columns));
    let encoded = each.map(|(bytes, importance)| {
        let matrix = Floats { bytes, ..floats };
        matrix.by_importance(block, importance)
    });
    Ok(encoded.collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// Returns rows in the order of rotated pairs: in each head, a row of the first half and one of the second in turn. `dims`
/// are those of a matrix, or of a vector, whose elements are the rows.
fn paired(bytes: &[u8], dims: &[u64], heads: usize) -> Vec<u8> {
    let rows = dims.last().map_or(0, |&rows| rows as usize);
    let half = rows / heads / 2;
    let size = bytes.len().checked_div(rows).unwrap_or(0);
    let row = |at: usize| &bytes[at * size..(at + 1) * size];
    let pairs = (0..heads).flat_map(|head| (0..half).map(move |at| 2 * head * half + at));
    pairs
        .flat_map(|at| [row(at), row(at + half)].concat())
        .collect()
}

/// Returns numbers plus 1, in single precision.
fn plus_one(dtype: Dtype, bytes: &[u8]) -> Vec<u8> {
    let mut numbers = vec![0.0; bytes.len() / dtype.size()];
    decode_floats(dtype, bytes, &mut numbers);
    let sums = numbers.iter().map(|number| number + 1.0);
    sums.flat_map(f32::to_le_bytes).collect()
}

/// Returns the sizes before and after, and the types.
pub fn summary(planned: &[Planned<'_>]) -> String {
    let size = |bytes| ByteSize::b(bytes).display().iec().to_string();
    let (mut types, mut before, mut after) = (BTreeMap::new(), 0, 0);
    let mut halves = Vec::new();
    for Planned {
        input, to, bytes, ..
    } in planned
    {
        let elements: u64 = input.dims.iter().product();
        let is_quantised = is_quantised(&input.name, &input.dims);
        before += input.from.bytes(elements).unwrap_or(0);
        after += bytes;
        *types.entry(to.to_string()).or_insert(0) += 1;
        let columns = input.dims.first().copied().unwrap_or(1);
        if is_quantised && !columns.is_multiple_of(32) && *to == Kind::Float(Dtype::F16) {
            halves.push(input.name.as_str());
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
    let by_importance = planned.iter().filter(|own| own.importance.is_some());
    let important = match by_importance.count() {
        0 => String::new(),
        count => format!("; the codes of {count} are chosen by importance"),
    };
    let (before, after, types) = (size(before), size(after), types.join(", "));
    format!("{after}, before {before}; tensors: {types}{important}{odd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_heads_become_pairs() {
        // Two heads of four rows, of a matrix and of a vector.
        let rows: Vec<u8> = (0..16).collect();
        let expected = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];
        assert_eq!(paired(&rows, &[2, 8], 2), expected);
        let expected = [0, 2, 1, 3, 4, 6, 5, 7];
        assert_eq!(paired(&rows[..8], &[8], 2), expected);
    }

    #[test]
    fn one_is_added_in_single_precision() {
        let third = 1.0_f32 / 3.0;
        let sum = plus_one(Dtype::F32, &third.to_le_bytes());
        assert_eq!(sum, (third + 1.0).to_le_bytes());
        let half = half_bits(-0.25);
        assert_eq!(plus_one(Dtype::F16, &half), 0.75_f32.to_le_bytes());
    }

    fn half_bits(number: f32) -> [u8; 2] {
        let mut bytes = [0; 2];
        kernels_quant::encode_halves(&[number], &mut bytes).unwrap();
        bytes
    }
}
