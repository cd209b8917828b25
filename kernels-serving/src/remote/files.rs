//! The weights that a server reads for its clients.

use burn::tensor::{Bytes, DType, TensorData};
use bytemuck::Pod;
use kernels_io::header;
use kernels_runtime::registry::FloatType;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The folders whose safetensors files a server reads. Without folders, it reads no files.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    folders: Vec<PathBuf>,
    headers: Arc<Mutex<HashMap<PathBuf, Arc<Header>>>>,
}

/// The header of a file, which is valid until the file changes.
#[derive(Debug)]
struct Header {
    length: u64,
    modified: SystemTime,
    metadata: Metadata,
    /// The offset at which the tensors' bytes begin.
    start: u64,
}

/// The description of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

/// Returns the type of a stored tensor of floats.
pub(super) fn floats(name: &str, dtype: Dtype) -> Result<FloatType, String> {
    match dtype {
        Dtype::F64 => Ok(FloatType::F64),
        Dtype::F32 => Ok(FloatType::F32),
        Dtype::F16 => Ok(FloatType::F16),
        Dtype::BF16 => Ok(FloatType::Bf16),
        other => Err(format!("`{name}` is stored as {other:?}, not as floats")),
    }
}

impl Files {
    /// # Errors
    /// Returns the first path that does not exist or is not a folder, and the system's error.
    pub(super) fn in_folders(folders: &[PathBuf]) -> Result<Self, (PathBuf, std::io::Error)> {
        let real = |folder: &PathBuf| {
            // This checks that the folder can be read, without reading its entries.
            let real = std::fs::canonicalize(folder)
                .and_then(|real| std::fs::read_dir(&real).map(|_| real));
            real.map_err(|error| (folder.clone(), error))
        };
        Ok(Self {
            folders: folders.iter().map(real).collect::<Result<_, _>>()?,
            headers: Arc::default(),
        })
    }

    /// Returns the file, without links and `..`, if it is in one of the folders. For a path elsewhere, the answer does
    /// not reveal whether the file exists. The path has to be a regular file, because opening a pipe would block.
    fn allowed(&self, path: &str) -> Result<PathBuf, String> {
        let real = std::fs::canonicalize(path).ok();
        real.filter(|real| self.folders.iter().any(|folder| real.starts_with(folder)))
            .filter(|real| real.is_file())
            .ok_or_else(|| {
                format!("{path} is not a file in the folders that the server reads weights from")
            })
    }

    /// Returns the description of the tensor with this name in the file.
    pub(super) fn look(&self, path: &str, name: &str) -> Result<Stored, String> {
        let (_, header) = self.open(path)?;
        let info = header.info(path, name)?;
        Ok(Stored {
            dtype: info.dtype,
            shape: info.shape.clone(),
        })
    }

    /// Returns the values of a tensor, in the stored type.
    pub(super) fn read(&self, path: &str, name: &str) -> Result<TensorData, String> {
        let (mut file, header) = self.open(path)?;
        let info = header.info(path, name)?;
        let begin = header.start + info.data_offsets.0 as u64;
        file.seek(SeekFrom::Start(begin))
            .map_err(|error| format!("{path}: {error}"))?;
        let float = floats(name, info.dtype).map_err(|problem| format!("{path}: {problem}"))?;
        let dtype = float.dtype();
        let read = match float {
            FloatType::F64 => values::<u64>(&mut file, &info.shape, dtype),
            FloatType::F32 => values::<u32>(&mut file, &info.shape, dtype),
            FloatType::F16 | FloatType::Bf16 => values::<u16>(&mut file, &info.shape, dtype),
        };
        read.map_err(|error| format!("{path}: `{name}`: {error}"))
    }

