//! The files of a checkpoint, with an index of their tensors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use kernels_io::Limit;
use kernels_quant::{Bnb4Bit, Encoding, Mxfp4, QuantConfig};
use serde_json::Value;

use super::file::{StoredTensor, TensorFile};
use super::left_out;
use super::matrices::{Matrices, Matrix};
use super::{CONFIG, INDEX, SINGLE};
use crate::ModelError;

/// The opened files of a checkpoint. As in `transformers`, their tensors are read whatever the index says of them.
pub(super) struct Shards {
    files: Vec<TensorFile>,
    /// The index in `files` by tensor name. Of two files with a tensor of the same name, the last counts.
    places: BTreeMap<String, usize>,
    /// The beginning of the names of a part of a checkpoint, which the names here lack.
    outer: &'static str,
    /// True if the files leave out the beginning [`MODEL`] of names.
    bare: bool,
    /// The weights that several tensors hold together.
    matrices: Matrices,
    remarks: Vec<String>,
}

/// The beginning of the names of all parameters but the output projection. A base model that was saved alone has names
/// without it.
const MODEL: &str = "model.";

/// The remark on such files.
const BARE: &str =
    "the names of the tensors lack `model.`, as in a base model that was saved alone";

impl Shards {
    /// Opens `model.safetensors`, or all files that `model.safetensors.index.json` lists. Returns the first error.
    pub(super) fn open(dir: &Path) -> Result<Self, ModelError> {
        Self::open_all(dir).map_err(|mut errors| errors.swap_remove(0))
    }

    /// Opens the same files, and returns every error.
    pub(super) fn open_all(dir: &Path) -> Result<Self, Vec<ModelError>> {
        // Opening the path checks that it is a file.
        let exists = |name| kernels_io::is_there(&dir.join(name));
        if exists(SINGLE) {
            let beside = exists(INDEX).then(|| {
                format!(
                    "{SINGLE} is read, and {INDEX} beside it is not; keep the one that is meant"
                )
            });
            return match TensorFile::open(&dir.join(SINGLE)) {
                Ok(file) => {
                    let mut shards = Self::of(file);
                    shards.remarks.extend(beside);
                    Ok(shards)
                }
                Err(error) => Err(vec![with_remark(error, beside)]),
            };
        }
        if exists(INDEX) {
            return Self::open_index(dir, &dir.join(INDEX));
        }
        Err(vec![no_weights(dir)])
    }

    /// Returns the only file of a checkpoint.
    pub(super) fn of(file: TensorFile) -> Self {
        Self::of_all(vec![file])
    }

    fn of_all(files: Vec<TensorFile>) -> Self {
        Self::within(files, "", true)
    }

