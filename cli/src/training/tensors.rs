//! The parameters that a run trains, and their optimiser's state, as one safetensors file.
//!
//! For each parameter the file holds `weight`, `moment_1` and `moment_2`, each with the parameter's shape in memory, and
//! `time`, the number of its steps. Parameters that are not trained are not in it.

use super::optimiser::Optimiser;
use super::plan::MOST_STEPS;
use anyhow::{Context, bail, ensure};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::{AdamWState, AdaptiveMomentumState};
use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use kernels_io::header::Header;
use safetensors::Dtype;
use safetensors::tensor::View;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

const WEIGHT: &str = "weight";
const MOMENTS: [&str; 2] = ["moment_1", "moment_2"];
const TIME: &str = "time";

/// Writes the trained parameters of a module and their state to a new file, and flushes it. One tensor at a time is
/// copied to the host.
///
/// # Errors
/// Returns an error if the system or the device fails.
pub fn write<M: Module>(path: &Path, module: &M, optimiser: &Optimiser) -> anyhow::Result<()> {
    let mut collect = Collect {
        place: Place::default(),
        optimiser,
        tensors: Vec::new(),
        failure: Rc::default(),
        unknown: None,
    };
    module.visit(&mut collect);
    if let Some(unknown) = collect.unknown {
        bail!("parameters of type {unknown:?} can't be stored; train in f32 or bf16");
    }
    let shown = || format!("cannot write {}", kernels_io::escape_path(path));
    let written = safetensors::serialize_to_file(collect.tensors, None, path);
    if let Some(failure) = collect.failure.take() {
        bail!("cannot read a parameter from the device: {failure}");
    }
    written.with_context(shown)?;
    File::open(path)
        .and_then(|file| file.sync_all())
        .with_context(shown)
}

/// Replaces the trained parameters of a module, and their state, by those of a file.
///
/// # Errors
/// Returns an error if the file can't be read, or if it is not of these parameters.
pub fn read<M: Module>(
    path: &Path,
    module: M,
    optimiser: &mut Optimiser,
    device: &Device,
) -> anyhow::Result<M> {
    let stored = Stored::open(path).with_context(|| kernels_io::escape_path(path))?;
    let mut replace = Replace {
        place: Place::default(),
        stored,
        optimiser,
        device,
        failure: None,
        read: 0,
    };
    let module = module.map(&mut replace);
    let count = replace.stored.header.metadata.tensors().len();
    if replace.failure.is_none() && replace.read != count {
        replace.failure = Some(anyhow::anyhow!(
            "{count} tensors are there, of which this model has {}",
            replace.read
        ));
    }
    match replace.failure {
        Some(failure) => Err(failure.context(kernels_io::escape_path(path))),
        None => Ok(module),
    }
}

/// The names of the fields on the way to a parameter.
#[derive(Default)]
struct Place(Vec<String>);

impl Place {
    fn name(&self, what: &str) -> String {
        format!("{}/{what}", self.0.join("."))
    }
}

/// A tensor that is copied to the host when it is written.
struct Lazy {
    dtype: Dtype,
    shape: Vec<usize>,
    read: Box<dyn Fn() -> Result<TensorData, String>>,
    /// The first failure of all tensors of a file.
    failure: Rc<RefCell<Option<String>>>,
}

impl View for Lazy {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match (self.read)() {
            Ok(data) if data.as_bytes().len() == self.data_len() => data.as_bytes().to_vec().into(),
            read => {
                let error = read
                    .err()
                    .unwrap_or_else(|| "it has another size".to_owned());
                self.failure.borrow_mut().get_or_insert(error);
                // The file is not used.
                vec![0; self.data_len()].into()
            }
        }
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }
}

struct Collect<'a> {
    place: Place,
    optimiser: &'a Optimiser,
    tensors: Vec<(String, Lazy)>,
    failure: Rc<RefCell<Option<String>>>,
    unknown: Option<DType>,
}

impl Collect<'_> {
    fn add<const D: usize>(&mut self, what: &str, tensor: Tensor<D>) {
        let Some(dtype) = stored_dtype(tensor.dtype()) else {
            self.unknown.get_or_insert(tensor.dtype());
            return;
        };
        let shape = tensor.dims().to_vec();
        self.push(what, dtype, shape, move || {
            let data = tensor.clone().try_into_data();
            data.map_err(|error| error.to_string())
        });
    }

    fn push(
        &mut self,
        what: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        read: impl Fn() -> Result<TensorData, String> + 'static,
    ) {
        let tensor = Lazy {
            dtype,
            shape,
            read: Box::new(read),
            failure: Rc::clone(&self.failure),
        };
        self.tensors.push((self.place.name(what), tensor));
    }
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.place.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.place.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.base();
        if !tensor.is_require_grad() {
            return;
        }
        self.add(WEIGHT, tensor.inner());
        let Some(state) = self.optimiser.state::<D>(param.id) else {
            return;
        };
        let AdaptiveMomentumState {
            time,
            moment_1,
            moment_2,
            ..
        } = state.momentum.clone();
        for (what, moment) in MOMENTS.into_iter().zip([moment_1, moment_2]) {
            self.add(what, moment);
        }
        let time = time as i64;
        self.push(TIME, Dtype::I64, vec![1], move || {
            Ok(TensorData::new(vec![time], [1]))
        });
    }
}

