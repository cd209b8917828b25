//! One safetensors file, and the file that is written in its place.

use super::bnb::Method;
use super::encode::Floats;
use super::layers;
use anyhow::{Context, ensure};
use kernels_io::header::Header;
use kernels_io::{escape, escape_path};
use kernels_quant::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An opened file of a checkpoint.
pub struct Shard {
    pub path: PathBuf,
    pub file: File,
    /// The offset of the tensors' bytes.
    pub start: u64,
    /// In the order of the file.
    pub tensors: Vec<(String, TensorInfo)>,
}

/// A tensor of a file, and the tensors that replace it.
struct Change<'a> {
    name: &'a str,
    info: &'a TensorInfo,
    /// The layer whose weight it is, and the type of its floats, if it is quantised.
    layer: Option<(&'a str, Dtype)>,
    /// The new tensors.
    parts: Vec<New>,
}

/// A tensor of a new file.
#[derive(Clone)]
struct New {
    name: String,
    dtype: safetensors::Dtype,
    shape: Vec<usize>,
    bytes: usize,
}

/// The tensors of a new file.
pub struct Written {
    pub names: Vec<String>,
    pub bytes: u64,
    /// The number of quantised weights.
    pub quantised: usize,
}

/// Returns a type of floats that weights are quantised from.
pub fn float(dtype: safetensors::Dtype) -> Option<Dtype> {
    match dtype {
        safetensors::Dtype::F16 => Some(Dtype::F16),
        safetensors::Dtype::BF16 => Some(Dtype::BF16),
        safetensors::Dtype::F32 => Some(Dtype::F32),
        _ => None,
    }
}

/// Returns the type of a part in a file.
fn stored(dtype: Dtype) -> safetensors::Dtype {
    match dtype {
        Dtype::U8 => safetensors::Dtype::U8,
        Dtype::I8 => safetensors::Dtype::I8,
        Dtype::F32 => safetensors::Dtype::F32,
        other => unreachable!("no part of bitsandbytes is {other}"),
    }
}

impl Shard {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if it is not a safetensors file.
    pub fn open(path: PathBuf) -> anyhow::Result<Self> {
        let mut file = kernels_io::open(&path)?;
        let length = file.metadata().with_context(|| escape_path(&path))?.len();
        let header = Header::read(&mut file, length).with_context(|| escape_path(&path))?;
        let mut tensors: Vec<(String, TensorInfo)> = (header.metadata.tensors().into_iter())
            .map(|(name, info)| (name, info.clone()))
            .collect();
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        Ok(Self {
            path,
            file,
            start: header.start,
            tensors,
        })
    }

    /// Returns whether the file is the only one of a checkpoint, by its name.
    pub fn is_single(&self) -> bool {
        self.path
            .file_name()
            .is_some_and(|name| name == "model.safetensors")
    }

    /// Returns the number of bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        let length = |info: &TensorInfo| (info.data_offsets.1 - info.data_offsets.0) as u64;
        self.tensors.iter().map(|(_, info)| length(info)).sum()
    }

    /// Writes the new file, one tensor after another.
    ///
    /// # Errors
    /// Returns an error if a weight has no code or the system fails.
    pub fn quantise(&mut self, method: Method, to: &Path) -> anyhow::Result<Written> {
        let changes = self
            .tensors
            .iter()
            .map(|(name, info)| change(name, info, method));
        let changes = changes.collect::<anyhow::Result<Vec<_>>>();
        let changes = changes.with_context(|| escape_path(&self.path))?;
        let parts = || changes.iter().flat_map(|change| &change.parts);
        let (header, places) = header(parts().cloned().collect())?;
        let mut out = Out::create(to, &header)?;
        for change in &changes {
            let pieces = converted(&mut self.file, self.start, change, method);
            let pieces = pieces.with_context(|| escape_path(&self.path))?;
            for (part, bytes) in change.parts.iter().zip(pieces) {
                out.write(places[&part.name], &bytes)?;
            }
        }
        out.finish()?;
        Ok(Written {
            names: parts().map(|part| part.name.clone()).collect(),
            bytes: parts().map(|part| part.bytes as u64).sum(),
            quantised: changes
                .iter()
                .filter(|change| change.layer.is_some())
                .count(),
        })
    }
}