    /// Returns the tensors of a part: those whose names begin with `outer`. `has_model` is true for a part whose parameters
    /// have names that begin with [`MODEL`].
    fn within(files: Vec<TensorFile>, outer: &'static str, has_model: bool) -> Self {
        let names = |file: &'_ TensorFile| -> Vec<String> {
            let own = file.names().filter_map(|name| name.strip_prefix(outer));
            own.map(str::to_owned).collect()
        };
        let names: Vec<Vec<String>> = files.iter().map(names).collect();
        let stored = || names.iter().flatten();
        let has_layers = |name: &String| {
            name.starts_with("layers.") || name.starts_with("language_model.layers.")
        };
        let bare =
            has_model && stored().any(has_layers) && !stored().any(|name| name.starts_with(MODEL));
        let places = names.iter().enumerate().flat_map(|(at, names)| {
            let names = names.iter();
            names.map(move |name| (full_name(name, bare), at))
        });
        Self {
            places: places.collect(),
            files,
            outer,
            bare,
            matrices: Matrices::default(),
            remarks: bare.then(|| BARE.to_owned()).into_iter().collect(),
        }
    }

    /// Returns the tensors of a part of a checkpoint, with the names that they have in files of the part alone. Their names
    /// begin with `outer`, and without that with [`MODEL`] if `has_model`.
    ///
    /// # Errors
    /// Returns an error if the files have no such tensor.
    pub(super) fn of_part(
        self,
        outer: &'static str,
        has_model: bool,
        dir: &Path,
    ) -> Result<Self, ModelError> {
        if outer.is_empty() && has_model {
            return Ok(self);
        }
        let others = self.names().filter(|name| !name.starts_with(outer));
        let others: Vec<&str> = others.collect();
        if others.len() == self.places.len() {
            let problem = format!(
                "holds no tensor `{outer}…`, though {CONFIG} is that of a whole with this part; use the {CONFIG} that \
                 belongs to the weights"
            );
            return Err(ModelError::Layout {
                dir: dir.into(),
                problem,
            });
        }
        let others =
            counted(&others).map(|names| format!("{names} of other parts, and not loaded"));
        let mut remarks = self.remarks;
        remarks.retain(|remark| remark != BARE);
        remarks.extend(others);
        let mut part = Self::within(self.files, outer, has_model);
        part.remarks.splice(0..0, remarks);
        Ok(part)
    }

    /// Finds the quantised weights, if the configuration says that there are any.
    pub(super) fn quantised(mut self, config: Option<QuantConfig>) -> Self {
        if let Some(QuantConfig {
            encoding,
            remarks,
            left_out,
        }) = config
        {
            let (encoding, other) = self.stored_encoding(encoding);
            self.remarks.extend(other);
            self.matrices = Matrices::find(encoding, self.names());
            // The stacks of MXFP4 are known by their names.
            if !self.is_quantised() && encoding != Mxfp4.into() {
                let unused = "no weight is stored so: weights are read as floats";
                let remark = format!("`quantization_config` says {encoding}, and {unused}");
                self.remarks.push(remark);
            }
            self.remarks.extend(remarks);
            if let Some(list) = left_out.filter(|_| self.is_quantised()) {
                let differences = left_out::differences(&list, &self.matrices, self.names());
                self.remarks.extend(differences);
            }
        }
        self
    }

    /// Returns the encoding that the files have. bitsandbytes' files name their kind of 4 bits, which counts, as in
    /// `transformers`. Also returns a remark if the configuration names the other kind.
    fn stored_encoding(&self, said: Encoding) -> (Encoding, Option<String>) {
        let other: Encoding = match said {
            Encoding::Bnb4Bit(Bnb4Bit::Nf4) => Bnb4Bit::Fp4.into(),
            Encoding::Bnb4Bit(Bnb4Bit::Fp4) => Bnb4Bit::Nf4.into(),
            _ => return (said, None),
        };
        let is_there = |encoding| !Matrices::find(encoding, self.names()).is_empty();
        match !is_there(said) && is_there(other) {
            true => {
                let remark = format!(
                    "`quantization_config` says {said}, but the weights are stored as {other}"
                );
                (other, Some(remark))
            }
            false => (said, None),
        }
    }

    /// Returns `true` if there are quantised weights of several tensors each.
    pub(super) fn is_quantised(&self) -> bool {
        !self.matrices.is_empty()
    }

    /// Returns the parts of a weight that is stored in quantised form.
    pub(super) fn matrix(&self, weight: &str) -> Option<Matrix<'_>> {
        let encoding = self.matrices.encoding(weight)?;
        Some(Matrix::of(self, weight, encoding))
    }

    /// Returns the file of a weight, or of the first of its parts.
    pub(super) fn file_of(&self, weight: &str) -> Option<&TensorFile> {
        match self.matrix(weight) {
            Some(matrix) => Some(matrix.file()),
            None => self.find(weight).map(|(file, _)| file),
        }
    }

    /// Returns the number of bytes of a weight.
    pub(super) fn bytes_of(&self, weight: &str) -> u64 {
        match self.matrix(weight) {
            Some(matrix) => matrix.bytes(),
            None => self.find(weight).map_or(0, |(_, info)| info.bytes as u64),
        }
    }

    fn open_index(dir: &Path, index: &Path) -> Result<Self, Vec<ModelError>> {
        let weight_map = read_weight_map(index).map_err(|error| vec![error])?;
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        for name in listed_files(&weight_map) {
            match TensorFile::open(&dir.join(name)) {
                Ok(file) => files.push(file),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut shards = Self::of_all(files);
        let contradictions = shards.contradictions(&weight_map);
        shards.remarks.extend(contradictions);
        Ok(shards)
    }

    /// Returns a remark on each kind of difference between the index and the files.
    fn contradictions(&self, weight_map: &BTreeMap<String, String>) -> Vec<String> {
        let (mut repeated, mut unlisted) = (Vec::new(), Vec::new());
        for (at, file) in self.files.iter().enumerate() {
            for name in file.names() {
                let taken = self.places.get(&full_name(name, self.bare)) == Some(&at);
                if !taken {
                    repeated.push(name);
                } else if !weight_map.contains_key(name) {
                    unlisted.push(name);
                }
            }
        }
        let files = self.files.iter();
        let files = files.filter_map(|file| Some((file.path().file_name()?, file)));
        let files: BTreeMap<&OsStr, &TensorFile> = files.collect();
        let here = |name: &str, file: &str| files[OsStr::new(file)].info(name).is_some();
        let listed = weight_map.iter();
        let absent = listed.filter(|(name, file)| !here(name, file));
        let absent: Vec<&str> = absent.map(|(name, _)| name.as_str()).collect();
        let kinds = [
            (repeated, "also in a later file, which is read"),
            (unlisted, &*format!("in a file, and not in {INDEX}")),
            (absent, &*format!("not in the file that {INDEX} names")),
        ];
        let remark =
            |(names, what): (Vec<&str>, &str)| Some(format!("{} {what}", counted(&names)?));
        kinds.into_iter().filter_map(remark).collect()
    }

    /// Returns the names of all tensors, with the beginning that the files may leave out.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Returns the name of a tensor in its file.
    pub(super) fn stored_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let name = match self.bare {
            true => name.strip_prefix(MODEL).unwrap_or(name),
            false => name,
        };
        match self.outer {
            "" => Cow::Borrowed(name),
            outer => Cow::Owned(format!("{outer}{name}")),
        }
    }

    /// Returns a name as errors show it: with the beginning that the names of a part lack.
    pub(super) fn shown_name(&self, name: &str) -> String {
        match self.outer {
            "" => name.to_owned(),
            _ => self.stored_name(name).into_owned(),
        }
    }

    /// Returns remarks on peculiarities of the files that don't keep them from being read.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(super) fn files(&self) -> &[TensorFile] {
        &self.files
    }

    /// Returns a tensor's file and description.
    pub(super) fn find(&self, name: &str) -> Option<(&TensorFile, &StoredTensor)> {
        let file = &self.files[*self.places.get(name)?];
        Some((file, file.info(&self.stored_name(name))?))
    }

    /// Returns every file that has tensors, with the name of one of them.
    #[cfg(feature = "remote")]
    pub(super) fn samples(&self) -> Vec<(&Path, Cow<'_, str>)> {
        let mut samples: Vec<Option<&str>> = vec![None; self.files.len()];
        for (name, file) in &self.places {
            samples[*file].get_or_insert(name);
        }
        let files = self.files.iter().zip(samples);
        files
            .filter_map(|(file, name)| Some((file.path(), self.stored_name(name?))))
            .collect()
    }

    /// Returns the file that an error about a missing tensor names: the only one, or the index.
    pub(super) fn whole(&self, dir: &Path) -> std::path::PathBuf {
        match self.files.as_slice() {
            [only] => only.path().into(),
            _ => dir.join(INDEX),
        }
    }
}