/// An open file of tensors.
struct Stored {
    file: File,
    header: Header,
}

impl Stored {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let mut file = kernels_io::open(path)?;
        let length = file.metadata()?.len();
        let header = Header::read(&mut file, length)?;
        Ok(Self { file, header })
    }

    /// Returns a tensor of the given shape and type, or `None` if no tensor has this name.
    fn find(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
    ) -> anyhow::Result<Option<TensorData>> {
        let Some(info) = self.header.metadata.info(name) else {
            return Ok(None);
        };
        let shown = kernels_io::escape(name);
        ensure!(
            info.shape == shape,
            "`{shown}` has the shape {:?}, but this model needs {shape:?}",
            info.shape
        );
        let expected = if dtype == DType::I64 {
            Some(Dtype::I64)
        } else {
            stored_dtype(dtype)
        };
        ensure!(
            Some(info.dtype) == expected,
            "`{shown}` has the type {:?}, but this model needs {dtype:?}",
            info.dtype
        );
        let (begin, end) = info.data_offsets;
        let mut bytes = vec![0; end - begin];
        let start = self.header.start + begin as u64;
        self.file.seek(SeekFrom::Start(start))?;
        self.file.read_exact(&mut bytes)?;
        let bytes = Bytes::from_bytes_vec(bytes);
        Ok(Some(TensorData::from_bytes(bytes, shape.to_vec(), dtype)))
    }
}

struct Replace<'a> {
    place: Place,
    stored: Stored,
    optimiser: &'a mut Optimiser,
    device: &'a Device,
    failure: Option<anyhow::Error>,
    /// The number of tensors that were read.
    read: usize,
}

impl Replace<'_> {
    fn find<const D: usize>(
        &mut self,
        what: &str,
        shape: [usize; D],
        dtype: DType,
    ) -> anyhow::Result<Option<TensorData>> {
        let found = self.stored.find(&self.place.name(what), &shape, dtype)?;
        self.read += usize::from(found.is_some());
        Ok(found)
    }

    /// Reads the value of a parameter, and its state.
    fn replaced<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> anyhow::Result<TensorData> {
        let before = param.base();
        let (shape, dtype) = (before.dims(), before.dtype());
        let name = self.place.name(WEIGHT);
        let value = self.find(WEIGHT, shape, dtype)?;
        let value = value.with_context(|| format!("`{name}` is not there"))?;
        if let Some(time) = self.find(TIME, [1], DType::I64)? {
            let time = time.iter::<i64>().next().unwrap_or_default();
            let steps = usize::try_from(time)
                .ok()
                .filter(|steps| *steps <= MOST_STEPS);
            let time = steps.with_context(|| {
                format!(
                    "`{}` must be a number of steps, but is {time}",
                    self.place.name(TIME)
                )
            })?;
            let [first, second] = MOMENTS;
            let first = self.moment(first, shape, dtype)?;
            let second = self.moment(second, shape, dtype)?;
            let momentum = AdaptiveMomentumState::new(time, first, second);
            self.optimiser
                .set_state(param.id, AdamWState::new(momentum));
        }
        Ok(value)
    }

    fn moment<const D: usize>(
        &mut self,
        what: &str,
        shape: [usize; D],
        dtype: DType,
    ) -> anyhow::Result<Tensor<D>> {
        let moment = self.find(what, shape, dtype)?;
        let moment = moment.with_context(|| format!("`{}` is not there", self.place.name(what)))?;
        let device = self.device.clone().inner();
        Ok(Tensor::from_data(moment, (&device, dtype)))
    }
}

impl ModuleMapper for Replace<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.place.0.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.place.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failure.is_some() || !param.base().is_require_grad() {
            return param;
        }
        match self.replaced(&param) {
            Ok(value) => {
                let (id, before, mapper) = param.consume();
                let value = Tensor::from_data(value, (self.device, before.dtype()));
                Param::from_mapped_value(id, value.require_grad(), mapper)
            }
            Err(failure) => {
                self.failure = Some(failure);
                param
            }
        }
    }
}

fn stored_dtype(dtype: DType) -> Option<Dtype> {
    match dtype {
        DType::F16 => Some(Dtype::F16),
        DType::BF16 => Some(Dtype::BF16),
        DType::F32 => Some(Dtype::F32),
        DType::F64 => Some(Dtype::F64),
        _ => None,
    }
}