/// Returns the tensors that replace one.
fn change<'a>(name: &'a str, info: &'a TensorInfo, method: Method) -> anyhow::Result<Change<'a>> {
    let Some(layer) = layers::quantised(name, &info.shape) else {
        let same = New {
            name: name.to_owned(),
            dtype: info.dtype,
            shape: info.shape.clone(),
            bytes: info.data_offsets.1 - info.data_offsets.0,
        };
        return Ok(Change {
            name,
            info,
            layer: None,
            parts: vec![same],
        });
    };
    let shown = escape(name);
    let shape = [info.shape[0], info.shape[1]];
    ensure!(!shape.contains(&0), "tensor `{shown}` has no elements");
    let dtype = float(info.dtype).with_context(|| {
        format!(
            "tensor `{shown}` is {}; weights are quantised from F16, BF16 and F32",
            info.dtype
        )
    })?;
    let part = |part: kernels_quant::PartSpec| New {
        name: format!("{layer}.{}", part.name),
        dtype: stored(part.dtype),
        bytes: part.bytes(),
        shape: part.shape,
    };
    Ok(Change {
        name,
        info,
        layer: Some((layer, dtype)),
        parts: method.parts(shape, dtype).into_iter().map(part).collect(),
    })
}

/// Reads a tensor, and returns the bytes of the tensors that replace it.
fn converted(
    file: &mut File,
    start: u64,
    change: &Change<'_>,
    method: Method,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let (begin, end) = change.info.data_offsets;
    // The header was compared with the length of the file.
    let mut bytes = vec![0; end - begin];
    file.seek(SeekFrom::Start(start + begin as u64))?;
    file.read_exact(&mut bytes)?;
    match change.layer {
        None => Ok(vec![bytes]),
        Some((_, dtype)) => method.encode(Floats {
            name: change.name,
            dtype,
            bytes: &bytes,
            columns: change.info.shape[1],
        }),
    }
}

/// Returns the beginning of a file, and the place of each tensor in it. Tensors with larger elements come first, so
/// that each is aligned, as readers in Python require.
fn header(mut tensors: Vec<New>) -> anyhow::Result<(Vec<u8>, HashMap<String, u64>)> {
    tensors.sort_by_key(|tensor| Reverse(tensor.dtype.bitsize()));
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let begin = end;
        end += tensor.bytes;
        let info = TensorInfo {
            dtype: tensor.dtype,
            shape: tensor.shape,
            data_offsets: (begin, end),
        };
        infos.push((tensor.name, info));
    }
    let places = infos
        .iter()
        .map(|(name, info)| (name.clone(), info.data_offsets.0));
    let places: Vec<(String, usize)> = places.collect();
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(format), infos)?;
    let mut text = serde_json::to_vec(&metadata)?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    let start = header.len();
    let places = places
        .into_iter()
        .map(|(name, begin)| (name, (start + begin) as u64));
    let places = places.collect();
    Ok((header, places))
}

/// A file of a folder that is not published yet.
struct Out {
    path: PathBuf,
    file: File,
}

impl Out {
    fn create(path: &Path, header: &[u8]) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let mut out = Self {
            path: path.to_owned(),
            file: file.with_context(|| escape_path(path))?,
        };
        out.write(0, header)?;
        Ok(out)
    }

    fn write(&mut self, begin: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let placed = self.file.seek(SeekFrom::Start(begin));
        let written = placed.and_then(|_| self.file.write_all(bytes));
        written.with_context(|| escape_path(&self.path))
    }

    fn finish(self) -> anyhow::Result<()> {
        self.file
            .sync_all()
            .with_context(|| escape_path(&self.path))
    }
}