/// Returns the files with the weights of a directory in Hugging Face layout: `model.safetensors`, or those that
/// `model.safetensors.index.json` lists, which are in the same directory. They are not opened.
///
/// # Errors
///
/// Returns an error if the directory has neither, or if the index names other files.
pub fn weight_files(dir: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let exists = |name| kernels_io::is_there(&dir.join(name));
    match (exists(SINGLE), exists(INDEX)) {
        (true, _) => Ok(vec![dir.join(SINGLE)]),
        (false, true) => {
            let weight_map = read_weight_map(&dir.join(INDEX))?;
            let files = listed_files(&weight_map).into_iter();
            Ok(files.map(|name| dir.join(name)).collect())
        }
        (false, false) => Err(no_weights(dir)),
    }
}

/// Returns the names of files in an index, each once.
fn listed_files(weight_map: &BTreeMap<String, String>) -> Vec<&String> {
    let mut names: Vec<&String> = weight_map.values().collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the error of a directory without weights.
fn no_weights(dir: &Path) -> ModelError {
    let exists = |name| kernels_io::is_there(&dir.join(name));
    let hint = if exists("pytorch_model.bin") || exists("pytorch_model.bin.index.json") {
        "; pytorch_model.bin is not read, convert it to safetensors"
    } else {
        ""
    };
    ModelError::Layout {
        dir: dir.into(),
        problem: format!("holds neither {SINGLE} nor {INDEX}{hint}"),
    }
}

/// Reads the map from tensor names to file names.
fn read_weight_map(index: &Path) -> Result<BTreeMap<String, String>, ModelError> {
    // The largest models have a few hundred thousand tensors.
    const LIMIT: Limit = Limit::mib("an index", 64);
    let text = kernels_io::read_text(index, LIMIT)?;
    let root: Value = serde_json::from_str(&text).map_err(|source| ModelError::Json {
        file: index.into(),
        source,
    })?;
    let fail = |field: String, problem: &str| Err(ModelError::field(index, field, problem));
    let Some(map) = root.get("weight_map").and_then(Value::as_object) else {
        return fail(
            "weight_map".into(),
            "expected an object from tensor names to file names",
        );
    };
    let mut weight_map = BTreeMap::new();
    for (name, file) in map {
        let field = format!("weight_map.{name}");
        let Some(file) = file.as_str() else {
            return fail(field, "expected a file name");
        };
        if !is_plain_name(file) {
            let problem = format!("`{file}` is not the plain name of a file in the same directory");
            return fail(field, &problem);
        }
        weight_map.insert(name.clone(), file.to_owned());
    }
    Ok(weight_map)
}

/// Returns `true` for the plain name of a file. An index comes from outside and must not open files elsewhere.
fn is_plain_name(file: &str) -> bool {
    let mut components = Path::new(file).components();
    let first_is_name = matches!(components.next(), Some(Component::Normal(_)));
    first_is_name && components.next().is_none() && !file.contains(['/', '\\'])
}

/// Returns the name of a stored tensor in a checkpoint that leaves nothing out.
fn full_name(stored: &str, bare: bool) -> String {
    match bare && !stored.starts_with("lm_head.") {
        true => format!("{MODEL}{stored}"),
        false => stored.to_owned(),
    }
}

/// Adds a remark to the problem with a file.
fn with_remark(error: ModelError, remark: Option<String>) -> ModelError {
    match (error, remark) {
        (ModelError::Safetensors { file, problem }, Some(remark)) => ModelError::Safetensors {
            file,
            problem: format!("{problem}; {remark}"),
        },
        (error, _) => error,
    }
}

/// Returns the beginning of a remark on tensors: `2 tensors, such as `a`, are`. Returns `None` for none.
pub(super) fn counted(names: &[&str]) -> Option<String> {
    let name = kernels_io::escape(names.first()?);
    Some(match names.len() {
        1 => format!("tensor `{name}` is"),
        count => format!("{count} tensors, such as `{name}`, are"),
    })
}