    fn open(&self, path: &str) -> Result<(File, Arc<Header>), String> {
        let real = self.allowed(path)?;
        let fail = |error: std::io::Error| format!("{path}: {error}");
        let mut file = kernels_io::open(&real).map_err(|error| error.to_string())?;
        let facts = file.metadata().map_err(fail)?;
        let (length, modified) = (facts.len(), facts.modified().map_err(fail)?);
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(header) = headers.get(&real)
            && (header.length, header.modified) == (length, modified)
        {
            return Ok((file, Arc::clone(header)));
        }
        let header = Header::read(&mut file, length, modified);
        let header = Arc::new(header.map_err(|problem| format!("{path}: {problem}"))?);
        headers.insert(real, Arc::clone(&header));
        Ok((file, header))
    }
}

impl Header {
    fn read(file: &mut File, length: u64, modified: SystemTime) -> Result<Self, String> {
        let read = header::Header::read(file, length).map_err(|error| error.to_string())?;
        Ok(Self {
            length,
            modified,
            metadata: read.metadata,
            start: read.start,
        })
    }

    fn info(&self, path: &str, name: &str) -> Result<&safetensors::tensor::TensorInfo, String> {
        let info = self.metadata.info(name);
        info.ok_or_else(|| format!("{path} holds no tensor `{name}`"))
    }
}

/// Reads directly into the memory of the tensor. `T` is an integer type of the elements' width. The system provides
/// zeroed memory of it without writing zeros.
fn values<T: Pod + Send + Sync>(
    file: &mut File,
    shape: &[usize],
    dtype: DType,
) -> std::io::Result<TensorData>
where
    Vec<T>: Zeros,
{
    let mut values = Vec::<T>::zeros(shape.iter().product());
    file.read_exact(bytemuck::cast_slice_mut(&mut values))?;
    Ok(TensorData::from_bytes(
        Bytes::from_elems(values),
        shape,
        dtype,
    ))
}

/// A type that can make `vec![0; n]`. The standard library takes such memory from the system without writing zeros, but
/// only for concrete types, not for a type parameter.
trait Zeros {
    fn zeros(count: usize) -> Self;
}

macro_rules! zeros {
    ($($int:ty),*) => {
        $(impl Zeros for Vec<$int> {
            fn zeros(count: usize) -> Self {
                vec![0; count]
            }
        })*
    };
}

zeros!(u16, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("kernels-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn write(path: &Path, values: &[f32]) {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![values.len()], &bytes);
        let file = safetensors::serialize([("w", view.unwrap())], None).unwrap();
        std::fs::write(path, file).unwrap();
    }

    #[test]
    fn tensors_are_read_from_allowed_folders_alone() {
        let (allowed, other) = (folder("allowed"), folder("other"));
        let inside = allowed.join("a.safetensors");
        let outside = other.join("b.safetensors");
        write(&inside, &[1.0, -2.5]);
        write(&outside, &[3.0]);
        std::os::unix::fs::symlink(&outside, allowed.join("link.safetensors")).unwrap();
        let files = Files::in_folders(std::slice::from_ref(&allowed)).unwrap();
        let data = files.read(inside.to_str().unwrap(), "w").unwrap();
        assert_eq!(data, TensorData::from([1.0_f32, -2.5]));
        let around = allowed
            .join("..")
            .join(other.file_name().unwrap())
            .join("b.safetensors");
        let absent = other.join("absent");
        let link = allowed.join("link.safetensors");
        // A folder is not a regular file. Neither is a socket, which would block or fail in its own way.
        let socket = allowed.join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [outside, around, link, absent, allowed.clone(), socket] {
            let message = files.read(path.to_str().unwrap(), "w").unwrap_err();
            assert!(
                message.contains("is not a file in the folders"),
                "{message}"
            );
        }
        assert!(
            files
                .read(inside.to_str().unwrap(), "v")
                .unwrap_err()
                .contains("`v`")
        );
        assert!(
            Files::default()
                .read(inside.to_str().unwrap(), "w")
                .is_err()
        );
        // The header is read again after the file has changed.
        write(&inside, &[4.0, 5.0, 6.0]);
        assert_eq!(
            files.look(inside.to_str().unwrap(), "w").unwrap().shape,
            [3]
        );
        std::fs::write(&inside, b"garbage").unwrap();
        assert!(files.look(inside.to_str().unwrap(), "w").is_err());
        for folder in [allowed, other] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
